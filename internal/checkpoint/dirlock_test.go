// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// namesBelow are all files and folders below a directory.
func namesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			names = append(names, path[len(dir)+1:])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestVacates: where a lock is given back and there is no run nothing stays that it has made; all else does.
func TestVacates(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name         string
		before, make []string // folders, which end in a slash, and files
		want         []string
	}{
		{"nothing was there", nil, nil, nil},
		{"its folder was there", []string{"a/", "a/b/"}, nil, []string{"a", "a/b"}},
		{"one above it was there", []string{"a/"}, nil, []string{"a"}},
		{"empty folders", nil, []string{"packs/", "io/"}, nil},
		{"a run", nil, []string{"packs/", "run.json"}, []string{"a", "a/b", "a/b/lock", "a/b/packs", "a/b/run.json"}},
		{"what is left of a run", nil, []string{"packs/", "packs/x"},
			[]string{"a", "a/b", "a/b/lock", "a/b/packs", "a/b/packs/x"}},
		{"somebody else's", nil, []string{"x"}, []string{"a", "a/b", "a/b/x"}},
	} {
		root := t.TempDir()
		fill := func(dir string, names []string) {
			for _, name := range names {
				path := filepath.Join(dir, name)
				err := os.MkdirAll(filepath.Dir(path), 0o700)
				if name[len(name)-1] == '/' {
					err = errors.Join(err, os.MkdirAll(path, 0o700))
				} else {
					err = errors.Join(err, os.WriteFile(path, nil, 0o600))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		fill(root, c.before)
		dir := filepath.Join(root, "a", "b")
		unlock, err := NewDir(dir).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		fill(dir, c.make)
		if err := unlock(); err != nil {
			t.Error(err)
		}
		if got := namesBelow(t, root); !slices.Equal(got, c.want) {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// TestVacatesOwn: a lock whose directory was renamed, and that another one has in its place, stays with all else.
func TestVacatesOwn(t *testing.T) {
	ctx := context.Background()
	root := t.TempDir()
	dir := filepath.Join(root, "a")
	unlock, err := NewDir(dir).Lock(ctx)
	if err == nil {
		err = os.Rename(dir, filepath.Join(root, "b"))
	}
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewDir(dir).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if got := namesBelow(t, root); !slices.Equal(got, []string{"a", "a/lock", "b", "b/lock"}) {
		t.Errorf("found %q", got)
	}
	if err := other(); err != nil {
		t.Error(err)
	}
	if got := namesBelow(t, root); !slices.Equal(got, []string{"b", "b/lock"}) {
		t.Errorf("found %q", got)
	}
}

// TestLocksAnew: who has opened a lock that is removed then, with its directory, takes the one that is there instead.
func TestLocksAnew(t *testing.T) {
	ctx := context.Background()
	for _, again := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "a")
		unlock, err := NewDir(dir).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		other := NewDir(dir)
		other.SetStep(func(step, _ string) error {
			if step != "lock" {
				return nil
			}
			other.SetStep(nil)
			err := unlock()
			if again && err == nil {
				unlock, err = NewDir(dir).Lock(ctx)
			}
			return err
		})
		unlockOther, err := other.Lock(ctx)
		if locked := (*LockedError)(nil); errors.As(err, &locked) != again || err != nil && !again {
			t.Fatalf("locked again %v: found %v", again, err)
		}
		if got := namesBelow(t, dir); !slices.Equal(got, []string{"lock"}) {
			t.Errorf("locked again %v: found %q", again, got)
		}
		if !again {
			unlock = unlockOther
		}
		if err := unlock(); err != nil {
			t.Error(err)
		}
	}
}

// TestLocksAlone: of many that take a lock, and remove it as they give it back, one has it at a time.
func TestLocksAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	var has, taken atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 300 {
				unlock, err := NewDir(dir).Lock(context.Background())
				if locked := (*LockedError)(nil); errors.As(err, &locked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				taken.Add(1)
				if n := has.Add(1); n != 1 {
					t.Errorf("%d have the lock at a time", n)
				}
				has.Add(-1)
				if err := unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if taken.Load() == 0 {
		t.Error("it was never taken")
	}
}
