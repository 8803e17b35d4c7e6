// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/checkpoint/storeblobs"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore/dial"
)

// quietVariable is placeQuiet of the test's programs.
const quietVariable = "DISCO_GROUP_QUIET"

// armQuiet sets it.
func armQuiet() {
	if quiet, err := time.ParseDuration(os.Getenv(quietVariable)); err == nil {
		placeQuiet = quiet
	}
}

// endsWithin is until when a run at a dead store has ended, and its processes: far longer than it takes.
const endsWithin = 2 * time.Minute

// saver is a run with checkpoints in a metadata store.
type saver struct {
	*exec.Cmd
	address, json  string
	stdout, stderr *bytes.Buffer
	blobs          int // process id of what reaches the store
}

// startSaver starts a run, and waits until a checkpoint of it is there.
func startSaver(t *testing.T, url, name, file string) *saver {
	t.Helper()
	s := &saver{address: url + "/" + name, json: filepath.Join(t.TempDir(), "out.json")}
	s.Cmd, s.stdout, s.stderr = command("run", file, "--workers", "2", "--checkpoint-to", s.address, "--checkpoint",
		"100ms", "--json", s.json, "--crash-dir", "none")
	s.Env = append(s.Env, quietVariable+"=1s")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.ProcessState == nil {
			_, _ = s.Process.Kill(), s.Wait()
		}
	})
	store, err := dial.Open(t.Context(), dial.Options{URL: s.address, Store: storeblobs.Options(storeblobs.Group)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	place := storeblobs.New(store, storeblobs.Key, s.address, "the test")
	until(t, "a checkpoint of "+name, func() bool {
		points, err := place.List(t.Context(), "points/")
		return err == nil && len(points) > 0
	})
	for _, pid := range children(s.Process.Pid) {
		command, _ := os.ReadFile(fmt.Sprint("/proc/", pid, "/cmdline")) // empty: it has ended
		if bytes.HasSuffix(bytes.TrimRight(command, "\x00"), []byte("\x00"+blobproc.Command)) {
			s.blobs = pid
		}
	}
	if s.blobs == 0 {
		t.Fatal("found no process that reaches the store")
	}
	return s
}

// until waits for something.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(endsWithin); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, endsWithin)
		}
	}
}

// children are the processes that a process has started.
func children(pid int) (pids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // empty: the thread has ended
		for _, word := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// ends waits for the end of the run, and of the process that reaches the store for it.
func (s *saver) ends(t *testing.T) (status int) {
	t.Helper()
	began := time.Now()
	late := time.AfterFunc(endsWithin, func() { _ = s.Process.Signal(syscall.SIGQUIT) })
	defer late.Stop()
	_ = s.Wait() // its status is what is asked for
	t.Logf("%s: it ends with %d behind %v: %s", s.address, s.ProcessState.ExitCode(), time.Since(began), s.stderr)
	until(t, "the end of the process that reaches the store", func() bool {
		return syscall.Kill(s.blobs, 0) != nil
	})
	return s.ProcessState.ExitCode()
}

// said holds that the run has said something.
func (s *saver) said(t *testing.T, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(s.stdout.String()+s.stderr.String(), want) {
			t.Errorf("%s: found %s%s, want %q", s.address, s.stdout, s.stderr, want)
		}
	}
}

// TestStoreOutage: where the metadata store that has a run's checkpoints is killed, or stands still, in mid-run, the
// run goes on to its end, with its results, and says what couldn't be written; one that is to end ends, and of one that
// is killed nothing stays behind. What asks a dead store for checkpoints is refused.
func TestStoreOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts servers")
	}
	part := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of their time
			f(t)
		})
	}
	part("etcd killed", func(t *testing.T) { storeOutage(t, "etcd", etcdProcess(t), (*storeserver.Etcd).Kill) })
	part("etcd stopped", func(t *testing.T) {
		storeOutage(t, "etcd", etcdProcess(t), func(s *storeserver.Etcd) { s.Signal(syscall.SIGSTOP) })
	})
	part("zk killed", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		z, err := storeserver.StartEnsemble(ctx, t.TempDir(), 1, storeserver.ZKOptions{Tick: 500 * time.Millisecond})
		storeserver.Need(t, err)
		t.Cleanup(z.Close)
		storeOutage(t, "zk", z.Servers[0], (*storeserver.ZK).Kill)
	})
}

// away is longer than a session of a run at its store (dial.Options.TTL).
const away = 12 * time.Second

// TestStoreComesBack: where the metadata store is away for longer than the session of a run's lock, the run takes the
// lock again, which it says, and writes further checkpoints.
func TestStoreComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server")
	}
	server := etcdProcess(t)
	s := startSaver(t, "etcd://"+server.Addr(), "night", scenarioFile(t, 1e9, "{node: 1, at: 0, how: slow}"))
	store, err := dial.Open(t.Context(), dial.Options{URL: s.address, Store: storeblobs.Options(storeblobs.Group)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lock, err := store.Get(t.Context(), storeblobs.Key+"/lock")
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	time.Sleep(away)
	if err := errors.Join(server.Start(), server.Ready(t.Context())); err != nil {
		t.Fatal(err)
	}
	until(t, "a lock that is taken again", func() bool {
		now, err := store.Get(t.Context(), storeblobs.Key+"/lock")
		return err == nil && now.Version != lock.Version
	})
	place := storeblobs.New(store, storeblobs.Key, s.address, "the test")
	points := func() string {
		blobs, err := place.List(t.Context(), "points/")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(blobs)
	}
	before := points()
	until(t, "a further checkpoint", func() bool { return points() != before })
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := s.ends(t); status != 128+int(syscall.SIGTERM) {
		t.Errorf("exit status %d, want 143", status)
	}
	s.said(t, "couldn't be written", "the lock was lost with the session at the store, and is taken again")
}

func etcdProcess(t *testing.T) *storeserver.Etcd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it may be built
	defer cancel()
	z, err := storeserver.StartEtcds(ctx, t.TempDir(), 1)
	storeserver.Need(t, err)
	t.Cleanup(z.Close)
	return z.Servers[0]
}

func storeOutage[Server interface{ Addr() string }](t *testing.T, engine string, server Server, end func(Server)) {
	url := engine + "://" + server.Addr()
	const slow = "{node: 1, at: 0, how: slow}"
	file, endless := scenarioFile(t, 600, slow), scenarioFile(t, 1e9, slow) // the first takes some seconds
	want := results(t, file, "--workers", "2")
	terminated := startSaver(t, url, "terminated", endless)
	killed := startSaver(t, url, "killed", endless)
	whole := startSaver(t, url, "whole", file)
	end(server)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.ends(t)
	if err := terminated.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := terminated.ends(t); status != 128+int(syscall.SIGTERM) {
		t.Errorf("exit status %d, want 143", status)
	}
	terminated.said(t, "the run ends without its checkpoint at ", "interrupted at ", "couldn't be written")
	if status := whole.ends(t); status != 1 {
		t.Errorf("exit status %d, want 1: its lock couldn't be given back", status)
	}
	whole.said(t, "disco: the checkpoint at ", "couldn't be written", "the store can't be reached: ",
		"the end of replication 0 couldn't be saved", "the lock can't be given back")
	var got shownResults
	found, err := os.ReadFile(whole.json)
	if err == nil {
		err = json.Unmarshal(found, &got)
	}
	if err != nil || got.Hash != want.Hash {
		t.Errorf("found %+v, %v, want %+v", got, err, want)
	}
	list, _, stderr := command("checkpoints", "list", whole.address)
	list.Env = append(list.Env, quietVariable+"=1s")
	if _ = list.Run(); list.ProcessState.ExitCode() != 2 || !strings.Contains(stderr.String(), "can't be reached") {
		t.Errorf("exit status %d, %s, want 2, and that it can't be reached", list.ProcessState.ExitCode(), stderr)
	}
}
