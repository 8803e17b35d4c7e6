// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
)

// TestReadersBesideWriter: while a writer commits, compacts and prunes all but the newest, readers find a checkpoint
// that is whole, or are told that it was pruned meanwhile.
func TestReadersBesideWriter(t *testing.T) {
	each(t, func(t *testing.T, b checkpoint.Blobs) {
		r, err := checkpoint.Create(ctx, b, newRun())
		if err == nil {
			err = errors.Join(commit(r, 1), r.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		var done atomic.Bool
		var wg sync.WaitGroup
		const readers = 3
		var whole [readers]int
		for n := range readers {
			wg.Go(func() {
				r, err := checkpoint.Open(ctx, b)
				if err != nil {
					t.Error(err)
					return
				}
				// What is found behind the writer's end can't be pruned.
				for last := false; !last; {
					last = done.Load()
					m, err := r.Find(ctx, "latest", 0)
					if err == nil {
						err = checkContent(r, m)
					}
					var pruned *checkpoint.PrunedError
					switch {
					case err == nil:
						whole[n]++
					case last || !errors.As(err, &pruned):
						t.Error(err)
						return
					}
				}
			})
		}
		for range 12 {
			if err := next(b); err != nil {
				t.Error(err)
				break
			}
		}
		done.Store(true)
		wg.Wait()
		t.Logf("checkpoints that were read whole: %v", whole)
		for n := range whole {
			if whole[n] == 0 {
				t.Errorf("reader %d read none", n)
			}
		}
	})
}

// lateList is a directory that is read while a writer makes a checkpoint and deletes the one before: the first lists
// have neither.
type lateList struct {
	checkpoint.Blobs
	empty int
}

func (l *lateList) List(ctx context.Context, prefix string) ([]checkpoint.Blob, error) {
	if l.empty--; l.empty >= 0 {
		return nil, nil
	}
	return l.Blobs.List(ctx, prefix)
}

func TestFindListsAgain(t *testing.T) {
	mem := checkpointtest.NewMem()
	create(t, mem, 1)
	late := &lateList{Blobs: mem}
	r, err := checkpoint.Open(ctx, late)
	if err != nil {
		t.Fatal(err)
	}
	for late.empty = range 5 {
		n := late.empty
		if m, err := r.Find(ctx, "latest", 0); err != nil || m.Epoch != 1 {
			t.Errorf("with %d empty lists: %v", n, err)
		}
	}
	late.empty = 1000
	var none *checkpoint.FoundError
	if _, err := r.Find(ctx, "latest", 0); !errors.As(err, &none) || late.empty < 900 {
		t.Errorf("without end: %v after %d lists, want *FoundError", err, 1000-late.empty)
	}
}

// TestHold: what a checkpoint has can be read from where it is held, also when it was pruned meanwhile; behind release
// it can't. One that was pruned before is no damage.
func TestHold(t *testing.T) {
	each(t, func(t *testing.T, b checkpoint.Blobs) {
		writer := create(t, b, 8)
		r, err := checkpoint.Open(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.Find(ctx, "2", 0)
		if err != nil {
			t.Fatal(err)
		}
		release, err := r.Hold(ctx, m, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Prune(ctx, 1); err != nil {
			t.Fatal(err)
		}
		var pruned *checkpoint.PrunedError
		if err := checkContent(writer, m); !errors.As(err, &pruned) {
			t.Fatalf("not held it gives %v, want that it was pruned", err)
		}
		if err := checkContent(r, m); err != nil {
			t.Errorf("held it gives %v", err)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
		if err := checkContent(r, m); !errors.As(err, &pruned) {
			t.Errorf("behind release it gives %v, want that it was pruned", err)
		}
		if _, err := r.Hold(ctx, m, t.TempDir()); !errors.As(err, &pruned) {
			t.Errorf("a second time it is held: %v, want that it was pruned", err)
		}
	})
}
