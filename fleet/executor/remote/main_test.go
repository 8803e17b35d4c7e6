// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/remote"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/procfs"
)

// What this program is, where it isn't the tests.
const (
	programVariable = "DISCO_REMOTE_PROGRAM" // one that runs scenarios
	hostVariable    = "DISCO_REMOTE_HOST"    // a host; its value is the folder for work
	versionVariable = "DISCO_REMOTE_VERSION" // of the host
	fileVariable    = "DISCO_REMOTE_FILE"    // the program that a host starts; this one if it isn't given
)

const version = "v1.2.3"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(hostVariable) != "" && os.Getenv(programVariable) == "":
		os.Exit(host())
	case os.Getenv(programVariable) != "":
		app.MainWith(nil, launchtest.Kind())
	}
	leaktest.MainHalves(m, "^Test[A-P]")
}

// host is the process of a host.
func host() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := remote.ServeStandard(ctx, remote.HostOptions{Program: cmp.Or(os.Getenv(fileVariable), "/proc/self/exe"),
		Work: os.Getenv(hostVariable), Version: os.Getenv(versionVariable), Env: []string{programVariable + "=1"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// hostCommand starts this program as a host that works in a folder.
func hostCommand(work string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{"env", hostVariable + "=" + work, versionVariable + "=" + version, self}
}

// program is a file that runs scenarios.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", programVariable, self)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// markedBy are the processes of a job of hosts that work in a folder, or of all jobs where it is "", the one first that
// none of the others has started.
func markedBy(t *testing.T, work, job string) (pids []int) {
	t.Helper()
	all, err := procfs.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err != nil || pid == os.Getpid() { // another user's, or it has ended
			continue
		}
		entries := bytes.Split(text, []byte{0})
		at := slices.IndexFunc(entries, func(e []byte) bool {
			return bytes.HasPrefix(e, []byte("DISCO_FLEET_WORK="+work+"/"))
		})
		if at >= 0 && (job == "" || slices.ContainsFunc(entries, func(e []byte) bool {
			return string(e) == "DISCO_FLEET_JOB="+job
		})) {
			pids = append(pids, pid)
		}
	}
	slices.SortFunc(pids, func(a, b int) int { return rank(pids, a) - rank(pids, b) })
	return pids
}

func rank(pids []int, pid int) int {
	if s, err := procfs.Stat(pid); err == nil && !slices.Contains(pids, s.Parent) {
		return 0
	}
	return 1
}

// left is what is left of jobs of hosts that work in a folder.
func left(t *testing.T, work string) (all []string) {
	t.Helper()
	for _, pid := range markedBy(t, work, "") {
		all = append(all, fmt.Sprintf("process %d: %q", pid, procfs.Command(pid)))
	}
	folders, err := filepath.Glob(filepath.Join(work, "*", "runs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(all, folders...)
}

const text = "model: tiny\nhorizon: 100000\nnodes: 6\ntrouble: {node: 2, at: 1, how: slow}\n"

// fetch knows one text.
func fetch(context.Context, fleet.Digest) ([]byte, error) { return []byte(text), nil }

// digest is that of a text.
func digest(text string) fleet.Digest {
	sum := sha256.Sum256([]byte(text))
	return fleet.Digest{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(text))}
}

// newJob is an endless one.
func newJob(t *testing.T, experiment string) *executor.Job {
	return &executor.Job{Experiment: experiment, Attempt: fleet.AttemptID{Attempt: 1}, File: "tiny.yml",
		Replications: 1, Text: digest(text), Workers: 2, Place: filepath.Join(t.TempDir(), "place")}
}

// options are those of a test.
func options(t *testing.T) remote.Options {
	return remote.Options{Owner: "disco/" + t.Name(), Version: version, Fetch: fetch, Grace: time.Second,
		Report: func(text string) { t.Log(text) }}
}

// open opens an executor that the test closes.
func open(t *testing.T, o remote.Options) *remote.Remote {
	t.Helper()
	r, err := remote.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func closes(t *testing.T, r *remote.Remote) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}

// waitMax is how long anything may take on a machine on which others have the processors.
const waitMax = 2 * time.Minute

// runs prepares and starts a job, and waits until it has handled events.
func runs(t *testing.T, e *remote.Remote, j *executor.Job) executor.Run {
	t.Helper()
	if err := e.Prepare(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(j)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it handles events", func() bool {
		select {
		case <-r.Done():
			t.Fatalf("it has ended: %+v, %+v", r.Outcome(), r.Outcome().Error)
		default:
		}
		return r.Progress().Events > 0
	})
	return r
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > waitMax {
			t.Fatalf("it isn't so in %v: %s", waitMax, what)
		}
	}
}

// ends waits for the end of a run by the machine's fault, and for what is said of it.
func ends(t *testing.T, r executor.Run, want ...string) {
	t.Helper()
	select {
	case <-r.Done():
	case <-time.After(waitMax):
		t.Fatalf("it doesn't end; it is at %+v", r.Progress())
	}
	out := r.Outcome()
	if out.Error == nil || out.Error.Type != fleet.ErrorMachine {
		t.Fatalf("found %+v, %+v, want an error of the machine", out, out.Error)
	}
	for _, w := range want {
		if !strings.Contains(out.Error.Message, w) {
			t.Errorf("found %q, want %q in it", out.Error.Message, w)
		}
	}
}

// command is a process's, or "" where it has ended.
func command(pid int) string { return strings.Join(procfs.Command(pid), " ") }

// processesOf are those whose environment or command has a text, and which the filter takes; of a parent, if one is
// given.
func processesOf(t *testing.T, part string, filter func(command string) bool, parent ...int) (pids []int) {
	t.Helper()
	all, err := procfs.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		if status, err := procfs.Stat(pid); len(parent) > 0 && (err != nil || status.Parent != parent[0]) {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ")) // it may be another user's
		if c := command(pid); (strings.Contains(c, part) || bytes.Contains(environ, []byte(part))) && filter(c) &&
			pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill signals processes, of which there are some. One that has ended since it was found, by itself or since another of
// them has, is as one that was signalled.
func kill(t *testing.T, pids []int, s syscall.Signal) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("there is no such process")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil && err != syscall.ESRCH {
			t.Error(err)
		}
	}
}

// output runs a program, and fails the test where that fails.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}
