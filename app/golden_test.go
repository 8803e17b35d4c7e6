// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/race"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what the program says now")

// files are what the scripts in testdata find in their directory.
var files = map[string]string{
	"tiny.yml":     launchtest.Scenario(4, 5, ""),
	"lone.yml":     launchtest.Scenario(1, 5, ""),
	"fails.yml":    launchtest.Scenario(4, 5, "{node: 2, at: 1, how: error}"),
	"exits.yml":    launchtest.Scenario(4, 5, "{node: 2, at: 1, how: exit}"),
	"prints.yml":   launchtest.Scenario(4, 5, "{node: 2, at: 1, how: print}"),
	"deep.yml":     launchtest.Scenario(4, 2, "{node: 2, at: 1, how: slow}"),
	"nan.yml":      launchtest.Scenario(4, 5, "{node: 2, at: 1, how: nan}"),
	"unknown.yml":  "model: tiny\nhorizon: 5\nnodes: 4\ntokns: 3\nnodes: 5\n",
	"broken.yml":   "model: tiny\nhorizon: [5\nnodes: 4\n",
	"empty.yml":    "",
	"other.yml":    "model: weather\n",
	"latin1.yml":   "model: tiny # \xe9\n",
	"good.place":   "n0: 1\n",
	"bad.place":    "n0: 1\nn9: 0\nn1: 7\n",
	"all.place":    "n0: 0\nn1: 0\nn2: 0\nn3: 0\n",
	"nowhere.json": "older results\n",
}

// TestScripts runs the commands in testdata/*.txt and compares what they say. -update
// rewrites the files: read the difference before you keep it.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range scripts {
		if name := filepath.Base(path); race.Enabled && name != "checkpoints.txt" && name != "sweep.txt" {
			continue // they are about texts
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(path), func(t *testing.T) { playScript(t, abs) })
	}
}

func playScript(t *testing.T, path string) {
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if name := filepath.Base(path); name == "checkpoints.txt" || name == "saving.txt" {
		makeStores(t, dir)
	}
	if filepath.Base(path) == "replay.txt" {
		makeTraces(t, dir)
	}
	started := filepath.Join(t.TempDir(), "started")
	t.Setenv(startedEnv, started)
	t.Chdir(dir)
	var got bytes.Buffer
	for line := range strings.Lines(string(want)) {
		switch {
		case strings.HasPrefix(line, "$ "):
			got.WriteString(line)
			got.WriteString(play(t, strings.Fields(line[2:]), dir, started))
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
			got.WriteString(line)
		}
	}
	if left := leftovers(t, dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() != string(want) {
		t.Errorf("%s: the program says\n%s\nwant\n%s", path, got.String(), want)
	}
}

// play runs one command and says what came of it: exit status, workers started,
// standard output after "1> " and standard error after "2> ".
func play(t *testing.T, args []string, dir, started string) string {
	t.Helper()
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "␣", " ")
		if arg == "''" {
			args[i] = ""
		}
	}
	if err := os.RemoveAll(started); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	status := Run(append([]string{"disco-run"}, args...), strings.NewReader(files["tiny.yml"]), &stdout, &stderr,
		launchtest.Kind())
	var b strings.Builder
	fmt.Fprintf(&b, "exit %d", status)
	if info, err := os.Stat(started); err == nil {
		fmt.Fprintf(&b, ", %d workers started", info.Size())
	}
	b.WriteString("\n")
	for _, part := range []struct{ mark, text string }{{"1> ", stdout.String()}, {"2> ", stderr.String()}} {
		for line := range strings.Lines(part.text) {
			b.WriteString(part.mark + steady(strings.TrimSuffix(line, "\n"), dir) + "\n")
		}
	}
	return b.String()
}

// changing are the parts of the output that differ from run to run.
var changing = []struct {
	pattern *regexp.Regexp
	in      string
}{
	{regexp.MustCompile(`in [0-9.e+-]+ s: [0-9.]+( [kMG])? events/s \(and [0-9.e+-]+ s`),
		"in T s: R events/s (and T s"},
	{regexp.MustCompile(`CPU [0-9.]+ (to [0-9.]+ s|s together), blocked [0-9]+ to [0-9]+ % of the time`),
		"CPU T $1, blocked B to B % of the time"},
	{regexp.MustCompile(`CPU T to [0-9.]+ s`), "CPU T to T s"},
	// Who simulated how many whole replications is a matter of chance.
	{regexp.MustCompile(`^( *[0-9]+ +[0-9]+) +[0-9]+ +0 +0 .* %.* (s|-) +[-<0-9.e+]+$`), "$1 E 0 0 P B % R % T s C"},
	{regexp.MustCompile(`^( *[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+) .* %.* (s|-) +[-<0-9.e+]+$`),
		"$1 P B % R % T s C"},
	{regexp.MustCompile(
		`(at the beginning of replication 0|in replication 0, having reached [0-9.e+-]+ simulated seconds)`),
		"in replication 0, having reached S simulated seconds"},
	{regexp.MustCompile(`^( *(read|compile|partition|write|start|wire|first event|simulate|gather|results)) +[0-9.]+$`),
		"$1 s"},
	{regexp.MustCompile(`program [0-9a-f]{16}…`), "program DIGEST…"},
	{regexp.MustCompile(`(now|gives 4 and 4 \(graph) [0-9a-f]{16}…`), "$1 DIGEST…"},
	{regexp.MustCompile(`[0-9]+ MiB are available`), "M MiB are available"},
	{regexp.MustCompile(`disco-crash-[-.0-9]+\.txt`), "disco-crash-RUN.txt"},
}

func steady(line, dir string) string {
	line = strings.ReplaceAll(line, dir, "DIR")
	for _, c := range changing {
		line = c.pattern.ReplaceAllString(line, c.in)
	}
	return line
}

// leftovers lists files that no script should leave.
func leftovers(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		if _, ok := files[e.Name()]; !ok && !slices.Contains(stores, e.Name()) && !strings.HasPrefix(e.Name(), "out") &&
			!strings.HasPrefix(e.Name(), launch.CrashName) {
			left = append(left, e.Name())
		}
	}
	return strings.Join(left, " ")
}
