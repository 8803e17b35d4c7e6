// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/sim/simtest"
)

// programEnv makes the test's binary the program.
const programEnv = "DISCO_TEST_PLANNER"

func TestMain(m *testing.M) {
	simtest.Worker(kind)
	if os.Getenv(programEnv) != "" {
		main()
	}
	leaktest.Main(m)
}

func TestPlanner(t *testing.T) { simtest.Run(t, simtest.Load(t, kind, "planner.yml")) }

// program is a run of the planner in a process group of its own; out is its results.
func program(log string, out *bytes.Buffer, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), programEnv+"=1", "LOG="+log)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// asked counts by key how often the solver was asked.
func asked(t *testing.T, log string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		count[line]++
	}
	return count
}

// A run whose processes are all killed again and again, and that goes on with other numbers of workers, ends with the
// results and the hash of one that wasn't; and the solver is asked again only for what it was answering at a kill.
func TestKilledAgainAndAgain(t *testing.T) {
	r, dir := seed.Rand(t), t.TempDir()
	log, reference := filepath.Join(dir, "asked"), filepath.Join(dir, "reference")
	result := func(name string) (hash, summary string) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var all struct {
			Hash    string          `json:"trace_hash"`
			Results json.RawMessage `json:"results"`
		}
		if err := json.Unmarshal(text, &all); err != nil || all.Hash == "" {
			t.Fatalf("%v in %s", err, text)
		}
		return all.Hash, string(all.Results)
	}
	var out bytes.Buffer
	run := []string{"run", "planner.yml", "--seed", "3", "--workers", "2", "--shops", "8", "--horizon", "2.6e6"}
	if err := program(reference, &out, append(run, "--json", filepath.Join(dir, "want"))...).Run(); err != nil {
		t.Fatal(err, out.String())
	}
	wantHash, wantResults := result("want")
	to := filepath.Join(dir, "checkpoints")
	args := append(run, "--checkpoint-to", to, "--checkpoint-every", "100000")
	kills := 0
	for {
		out.Reset()
		cmd := program(log, &out, append(args, "--json", filepath.Join(dir, "got"))...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var timer *time.Timer
		if kills < 12 {
			timer = time.AfterFunc(time.Duration(100+r.IntN(300))*time.Millisecond, func() {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
			})
		}
		err := cmd.Wait()
		if timer == nil || timer.Stop() {
			if err != nil {
				t.Fatal(err, out.String())
			}
			break
		}
		if err == nil {
			break
		}
		if kills++; exists(filepath.Join(to, "run.json")) {
			args = []string{"resume", to, "--workers", fmt.Sprint(1 + r.IntN(4))}
		}
	}
	if hash, results := result("got"); hash != wantHash || results != wantResults {
		t.Fatalf("behind %d kills: %s %s\nwant %s %s", kills, hash, results, wantHash, wantResults)
	}
	want, got := asked(t, reference), asked(t, log)
	again := 0
	for _, n := range got {
		again += n - 1
	}
	// A kill ends at most what each of four workers was asking.
	if len(got) != len(want) || again > 4*kills {
		t.Fatalf("%d calls, %d of them again behind %d kills; want %d calls", len(got), again, kills, len(want))
	}
	t.Logf("killed %d times: %d calls, %d of them were asked again", kills, len(got), again)
}

// A run that is repeated with the answers of another one gives the same, and asks nobody; one whose file of answers was
// cut short asks for what is missing, and says so.
func TestRepeated(t *testing.T) {
	dir := t.TempDir()
	log, file := filepath.Join(dir, "asked"), filepath.Join(dir, "answers")
	run := func(args ...string) (text string, err error) {
		var out bytes.Buffer
		err = program(log, &out, append([]string{"run", "planner.yml", "--shops", "2", "--workers", "2",
			"--external-sync"}, args...)...).Run()
		return out.String(), err
	}
	hash := func(text string) string {
		_, hash, _ := strings.Cut(text, "trace hash")
		hash, _, _ = strings.Cut(hash, "\n")
		return hash
	}
	want, err := run("--external-record", file)
	if err != nil || hash(want) == "" || len(asked(t, log)) != 18 {
		t.Fatal(want, err, len(asked(t, log)))
	}
	if text, err := run("--external-record", file); err == nil || !strings.Contains(text, "aren't overwritten") {
		t.Error(text, err)
	}
	text, err := run("--external-from", file)
	if err != nil || hash(text) != hash(want) || len(asked(t, log)) != 18 {
		t.Error(text, err, len(asked(t, log)))
	}
	if text, err = run("--external-from", file, "--seed", "6"); err == nil ||
		!strings.Contains(text, "replay mismatch") && !strings.Contains(text, "found no recorded answer") {
		t.Error(text, err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)-5], 0o666); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	text, err = run("--external-from", file, "--external-record", other)
	if err != nil || hash(text) != hash(want) || !strings.Contains(text, "wasn't written to its end") {
		t.Error(text, err)
	}
	for key, n := range asked(t, log) {
		if n > 2 {
			t.Errorf("asked %d times: %s", n, key)
		}
	}
	if again, err := os.ReadFile(other); err != nil || len(again) != len(whole) {
		t.Errorf("the second file has %d bytes, want %d: %v", len(again), len(whole), err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
