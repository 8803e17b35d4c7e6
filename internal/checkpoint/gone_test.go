// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// A directory that was removed, renamed, or taken by another run isn't written to any more, nor made anew. What is left
// of a run whose run.json is gone is no place for another one.
func TestGone(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "a")
	run := checkpoint.Run{Disco: "test", Kind: "k", Text: []byte("k"), Replications: 1, Horizon: 10, Nodes: 1,
		Simprocs: 1, GroupNodes: 1}
	repo, err := checkpoint.Create(ctx, checkpoint.NewDir(dir), run)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	if err := repo.Begin().Commit(ctx, &checkpoint.Manifest{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	var damaged *checkpoint.DamagedError
	if err := repo.Begin().Commit(ctx, &checkpoint.Manifest{Epoch: 2}); !errors.As(err, &damaged) {
		t.Errorf("found %v, want that the place is gone", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was made anew: %v", err)
	}
	other, err := checkpoint.Create(ctx, checkpoint.NewDir(dir), run)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := repo.Begin().Commit(ctx, &checkpoint.Manifest{Epoch: 2}); !errors.As(err, &damaged) {
		t.Errorf("found %v, want that another run is there", err)
	}
	if err := other.Begin().Commit(ctx, &checkpoint.Manifest{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.Close(), os.Remove(filepath.Join(dir, "run.json"))); err != nil {
		t.Fatal(err)
	}
	var none *checkpoint.NotRepoError
	if _, err := checkpoint.Create(ctx, checkpoint.NewDir(dir), run); !errors.As(err, &none) {
		t.Errorf("found %v, want that what is there is refused", err)
	}
}
