// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/sim/dist"
)

type tills struct {
	Gap     dist.Dist `unit:"s" above:"0" doc:"between two customers"`
	Agents  int       `min:"1" default:"2"`
	Workers int       `default:"3" max:"5"`
	Fast    bool      `default:"true"`
	Title   string    `default:"till"`
	Shop    struct {
		Tills int    `default:"2"`
		Order string `default:"fifo" choices:"fifo,lifo"`
	}
	Speeds []float64 `default:"[1, 2]" above:"0"`
}

// tillsRun runs a command of a program with these parameters; the last that the model was built with come back.
func tillsRun(t *testing.T, args ...string) (status int, out, failed string, with tills) {
	t.Helper()
	build := func(b *Builder, p tills) {
		with = p
		b.Node("till", func(n *Node) {
			came := n.Counter("came")
			n.Every(p.Gap, func(*Context) { came.Inc() })
		})
	}
	var o, f bytes.Buffer
	status = app.Run(append([]string{"tills"}, args...), strings.NewReader(""), &o, &f, Kind("tills", build))
	return status, o.String(), f.String(), with
}

func tillsFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "tills.yml")
	text := "model: tills\nhorizon: 20\ngap: 1\nagents: 4\nshop: {tills: 7, order: lifo}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every field is a flag; what stands there wins over the file, and the file may be missing.
func TestParameterFlags(t *testing.T) {
	file := tillsFile(t)
	for _, c := range []struct{ args, want string }{
		{file, "1 4 3 true till {7 lifo} [1 2]"},
		{file + " --agents 3 --gap uniform(1,2)", "uniform(1, 2) 3 3 true till {7 lifo} [1 2]"},
		{"--agents=5 " + file + " --fast=false --title 2026", "1 5 3 false 2026 {7 lifo} [1 2]"},
		{file + " --shop.tills 9 --speeds [3]", "1 4 3 true till {9 lifo} [3]"},
		{file + " --param-workers 5 --set shop.order=fifo", "1 4 5 true till {7 fifo} [1 2]"},
		{"--gap 2 --horizon 5", "2 2 3 true till {2 fifo} [1 2]"},
	} {
		for _, command := range []string{"run --transport inproc", "validate"} {
			status, _, failed, p := tillsRun(t, strings.Fields(command+" "+c.args)...)
			found := fmt.Sprintln(p.Gap, p.Agents, p.Workers, p.Fast, p.Title, p.Shop, p.Speeds)
			if status != 0 || found != c.want+"\n" {
				t.Errorf("%s %s: exit status %d, found\n%s, want\n%s\n%s", command, c.args, status, found, c.want,
					failed)
			}
		}
	}
	_, out, _, _ := tillsRun(t, "run", file, "--transport", "inproc", "--warmup", "10", "--antithetic",
		"--replications", "2")
	if !strings.Contains(out, "the first 10 s not counted") ||
		!strings.Contains(out, "1 sample of antithetic replications") {
		t.Errorf("--warmup and --antithetic:\n%s", out)
	}
	status, out, failed, _ := tillsRun(t, "run", file, "--transport", "inproc", "--warmup", "auto", "--horizon", "5000")
	if status != 0 || !strings.Contains(out, "by MSER-5 on the course of") {
		t.Errorf("--warmup auto: exit status %d\n%s%s", status, out, failed)
	}
	_, out, _, _ = tillsRun(t, "run", file, "--transport", "inproc", "--shop.tills", "3", "--sweep", "agents=1,2",
		"--csv", "-", "--columns", "figures.*")
	if !strings.Contains(out, "agents,") || strings.Count(out, "\n") != 3 {
		t.Errorf("a sweep beside a flag:\n%s", out)
	}
}

// What is wrong is the flag's fault, with exit status 2 and what is allowed.
func TestParameterFlagMistakes(t *testing.T) {
	file := tillsFile(t)
	for args, want := range map[string]string{
		file + " --agents 0":                        "--agents: found 0, want a whole number >= 1",
		file + " --agents x":                        `--agents: found the text "x", want a whole number >= 1`,
		file + " --agent 3":                         "there is no flag --agent: did you mean --agents?",
		file + " --agents 3 --agents 4":             "--agents is given twice",
		file + " --agents":                          "--agents has no value",
		file + " --agents 3 --set agents=4":         "another setting has put a value for agents",
		file + " --agents 3 --sweep agents=4,5":     "another setting has put a value for agents",
		file + " --fast=perhaps":                    `--fast: found the value "perhaps"`,
		file + " --param-workers 6":                 "--param-workers: found 6, want a whole number <= 5",
		file + " --workers 0":                       "--workers: found 0, want a whole number from 1",
		file + " --speeds [1,-1]":                   "--speeds: [1]: found -1, want a number > 0",
		file + " --speeds 1":                        "--speeds: found 1, want a list",
		file + " --speeds [1,":                      `--speeds: speeds: found "[1,", want one value`,
		file + " --shop.order random":               `--shop.order: found the text "random", want one of fifo, lifo`,
		file + " --shop.tils 3":                     "did you mean --shop.tills?",
		file + " --set shop=3 --shop.tills 3":       "another setting has put a value",
		file + " --warmup -1":                       `--warmup: found "-1", want a finite number of simulated seconds`,
		file + " --warmup 20":                       "a warm-up of 20 s and a horizon of 20 s",
		"--horizon 5":                               "--gap: found nothing, want a number",
		"--gap 1":                                   "has no horizon",
		file + " --gap uniform(-1,1)":               "--gap: found uniform(-1, 1), which goes down to -1, want",
		file + " --gap {distribution:gamma}":        "--gap: distribution:gamma: found an unknown field",
		file + " --gap exponential(0) --agents 0":   "--agents: found 0",
		file + " --gap exponential(0) --agents -1 ": "--gap: found",
	} {
		for _, command := range []string{"run", "validate", "verify"} {
			if command != "run" && strings.Contains(args, "--sweep") || command == "validate" &&
				strings.Contains(args, "--workers") || command == "verify" && strings.Contains(args, "--workers") {
				continue
			}
			status, out, failed, _ := tillsRun(t, append([]string{command}, strings.Fields(args)...)...)
			if status != app.ExitUsage || !strings.Contains(failed, want) || out != "" {
				t.Errorf("%s %s: exit status %d, want %q\n%s%s", command, args, status, want, out, failed)
			}
		}
	}
}

// The help has parameters under a heading of their own, and fields says what differs from the file.
func TestParameterFlagsAreShown(t *testing.T) {
	for _, command := range []string{"run", "validate", "verify"} {
		_, out, _, _ := tillsRun(t, command, "--help")
		_, out, found := strings.Cut(out, "Parameters of tills\n")
		for _, want := range []string{
			"--gap DISTRIBUTION ", " DISTRIBUTION, in s, > 0: between two customers (default: none, FILE must have it)",
			"--agents N ", "N, a whole number >= 1 (default: 2)", "--param-workers N", "--shop.tills N",
			"--epoch_limit NUMBER",
			"--shop.order TEXT", "TEXT, fifo, lifo (default: fifo)", "--fast ", "(default: true)", "--antithetic",
			"--speeds LIST",
		} {
			if !found || !strings.Contains(out, want) {
				t.Errorf("%s --help lacks %q:\n%s", command, want, out)
			}
		}
	}
	_, out, _, _ := tillsRun(t, "fields")
	if !strings.Contains(out, "workers is --param-workers there") {
		t.Errorf("fields:\n%s", out)
	}
	// A program with two kinds doesn't know whose parameters are meant.
	var o, f bytes.Buffer
	other := func(b *Builder, _ tills) {}
	app.Run([]string{"two", "run", "--agents", "3"}, strings.NewReader(""), &o, &f, Kind("a", other), Kind("b", other))
	if !strings.Contains(f.String(), "there is no flag --agents") {
		t.Errorf("%s", f.String())
	}
}
