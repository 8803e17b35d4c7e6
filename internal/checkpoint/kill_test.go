// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/seed"
)

// next is what a writer does in these tests: another checkpoint, a label, and what is old goes.
func next(b checkpoint.Blobs) (err error) {
	r, err := checkpoint.Open(ctx, b)
	if err != nil {
		return err
	}
	if err := r.Lock(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	k := 0
	if m, err := r.Find(ctx, "latest", 0); err == nil {
		k = int(m.Epoch)
	} else if none := new(checkpoint.FoundError); !errors.As(err, &none) {
		return err
	}
	if err := commit(r, k+1); err != nil {
		return err
	}
	m, err := r.Load(ctx, checkpoint.Point{Epoch: float64(k + 1)})
	if err == nil {
		err = r.Label(ctx, m, fmt.Sprintf("label-%d", k+1))
	}
	if err == nil {
		err = removeLabels(r, k+1)
	}
	if err == nil {
		_, err = r.Prune(ctx, 1)
	}
	return err
}

// removeLabels removes all labels but that of checkpoint k. One whose writer was killed may still have the one before.
func removeLabels(r *checkpoint.Repo, k int) error {
	labels, err := r.Labels(ctx)
	for label, epoch := range labels {
		if epoch != float64(k) {
			err = errors.Join(err, r.Unlabel(ctx, label))
		}
	}
	return err
}

// Environment of a child process: it writes into a directory until it is killed, or kills itself in front of a step.
const (
	childDir  = "CHECKPOINT_TEST_DIR"
	childStep = "CHECKPOINT_TEST_STEP" // number of the step; else without end
)

func child() {
	dir := checkpoint.NewDir(os.Getenv(childDir))
	last, err := strconv.Atoi(os.Getenv(childStep))
	if err == nil {
		n := 0
		dir.SetStep(func(string, string) error {
			if n++; n > last {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			return nil
		})
	}
	for again := true; again; again = os.Getenv(childStep) == "" {
		if err := next(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("written") // the first one says that the process is under way
	}
	os.Exit(0)
}

// command is a child process.
func command(t *testing.T, dir string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), append(env, childDir+"="+dir)...)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// files lists a directory: names and sizes, with those that begin with a dot, without the lock, whose text has a
// number.
func files(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() && info.Name() != "lock" {
			all[strings.TrimPrefix(path, dir)] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// expectWhole fails the test unless a place has the checkpoints before or behind next, whole, and is as if nothing had
// happened when next was done once more.
func expectWhole(t *testing.T, what string, b checkpoint.Blobs, k int) {
	t.Helper()
	epochs, err := checkAll(b)
	if err != nil || len(epochs) == 0 || len(epochs) > 2 || epochs[len(epochs)-1] != k && epochs[len(epochs)-1] != k+1 {
		t.Fatalf("%s: found checkpoints %v, %v, want %d or %d, whole", what, epochs, err, k, k+1)
	}
	for last := epochs[len(epochs)-1]; last < k+2; last++ {
		if err := next(b); err != nil {
			t.Fatalf("%s: the next checkpoint: %v", what, err)
		}
	}
	if epochs, err := checkAll(b); err != nil || fmt.Sprint(epochs) != fmt.Sprint([]int{k + 2}) {
		t.Fatalf("%s: in the end there are checkpoints %v, %v, want %d alone", what, epochs, err, k+2)
	}
}

// prepared is a directory with checkpoints up to k, and one that went on to k+2 without trouble.
func prepared(t *testing.T, k int) (dir string, undisturbed map[string]int64) {
	t.Helper()
	dir, whole := filepath.Join(t.TempDir(), "prepared"), filepath.Join(t.TempDir(), "whole")
	r, err := checkpoint.Create(ctx, checkpoint.NewDir(dir), newRun())
	if err == nil {
		err = r.Close()
	}
	for range k {
		err = errors.Join(err, next(checkpoint.NewDir(dir)))
	}
	err = errors.Join(err, os.CopyFS(whole, os.DirFS(dir)))
	for range 2 {
		err = errors.Join(err, next(checkpoint.NewDir(whole)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, files(t, whole)
}

// expectSame fails the test unless a directory is as if nothing had happened.
func expectSame(t *testing.T, what, dir string, undisturbed map[string]int64) {
	t.Helper()
	if found := files(t, dir); !maps.Equal(found, undisturbed) {
		t.Fatalf("%s: in the end there are %v, want %v", what, found, undisturbed)
	}
}

// TestKilledAtEachStep: a process kills itself in front of each step that changes the directory.
func TestKilledAtEachStep(t *testing.T) {
	const k = 2
	from, undisturbed := prepared(t, k)
	for step := 0; ; step++ {
		dir := filepath.Join(t.TempDir(), "run")
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		err := command(t, dir, childStep+"="+strconv.Itoa(step)).Run()
		what := fmt.Sprintf("killed in front of step %d", step)
		expectWhole(t, what, checkpoint.NewDir(dir), k)
		expectSame(t, what, dir, undisturbed)
		if err == nil {
			if step < 15 {
				t.Fatalf("only %d steps were tried", step)
			}
			return
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("step %d: the child ended with %v", step, err)
		}
	}
}

// TestKilledAtAnyTime: a process that writes without end is killed again and again, at any instruction.
func TestKilledAtAnyTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 0))
	dir := filepath.Join(t.TempDir(), "run")
	b := checkpoint.NewDir(dir)
	r, err := checkpoint.Create(ctx, b, newRun())
	if err == nil {
		err = errors.Join(commit(r, 1), r.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	latest := 1
	for round := range rounds {
		c := command(t, dir)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		_, errRead := out.Read(make([]byte, 1)) // it is under way
		time.Sleep(time.Duration(rng.IntN(int(20 * time.Millisecond))))
		errKill := c.Process.Kill()
		c.Wait() // "signal: killed"
		if errRead != nil || errKill != nil {
			t.Fatalf("the child ended by itself: %v, %v", errRead, errKill)
		}
		epochs, err := checkAll(b)
		if err != nil || len(epochs) == 0 || epochs[len(epochs)-1] < latest {
			t.Fatalf("round %d: found checkpoints %v, %v, want all whole, the last one %d or later", round, epochs, err,
				latest)
		}
		latest = epochs[len(epochs)-1]
	}
	for range 2 {
		if err := next(b); err != nil {
			t.Fatal(err)
		}
	}
	if epochs, err := checkAll(b); err != nil || epochs[len(epochs)-1] != latest+2 {
		t.Errorf("in the end there are checkpoints %v, %v, want up to %d", epochs, err, latest+2)
	}
	for name := range files(t, dir) {
		if strings.HasPrefix(filepath.Base(name), ".") {
			t.Errorf("%s is left over", name)
		}
	}
}

// TestFullDisk: each step fails once, as on a full disk. The writer goes on, and nothing is left over.
func TestFullDisk(t *testing.T) {
	const k = 2
	from, undisturbed := prepared(t, k)
	for step := 0; ; step++ {
		dir := filepath.Join(t.TempDir(), "run")
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		b := checkpoint.NewDir(dir)
		n := 0
		b.SetStep(func(string, string) error {
			if n++; n == step+1 {
				return syscall.ENOSPC
			}
			return nil
		})
		err := next(b)
		if err == nil && n <= step {
			if step < 15 {
				t.Fatalf("only %d steps were tried", step)
			}
			return
		}
		what := fmt.Sprintf("no room in step %d", step)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%s: error %v", what, err)
		}
		b.SetStep(nil)
		expectWhole(t, what, b, k)
		expectSame(t, what, dir, undisturbed)
	}
}

// TestFullDiskLeavesNothing: while a disk stays full nothing grows, however often it is tried, whichever step it is
// that fails.
func TestFullDiskLeavesNothing(t *testing.T) {
	for _, folder := range []string{"packs/", "points/"} {
		for _, step := range []string{"create", "write", "sync", "name", "sync folder"} {
			t.Run(folder+step, func(t *testing.T) { stayFull(t, folder, step) })
		}
	}
}

func stayFull(t *testing.T, folder, full string) {
	dir := filepath.Join(t.TempDir(), "run")
	b := checkpoint.NewDir(dir)
	r := create(t, b, 2)
	before := files(t, dir)
	b.SetStep(func(step, name string) error {
		if step == full && strings.HasPrefix(name, folder) {
			return syscall.ENOSPC
		}
		return nil
	})
	for range 3 {
		if err := commit(r, 3); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("error %v", err)
		}
		if found := files(t, dir); !maps.Equal(found, before) {
			t.Fatalf("there is %v, want %v as before", found, before)
		}
	}
	b.SetStep(nil)
	if err := commit(r, 3); err != nil {
		t.Fatal(err)
	}
}

// TestFaultyStore: each operation of a store fails, or is the last one, or was done in spite of its error.
func TestFaultyStore(t *testing.T) {
	const k = 2
	stride := 1
	if testing.Short() {
		stride = 4
	}
	for _, how := range []int{checkpointtest.Fail, checkpointtest.Stop, checkpointtest.Doubt} {
		for at := 0; ; at += stride {
			mem := checkpointtest.NewMem()
			r, err := checkpoint.Create(ctx, mem, newRun())
			if err == nil {
				err = r.Close()
			}
			for range k {
				err = errors.Join(err, next(mem))
			}
			if err != nil {
				t.Fatal(err)
			}
			out := errors.New("out of reach")
			b := &checkpointtest.Faulty{Blobs: mem, At: at, How: how, Err: out}
			err = next(b)
			if b.Count <= at {
				if err != nil || at < 15 {
					t.Fatalf("%d operations were tried, the last: %v", at, err)
				}
				break
			}
			what := fmt.Sprintf("operation %d, how %d", at, how)
			if !errors.Is(err, out) {
				t.Fatalf("%s: error %v", what, err)
			}
			mem.Unlock()
			expectWhole(t, what, mem, k)
		}
	}
}

// TestOrder: each file's bytes are durable before it has its name, its name before the next file's; nothing is deleted
// that is referred to.
func TestOrder(t *testing.T) {
	dir := t.TempDir()
	b := checkpoint.NewDir(dir)
	r := create(t, b, 2)
	var steps []string
	b.SetStep(func(step, name string) error {
		name, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"), "/")
		steps = append(steps, step+" "+name)
		return nil
	})
	if err := commit(r, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Prune(ctx, 1); err != nil {
		t.Fatal(err)
	}
	// Checkpoint 3 still uses the pack of checkpoint 1, and not that of 2.
	const want = "create packs, write packs, sync packs, name packs, sync folder packs, " +
		"create points, write points, sync points, name points, sync folder points, " +
		"delete points, delete points, sync folder points, delete packs, sync folder packs"
	if found := strings.Join(steps, ", "); found != want {
		t.Errorf("the steps are %s, want %s", found, want)
	}
}
