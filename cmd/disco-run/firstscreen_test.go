// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/disco-sim/disco/internal/overviewtest"
	"github.com/disco-sim/disco/internal/pty"
	"github.com/disco-sim/disco/model/devstone"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
	"github.com/disco-sim/disco/scenario"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what the program says now")

// shown are the examples with a first screen, and the horizons that are enough to fill it, and to have its figures.
var shown = []struct {
	name, horizon, set string
	figures            float64
}{
	{"shop", "150", "", 30}, {"backbone", "24", "traffic.bits_per_second=50e6", 1}, {"jackson", "20000", "", 5000},
	{"md1", "60", "", 60}, {"mini", "300", "", 300}, {"phold", "20", "", 5}, {"devstone", "5", "", 5},
	{"supply", "400", "", 400},
}

// TestFirstScreenFigures: each figure of the first screen of every example is that of the JSON, with one replication
// and with several.
func TestFirstScreenFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates 10 M events")
	}
	registry, err := scenario.NewRegistry(service.Kind(), network.Kind(), queueing.Kind(), supply.Kind(), phold.Kind(),
		devstone.Kind())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range shown {
		t.Run(e.name, func(t *testing.T) {
			doc, err := scenario.ReadFile("../../examples/" + e.name + ".yml")
			if err == nil {
				doc, err = registry.Attach(doc, &scenario.Files{})
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := registry.Load(doc, scenario.Options{Horizon: e.figures})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 2} {
				if figures := overviewtest.Check(t, s, modeltest.Summarize(t, s, 1, n)); figures < 5 {
					t.Errorf("%d figures: the page is empty", figures)
				}
			}
		})
	}
}

// steady takes out of a first screen what differs from run to run.
var steady = []struct {
	pattern *regexp.Regexp
	in      string
}{
	{regexp.MustCompile(`in [0-9.e+-]+ s: [0-9.]+( [kMG])? (events|calls of handlers)/s \(and [0-9.e+-]+ s`),
		"in T s: R $2/s (and T s"},
	{regexp.MustCompile(`workers: CPU .* of the time`), "workers: CPU T to T s, blocked B to B % of the time"},
	{regexp.MustCompile(`the workers waited for each other: .* for each event`),
		"the workers waited for each other: P promises and J idle jumps for each event"},
}

// TestFirstScreens: what every example prints is one screen, and the one in testdata/firstscreen.
func TestFirstScreens(t *testing.T) {
	bin := build(t, "")
	for _, e := range shown {
		args := []string{"run", "../../examples/" + e.name + ".yml", "--horizon", e.horizon}
		if e.set != "" {
			args = append(args, "--set", e.set)
		}
		for _, more := range []string{"", "replicated"} {
			if more != "" {
				args = append(args, "--replications", "3")
			}
			out, err := exec.Command(bin, append(args, "--workers", "2", "--processors", "2")...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
			text := string(out)
			if n := strings.Count(text, "\n"); n > overview.Lines {
				t.Errorf("%v: %d lines, want at most %d:\n%s", args, n, overview.Lines, text)
			}
			for _, s := range steady {
				text = s.pattern.ReplaceAllString(text, s.in)
			}
			golden(t, filepath.Join("testdata/firstscreen", strings.TrimSuffix(e.name+"-"+more, "-")+".txt"), text)
		}
	}
}

// golden compares a text with a file, which -update writes anew.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: write it with -update", err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%swant\n%s", file, got, want)
	}
}

// onTerminal runs the program on a terminal of 60 columns, and gives what it shows there: standard output, or that and
// standard error.
func onTerminal(t *testing.T, both bool, bin string, env []string, args ...string) string {
	t.Helper()
	window, line, err := pty.Open()
	if err == nil {
		err = pty.Resize(line, 60, 24)
	}
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(window) // it fails when the last program that has the other side ends
		shown <- string(text)
	}()
	cmd := exec.Command(bin, args...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), line, &stderr
	if both {
		cmd.Stderr = line
	}
	err = cmd.Run()
	line.Close()
	text := <-shown
	window.Close()
	if err != nil {
		t.Errorf("%v: %v\n%s%s", args, err, stderr.String(), text)
	}
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// TestFirstScreenOnTerminal: on a terminal of 60 columns no line is longer, heads are bold unless NO_COLOR or a dumb
// terminal forbids it, and the screen has no more lines than anywhere.
func TestFirstScreenOnTerminal(t *testing.T) {
	bin := build(t, "")
	escape := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, c := range []struct {
		env      []string
		bold     bool
		examples []string
	}{
		{[]string{"NO_COLOR=", "TERM=xterm"}, true, []string{"shop", "backbone", "supply"}},
		{[]string{"NO_COLOR=1", "TERM=xterm"}, false, []string{"supply"}},
		{[]string{"NO_COLOR=", "TERM=dumb"}, false, []string{"shop"}},
	} {
		for _, example := range c.examples {
			text := onTerminal(t, false, bin, c.env, "run", "../../examples/"+example+".yml", "--horizon", "9")
			if bold := strings.Contains(text, "\x1b[1m"); bold != c.bold {
				t.Errorf("%s with %v: bold is %v, want %v:\n%s", example, c.env, bold, c.bold, text)
			}
			lines := strings.Split(strings.TrimSuffix(escape.ReplaceAllString(text, ""), "\n"), "\n")
			if len(lines) > overview.Lines || len(lines) < 15 {
				t.Errorf("%s: %d lines, want 15 to %d:\n%s", example, len(lines), overview.Lines, text)
			}
			for _, l := range lines {
				if n := utf8.RuneCountInString(l); n > 60 || strings.ContainsRune(l, 0x1b) {
					t.Errorf("%s: %d columns, want at most 60 and no other escapes: %q", example, n, l)
				}
			}
		}
	}
}
