// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// TestEndsOnly: parts of a run of a model that can't be saved are put together as any; a run that was interrupted, or
// killed, begins anew what hasn't ended, and has the results of one that wasn't.
func TestEndsOnly(t *testing.T) {
	kind, mute := launchtest.Kind(), "{node: 1, at: 0, how: "+launchtest.Mute+"}"
	dir := t.TempDir()
	file := filepath.Join(dir, "tiny.yml")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 20, mute)), 0o666); err != nil {
		t.Fatal(err)
	}
	fails := func(want string, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		status := Run(append([]string{"disco-run"}, args...), strings.NewReader(""), &stdout, &stderr, kind)
		if status != ExitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit status %d: %s, want %q", args, status, stderr.String(), want)
		}
	}
	store := func(name string) string { return filepath.Join(dir, name) }
	run := []string{"run", file, "--replications", "4", "--workers", "2"}
	with := func(args ...string) []string { return append(append([]string{}, run...), args...) }
	want := runSaved(t, kind, with("--transport", "inproc")...)
	fails("it is mute", with("--transport", "inproc", "--checkpoint-to", store("refused"))...)
	for _, spread := range []string{"nodes", "replications"} {
		ends := []string{"--transport", "inproc", "--spread", spread, "--checkpoint-ends", "--checkpoint-to"}
		if got := runSaved(t, kind, with(append(ends, store(spread))...)...); !got.same(&want) {
			t.Errorf("%s: found %+v, want %+v", spread, got, want)
		}
		if got := runSaved(t, kind, "merge", store(spread)); !got.same(&want) {
			t.Errorf("%s: merged it is %+v, want %+v", spread, got, want)
		}
		runSaved(t, kind, with(append(ends, store(spread+"0"), "--only", "0-2")...)...)
		runSaved(t, kind, with(append(ends, store(spread+"3"), "--only", "3")...)...)
		if got := runSaved(t, kind, "merge", store(spread+"0"), store(spread+"3")); !got.same(&want) {
			t.Errorf("%s: two parts are %+v, want %+v", spread, got, want)
		}
	}
	if got := runSaved(t, kind, "resume", store("nodes"), "--transport", "inproc"); !got.same(&want) {
		t.Errorf("what had ended is %+v, want %+v", got, want)
	}
	fails("--checkpoint-every: found it where only ends of replications are kept (--checkpoint-ends)",
		with("--checkpoint-to", store("x"), "--checkpoint-ends", "--checkpoint-every", "1")...)
	fails("--checkpoint: found it where only ends of replications are kept (--checkpoint-ends, when it was begun)",
		"resume", store("nodes"), "--checkpoint", "1s")
	fails("has no meaning without --checkpoint-to", with("--checkpoint-ends")...)
}

// TestEndsOnlyKilled: a run of which only ends are kept is killed, or told to end, behind the end of a replication.
func TestEndsOnlyKilled(t *testing.T) {
	kind, text := launchtest.Kind(), launchtest.Scenario(4, 2000, "{node: 1, at: 0, how: "+launchtest.Mute+"}")
	file := filepath.Join(t.TempDir(), "tiny.yml")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	want := runSaved(t, kind, "run", file, "--replications", "3", "--transport", "inproc")
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		l := launchProgram(t, text, "--replications", "3", "--spread", "nodes", "--checkpoint-to", "store",
			"--checkpoint-ends")
		store := filepath.Join(l.dir, "store")
		l.until("the end of a replication", func() bool {
			ends, err := filepath.Glob(filepath.Join(store, "done", "*.json"))
			return err == nil && len(ends) > 0
		})
		if err := l.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		l.end("store")
		if ends, err := filepath.Glob(filepath.Join(store, "done", "*.json")); err != nil || len(ends) == 3 {
			t.Fatalf("%v: it had ended before: %v, %v", signal, ends, err)
		}
		if got := runSaved(t, kind, "resume", store, "--transport", "inproc"); !got.same(&want) {
			t.Errorf("%v: found %+v, want %+v", signal, got, want)
		}
	}
}
