// SPDX-License-Identifier: Apache-2.0

package local_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/executortest"
	"github.com/disco-sim/disco/fleet/executor/local"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/procfs"
)

// What this program is, where it isn't the tests.
const (
	programVariable = "DISCO_EXECUTOR_PROGRAM" // one that runs scenarios
	agentVariable   = "DISCO_EXECUTOR_AGENT"   // an executor with one run; its value is the folder for work
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(agentVariable) != "":
		fmt.Fprintln(os.Stderr, agent(os.Getenv(agentVariable)))
		os.Exit(1)
	case os.Getenv(programVariable) != "":
		app.MainWith(nil, launchtest.Kind())
	}
	leaktest.Main(m)
}

const text = "model: tiny\nhorizon: 100000\nnodes: 6\ntrouble: {node: 2, at: 1, how: slow}\n"

// fetch knows one text.
func fetch(context.Context, fleet.Digest) ([]byte, error) { return []byte(text), nil }

// job is one of that text.
func job(place string) *executor.Job {
	sum := sha256.Sum256([]byte(text))
	return &executor.Job{Experiment: "x", Attempt: fleet.AttemptID{Attempt: 1}, File: "tiny.yml", Replications: 1,
		Text: fleet.Digest{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(text))}, Workers: 2, Place: place}
}

// options are those of an executor that starts this program.
func options(work string) local.Options {
	return local.Options{Program: "/proc/self/exe", Work: work, Owner: "disco/h1", Fetch: fetch,
		Env: []string{programVariable + "=1", agentVariable + "="}, Grace: time.Second}
}

// agent is a process that is killed: it says when its run has begun.
func agent(work string) error {
	l, err := local.Open(context.Background(), options(work))
	if err != nil {
		return err
	}
	j := job(filepath.Join(work, "place"))
	if err := l.Prepare(context.Background(), j); err != nil {
		return err
	}
	r, err := l.Start(j)
	if err != nil {
		return err
	}
	for r.Progress().Events == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("it runs")
	<-r.Done()
	return fmt.Errorf("it has ended: %+v", r.Outcome())
}

// open opens an executor that the test closes.
func open(t *testing.T, o local.Options) *local.Local {
	t.Helper()
	l, err := local.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closes(t *testing.T, l *local.Local) {
	t.Helper()
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// left is what is left of jobs.
func left(t *testing.T, work string) (all []string) {
	t.Helper()
	for _, pid := range local.MarkedBy(work, "") {
		all = append(all, fmt.Sprintf("process %d: %q", pid, procfs.Command(pid)))
	}
	folders, err := filepath.Glob(filepath.Join(work, "runs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(all, folders...)
}

// TestLocal: the suite.
func TestLocal(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", programVariable, self)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var work string
	executortest.Run(t, executortest.Config{
		New: func(t *testing.T, fetch func(context.Context, fleet.Digest) ([]byte, error)) executor.Executor {
			work = filepath.Join(t.TempDir(), "work")
			o := options(work)
			o.Fetch = fetch
			return open(t, o)
		},
		Program:   program,
		Left:      func(t *testing.T) []string { return left(t, work) },
		Processes: func(job string) []int { return first(local.MarkedBy(work, job)) },
	})
}

// first puts the process first whose parent is none of them.
func first(pids []int) []int {
	slices.SortFunc(pids, func(a, b int) int {
		rank := func(pid int) int {
			if s, err := procfs.Stat(pid); err == nil && !slices.Contains(pids, s.Parent) {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	return pids
}

// TestAgentKilled: a run ends with its agent, at the latest when the next agent sweeps, and what a model has left with
// it, of a folder too. Another one can't have the folder meanwhile.
func TestAgentKilled(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), agentVariable+"="+work)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	if n, err := out.Read(said); !strings.HasPrefix(string(said[:n]), "it runs") {
		t.Errorf("the agent says %q, %v", said[:n], err)
	}
	if _, err := local.Open(t.Context(), options(work)); err == nil ||
		!strings.Contains(err.Error(), "another agent works there") {
		t.Errorf("two agents have one folder: %v", err)
	}
	if n := len(local.MarkedBy(work, "x/0.0.0.1")); n < 3 {
		t.Errorf("found %d processes of the run, want 3", n)
	}
	// One that hears nothing and is no child of the run's, such as what a model has left.
	orphan := exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done")
	orphan.Env = append(os.Environ(), local.WorkVariable+"="+work, local.JobVariable+"=x/0.0.0.1")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- orphan.Wait() }()
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	l := open(t, options(work))
	if all := left(t, work); len(all) > 0 {
		t.Errorf("this is left: %q", all)
	}
	if err := <-gone; err == nil || orphan.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("what hears nothing has ended: %v", err)
	}
	closes(t, l)
	if _, err := os.Stat(filepath.Join(work, "place", "run.json")); err != nil {
		t.Errorf("its place isn't there: %v", err)
	}
}

// TestFull: a disk without room is the machine's fault, before the run and in it.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("SKIPPED: no file system of a size of its own can be mounted here: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	work := filepath.Join(dir, "work")
	l := open(t, options(work))
	defer closes(t, l)
	j := job(filepath.Join(t.TempDir(), "place"))
	j.Args = []string{"--horizon", "20"}
	if err := l.Prepare(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk isn't full: %v", err)
	}
	r, err := l.Start(j)
	if err != nil {
		t.Fatal(err)
	}
	<-r.Done()
	if out := r.Outcome(); out.Error == nil || out.Error.Type != fleet.ErrorMachine {
		t.Errorf("in the run: found %+v, %+v, want an error of the machine", out, out.Error)
	}
	second := *j
	second.Attempt.Replication = 1
	if err := l.Prepare(t.Context(), &second); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("before the run: found %v, want that the disk is full", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if r, err = l.Start(j); err != nil {
		t.Fatal(err)
	}
	<-r.Done()
	if out := r.Outcome(); out.Kept == nil {
		t.Errorf("with room: found %+v, %+v, want an end", out, out.Error)
	}
}

// TestScarce: too little memory for a run is told apart from a machine's other faults, and isn't held against it.
func TestScarce(t *testing.T) {
	for _, memory := range []bool{false, true} {
		o := options(filepath.Join(t.TempDir(), "work"))
		o.Program = filepath.Join(t.TempDir(), "program")
		says := fmt.Sprintf(`{"event":"failed","text":"no","status":1,"cause":"machine","memory":%v}`, memory)
		if err := os.WriteFile(o.Program, []byte("#!/bin/sh\necho '"+says+"' >&2\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		l := open(t, o)
		j := job(filepath.Join(t.TempDir(), "place"))
		if err := l.Prepare(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		r, err := l.Start(j)
		if err != nil {
			t.Fatal(err)
		}
		<-r.Done()
		if out := r.Outcome(); out.Error == nil || out.Error.Type != fleet.ErrorMachine ||
			out.Error.Scarce != memory || out.Own != memory {
			t.Errorf("memory %v: found %+v, %+v", memory, out, out.Error)
		}
		closes(t, l)
	}
}

// TestUnknownProgram is the machine's fault: another one may have it.
func TestUnknownProgram(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "work"))
	o.Program = "/nowhere/disco-run"
	l := open(t, o)
	defer closes(t, l)
	j := job(filepath.Join(t.TempDir(), "place"))
	if err := l.Prepare(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	r, err := l.Start(j)
	if err != nil {
		t.Fatal(err)
	}
	<-r.Done()
	if out := r.Outcome(); out.Error == nil || out.Error.Type != fleet.ErrorMachine ||
		!strings.Contains(out.Error.Message, "/nowhere/disco-run") {
		t.Errorf("found %+v, %+v, want an error of the machine", out, out.Error)
	}
}

// TestCache: what is there isn't fetched again, what is damaged is, and no more is kept than may be.
func TestCache(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "work"))
	fetched := 0
	o.Fetch = func(ctx context.Context, d fleet.Digest) ([]byte, error) {
		fetched++
		return fetch(ctx, d)
	}
	o.Cache = int64(len(text)) + 10
	l := open(t, o)
	defer closes(t, l)
	j := job("place")
	prepare := func(want int) {
		t.Helper()
		if err := l.Prepare(t.Context(), j); err != nil || fetched != want {
			t.Errorf("fetched %d times, %v, want %d", fetched, err, want)
		}
	}
	prepare(1)
	prepare(1)
	path := filepath.Join(o.Work, "blobs", j.Text.SHA256)
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	prepare(2)
	other, old := filepath.Join(o.Work, "blobs", "other"), time.Now().Add(-time.Hour)
	err := errors.Join(os.WriteFile(other, make([]byte, 100), 0o600), os.Chtimes(other, old, old), os.Truncate(path, 0))
	if err != nil {
		t.Fatal(err)
	}
	prepare(3)
	if entries, err := os.ReadDir(filepath.Join(o.Work, "blobs")); err != nil || len(entries) != 1 ||
		entries[0].Name() != j.Text.SHA256 {
		t.Errorf("found %v, %v in the cache, want what was used last", entries, err)
	}
}

// TestEndedMeanwhile: of the processes that are found one may end by itself, and its run with it, before somebody asks
// whose it is. Nothing was ended then.
func TestEndedMeanwhile(t *testing.T) {
	work := t.TempDir()
	for name, meanwhile := range map[string]bool{"meanwhile": true, "by us": false} {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = append(os.Environ(), local.WorkVariable+"="+work, local.JobVariable+"=x/0.0.0.1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = cmd.Wait() // it was killed
		}()
		for len(local.MarkedBy(work, "")) == 0 { // Start returns a little before it has its environment
			time.Sleep(time.Millisecond)
		}
		ended, err := local.EndMarked(t.Context(), work, func(string) bool {
			if meanwhile {
				_ = cmd.Process.Kill() // it may be gone
				<-gone
			}
			return true
		}, 0, 10*time.Second)
		want := 1
		if meanwhile {
			want = 0
		}
		if ended != want || err != nil {
			t.Errorf("%s: found %d ended, %v, want %d", name, ended, err, want)
		}
		_ = cmd.Process.Kill() // if that hasn't happened
		<-gone
	}
}
