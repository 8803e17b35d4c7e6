// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/model/service"
)

// smallDisk mounts a disk of so many bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("NOT TESTED: this user can't mount a small disk here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fills takes what a disk has left when the first line is written.
type fills struct {
	bytes.Buffer
	disk string
	done bool
}

// Write implements io.Writer.
func (f *fills) Write(b []byte) (int, error) {
	if !f.done {
		f.done = true
		os.WriteFile(filepath.Join(f.disk, "filler"), make([]byte, 1<<20), 0o666) // it fails: the disk is full
	}
	return f.Buffer.Write(b)
}

// TestSmallDisk: a disk that becomes full ends no run. Where some checkpoints could be written the last one stays, and
// the run goes on from there; where none could, the exit status says so, with results that are right.
func TestSmallDisk(t *testing.T) {
	kind, file := service.Kind(), filepath.Join("..", "examples", "mini.yml")
	want := runSaved(t, kind, "run", file, "--horizon", "60", "--transport", "inproc")
	for _, full := range []bool{false, true} {
		disk := smallDisk(t, "64k")
		store := filepath.Join(disk, "store")
		args := []string{"disco-run", "run", file, "--horizon", "60", "--transport", "inproc", "--workers", "2",
			"--checkpoint-to", store, "--keep", "100"}
		for _, at := range []string{"1", "5", "10", "15", "20", "25", "30", "35", "40", "45", "50", "55"} {
			args = append(args, "--checkpoint-at", at)
		}
		out := fills{disk: disk, done: !full}
		var stderr bytes.Buffer
		status := Run(args, strings.NewReader(""), &out, &stderr, kind)
		said, wantStatus := stderr.String(), 0
		if full {
			wantStatus = ExitFailed
		}
		none := strings.Contains(lastLine(said), "no checkpoint could be written (13 failed); the results are right")
		if status != wantStatus || none != full || !strings.Contains(said, "no space left") ||
			!strings.Contains(out.String(), want.TraceHash) {
			t.Errorf("full: %v: exit status %d: %s\n%s\nwant %d, what is missing, and trace hash %s", full, status,
				said, out.String(), wantStatus, want.TraceHash)
		}
		if err := os.RemoveAll(filepath.Join(disk, "filler")); err != nil {
			t.Fatal(err)
		}
		if full {
			continue
		}
		stderr.Reset()
		if status := Run([]string{"disco-run", "checkpoints", "verify", store}, strings.NewReader(""), &out, &stderr,
			kind); status != 0 {
			t.Errorf("verify ends with %d: %s", status, stderr.String())
		}
		if got := runSaved(t, kind, "resume", store, "--transport", "inproc", "--keep", "1"); !got.same(&want) {
			t.Errorf("resumed it is %+v, want %+v", got, want)
		}
	}
}

// TestPartWithoutEnd: a part of a run (--only) is there for its ends, so where one can't be saved the run ends with 1,
// though checkpoints were made, and for programs the machine is at fault. It goes on from there.
func TestPartWithoutEnd(t *testing.T) {
	kind, file := service.Kind(), filepath.Join("..", "examples", "mini.yml")
	disk := smallDisk(t, "64k")
	store := filepath.Join(disk, "store")
	args := []string{"disco-run", "run", file, "--horizon", "60", "--transport", "inproc", "--checkpoint-to", store,
		"--keep", "100", "--replications", "2", "--only", "1", "--progress", "json"}
	for at := 1; at < 60; at++ {
		args = append(args, "--checkpoint-at", fmt.Sprint(at))
	}
	var stdout, stderr bytes.Buffer
	status := Run(args, strings.NewReader(""), &stdout, &stderr, kind)
	said := stderr.String()
	if status != ExitFailed || !strings.Contains(said, `"cause":"machine"`) ||
		strings.Contains(said, "no checkpoint") ||
		!strings.Contains(lastLine(said), "the end of 1 replication couldn't be saved") {
		t.Fatalf("exit status %d: %s", status, said)
	}
	stderr.Reset()
	if status := Run([]string{"disco-run", "resume", store, "--transport", "inproc", "--keep", "100"},
		strings.NewReader(""), &stdout, &stderr, kind); status != ExitFailed ||
		!strings.Contains(lastLine(stderr.String()), "the end of 1 replication couldn't be saved") {
		t.Errorf("resumed on the full disk: exit status %d: %s", status, stderr.String())
	}
	if err := syscall.Mount("none", disk, "tmpfs", syscall.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	runSaved(t, kind, "resume", store, "--transport", "inproc", "--keep", "1")
	stdout.Reset()
	stderr.Reset()
	if status := Run([]string{"disco-run", "merge", "--partial", store}, strings.NewReader(""), &stdout, &stderr,
		kind); status != 0 || !strings.Contains(stdout.String(), "trace hash") {
		t.Errorf("merged: %d: %s%s", status, stdout.String(), stderr.String())
	}
}

// TestFullTemporaryFolder: what can't be written to a temporary file ends a run or a replay with one error, which says
// where that is and what to do, and isn't taken for damage of what is compared, nor for a defect.
func TestFullTemporaryFolder(t *testing.T) {
	kind, file := service.Kind(), filepath.Join("..", "examples", "mini.yml")
	store := filepath.Join(t.TempDir(), "store")
	runSaved(t, kind, "run", file, "--horizon", "60", "--transport", "inproc", "--checkpoint-to", store, "--replayable",
		"--checkpoint-at", "30")
	for _, c := range []struct {
		size, want string
		args       []string
	}{
		{"16k", "16 bytes for each call, 59792 for the 3737 calls that are compared: let TMPDIR name another",
			[]string{"replay", store}},
		{"40k", "the states at 30 s, which are to be compared, can't be written",
			[]string{"replay", store, "--workers", "1"}},
		{"60k", "let TMPDIR name another folder", []string{"replay", store, "--workers", "1"}},
		{"16k", "40 bytes for each event", []string{"run", file, "--horizon", "60", "--trace", "DISK/trace"}},
		{"16k", "let TMPDIR name another folder", []string{"run", file, "--horizon", "60", "--print",
			"node=client,until=50"}},
	} {
		disk := smallDisk(t, c.size)
		t.Setenv("TMPDIR", disk)
		args := []string{"disco-run"}
		for _, arg := range c.args {
			args = append(args, strings.Replace(arg, "DISK", disk, 1))
		}
		var stdout, stderr bytes.Buffer
		status := Run(append(args, "--transport", "inproc"), strings.NewReader(""), &stdout, &stderr, kind)
		said := strings.TrimSpace(stderr.String())
		if status != ExitFailed || !strings.Contains(said, c.want) || !strings.Contains(said, disk) ||
			strings.Contains(said, "\n") || strings.Contains(said, "corrupt") || strings.Contains(said, "crash") {
			t.Errorf("%q on a disk of %s: exit status %d: %s\nwant one line with %q and %s", c.args, c.size, status,
				said, c.want, disk)
		}
		if names, err := os.ReadDir(disk); err != nil || len(names) > 0 {
			t.Errorf("%q leaves %v, %v", c.args, names, err)
		}
	}
}

// TestOtherVersion: what another version has made isn't damaged, and isn't verified; where both are found, both are
// said.
func TestOtherVersion(t *testing.T) {
	const kind = "\"tables\": [\n    \"07"
	for _, c := range []struct {
		name, was, is string
		damaged       bool
		want          []string
	}{
		{"format", `"format": 1`, `"format": 2`, false, []string{"found format 2, want 1", "1 of 6 checkpoints not"}},
		{"field", `"format": 1`, `"format": 1, "novel": 3`, false, []string{`unknown field "novel"`, "not verified"}},
		{"kind", kind, strings.Replace(kind, "07", "0c", 1), false, []string{"kind 0c 00 00 00, want one of 1 to 9"}},
		{"both", `"format": 1`, `"format": 2`, true, []string{"found format 2", "1 of 6 checkpoints damaged",
			"1 of 6 checkpoints not verified: another version of disco has made them"}},
	} {
		store := filepath.Join(t.TempDir(), "store")
		makeStore(t, store, 1, 3, 0)
		names, err := filepath.Glob(filepath.Join(store, "points", "000000-*.json"))
		if err != nil || len(names) != 3 {
			t.Fatalf("manifests %q, %v", names, err)
		}
		text, err := os.ReadFile(names[0])
		if err != nil || !bytes.Contains(text, []byte(c.was)) {
			t.Fatalf("%s: no %q in %s, %v", c.name, c.was, text, err)
		}
		body := bytes.Replace(text[:bytes.LastIndex(text, []byte(`  "check"`))], []byte(c.was), []byte(c.is), 1)
		text = fmt.Appendf(body, "  \"check\": \"%x\"\n}\n", sha256.Sum256(body))
		if err := os.WriteFile(names[0], text, 0o666); err != nil {
			t.Fatal(err)
		}
		if c.damaged {
			if err := os.Truncate(names[1], 300); err != nil {
				t.Fatal(err)
			}
		}
		var stdout, stderr bytes.Buffer
		status := Run([]string{"disco-run", "checkpoints", "verify", store}, strings.NewReader(""), &stdout, &stderr,
			launchtest.Kind())
		said := stdout.String() + stderr.String()
		if status != ExitFailed || strings.Contains(said, "damaged") != c.damaged ||
			strings.Count(said, ": not verified:\n") != 1 {
			t.Errorf("%s: exit status %d: %s", c.name, status, said)
		}
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %s\nwant %q", c.name, said, want)
			}
		}
	}
}

// TestTwoAtOnce: of runs that begin at once in one place one is run; the others are refused with one exit status and
// one text, wherever they were.
func TestTwoAtOnce(t *testing.T) {
	const runs, rounds = 3, 10
	file := filepath.Join(t.TempDir(), "tiny.yml")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 5, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	for range rounds {
		store := filepath.Join(t.TempDir(), "store")
		var all [runs]*beside
		for i := range all {
			all[i] = startBeside(t, "run", file, "--checkpoint-to", store, "--checkpoint-at", "1")
		}
		done := 0
		for _, b := range all {
			_ = b.cmd.Wait() // its status is what is asked for
			switch status, text := b.cmd.ProcessState.ExitCode(), b.said(); {
			case status == 0:
				done++
			case status != ExitUsage || !strings.Contains(text, ": run: --checkpoint-to: "+store+
				": found the checkpoints of run ") || !strings.Contains(text, "name another directory"):
				t.Errorf("exit status %d: %s", status, text)
			}
		}
		if done != 1 {
			t.Errorf("%d runs were done, want one", done)
		}
	}
}

// TestNothingToVerify: where a run has made no checkpoint yet, nothing is said to be as it was written.
func TestNothingToVerify(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	makeStore(t, store, 1, 3, 0)
	ctx := context.Background()
	blobs := checkpoint.NewDir(store)
	all, err := blobs.List(ctx, "")
	for _, b := range all {
		switch folder, _, _ := strings.Cut(b.Name, "/"); folder {
		case "points", "done", "labels": // a label of none would be damage
			err = errors.Join(err, blobs.Delete(ctx, b.Name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	status := Run([]string{"disco-run", "checkpoints", "verify", store}, strings.NewReader(""), &stdout, &stderr,
		launchtest.Kind())
	if status != ExitUsage || stdout.Len() > 0 || !strings.Contains(stderr.String(), "found no checkpoint yet") {
		t.Errorf("exit status %d: %s%s", status, stdout.String(), stderr.String())
	}
}

// TestRemedies: what stands for no checkpoint and is damaged comes with what to do about it.
func TestRemedies(t *testing.T) {
	for _, c := range []struct{ folder, args, want string }{
		{"labels", "verify", "checkpoints unlabel "},
		{"labels", "show", "checkpoints unlabel "},
		{"", "list", "restore it from a copy, or begin the run in another place"},
		{"", "verify", "restore it from a copy, or begin the run in another place"},
	} {
		store := filepath.Join(t.TempDir(), "store")
		makeStore(t, store, 1, 3, 0)
		file := filepath.Join(store, "run.json")
		if c.folder != "" {
			names, err := filepath.Glob(filepath.Join(store, c.folder, "*.json"))
			if err != nil || len(names) == 0 {
				t.Fatalf("%v: no labels", err)
			}
			file = names[0]
		}
		if err := os.WriteFile(file, []byte("{}"), 0o666); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		status := Run([]string{"disco-run", "checkpoints", c.args, store}, strings.NewReader(""), &stdout, &stderr,
			launchtest.Kind())
		if status != ExitFailed || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s of a damaged %s: exit status %d: %s, want %q", c.args, file, status, stderr.String(), c.want)
		}
	}
}

// TestSpeedOfResumed: events that were there before took no time now.
func TestSpeedOfResumed(t *testing.T) {
	store, file := filepath.Join(t.TempDir(), "store"), filepath.Join("..", "examples", "mini.yml")
	kind := service.Kind()
	runSaved(t, kind, "run", file, "--horizon", "60", "--transport", "inproc", "--checkpoint-to", store,
		"--checkpoint-at", "59.9")
	for _, c := range []struct{ at, want, never string }{
		{"latest", " events, all of them before", "0 events/s"},
		{"59.9", " of them before, and the others in ", " M events/s"},
	} {
		var stdout, stderr bytes.Buffer
		status := Run([]string{"disco-run", "resume", store, "--at", c.at, "--transport", "inproc"},
			strings.NewReader(""), &stdout, &stderr, kind)
		if text := stdout.String(); status != 0 || !strings.Contains(text, c.want) || strings.Contains(text, c.never) {
			t.Errorf("exit status %d: %s%s, want %q, and never %q", status, text, stderr.String(), c.want, c.never)
		}
	}
}
