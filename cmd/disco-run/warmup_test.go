// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// warmupText has a queue that starts with 200 customers and serves them by and by.
const warmupText = `
model: queueing
horizon: 4000
stations:
  - id: till
    arrivals: { distribution: exponential, mean: 2 }
    service: { distribution: exponential, mean: 1 }
    initial: 300
`

// warmedResults are what a run has found out, without what depends on how it was run.
type warmedResults struct {
	Hash    string          `json:"trace_hash"`
	Results json.RawMessage `json:"results"`
	Warmup  *struct {
		Seconds float64 `json:"seconds"`
		Method  string  `json:"method"`
		By      string  `json:"by"`
	} `json:"warmup"`
}

// command runs the program.
func command(t *testing.T, bin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, failed bytes.Buffer
	c := exec.Command(bin, args...)
	c.Stdout, c.Stderr = &out, &failed
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), failed.String()
}

func warmedRun(t *testing.T, bin string, args ...string) (r warmedResults) {
	t.Helper()
	status, out, failed := command(t, bin, append(args, "--json", "-", "--transport", "inproc")...)
	if status != 0 {
		t.Fatalf("%s: exit status %d: %s", args, status, failed)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWarmupAuto: a warm-up is found, the same with any number of workers and in a run that goes on; results are those
// of a run with that time.
func TestWarmupAuto(t *testing.T) {
	bin := build(t, "")
	dir := t.TempDir()
	file := filepath.Join(dir, "till.yml")
	if err := os.WriteFile(file, []byte(warmupText), 0o666); err != nil {
		t.Fatal(err)
	}
	one := warmedRun(t, bin, "run", file, "--warmup", "auto", "--replications", "2")
	w := one.Warmup
	if w == nil || w.Method != "MSER-5" || w.By != "in_network" || w.Seconds < 300 || w.Seconds > 1500 {
		t.Fatalf("the warm-up is %+v, want some 600 s, in which 300 customers are served", w)
	}
	given := warmedRun(t, bin, "run", file, "--warmup", fmt.Sprint(w.Seconds), "--replications", "2")
	if given.Warmup != nil || given.Hash != one.Hash || string(given.Results) != string(one.Results) {
		t.Errorf("with that time: %+v %s, want %s", given.Warmup, given.Results, one.Results)
	}
	chain := filepath.Join("..", "..", "examples", "jackson.yml")
	a := warmedRun(t, bin, "run", chain, "--horizon", "20000", "--warmup", "auto")
	b := warmedRun(t, bin, "run", chain, "--horizon", "20000", "--warmup", "auto", "--workers", "2", "--spread",
		"nodes")
	if a.Warmup == nil || b.Warmup == nil || *a.Warmup != *b.Warmup || string(a.Results) != string(b.Results) {
		t.Errorf("with two workers %+v, with one %+v", b.Warmup, a.Warmup)
	}
	saved := filepath.Join(dir, "saved")
	warmedRun(t, bin, "run", file, "--warmup", "auto", "--replications", "2", "--checkpoint-to", saved,
		"--checkpoint-every", "1000")
	on := warmedRun(t, bin, "resume", saved, "--at", "1000")
	if on.Hash != one.Hash || string(on.Results) != string(one.Results) {
		t.Errorf("gone on: %s, want %s", on.Results, one.Results)
	}
}

// TestWarmupOfAllKinds: each kind that measures has a warm-up, as a time and to be found.
func TestWarmupOfAllKinds(t *testing.T) {
	bin := build(t, "")
	for file, horizon := range map[string]string{"mini.yml": "60", "jackson.yml": "5000", "backbone.yml": "0.5",
		"supply.yml": "400"} {
		path := filepath.Join("..", "..", "examples", file)
		auto := warmedRun(t, bin, "run", path, "--horizon", horizon, "--warmup", "auto")
		if auto.Warmup == nil {
			t.Errorf("%s: none was found", file)
			continue
		}
		given := warmedRun(t, bin, "run", path, "--horizon", horizon, "--warmup", fmt.Sprint(auto.Warmup.Seconds))
		if string(given.Results) != string(auto.Results) || given.Hash != auto.Hash {
			t.Errorf("%s: with %v s as a time the results are others", file, auto.Warmup.Seconds)
		}
	}
}

// TestWarmupRefused: what is no warm-up, and what can't be found.
func TestWarmupRefused(t *testing.T) {
	bin := build(t, "")
	jackson := filepath.Join("..", "..", "examples", "jackson.yml")
	growing := filepath.Join(t.TempDir(), "growing.yml")
	if err := os.WriteFile(growing, []byte(strings.Replace(warmupText, "mean: 2", "mean: 0.5", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{2, `--warmup: found "soon", want a finite number of simulated seconds, 0 or more, or auto`,
			[]string{"run", jackson, "--warmup", "soon"}},
		{2, "--warmup: found a warm-up of 50 s of a run of 50 s", []string{"run", jackson, "--warmup", "50",
			"--horizon", "50"}},
		{2, "--warmup: found it for a kind of scenario that has no warm-up", []string{"run",
			filepath.Join("..", "..", "examples", "phold.yml"),
			"--warmup", "5"}},
		{1, "in_network went on to change in the second half; give a longer --horizon",
			[]string{"run", growing, "--warmup", "auto"}},
	} {
		status, _, failed := command(t, bin, append(c.args, "--transport", "inproc")...)
		if status != c.status || !strings.Contains(failed, c.want) {
			t.Errorf("%s: exit status %d and %q, want %d and %q", c.args, status, failed, c.status, c.want)
		}
	}
}
