// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// A directory that is taken by another run while a checkpoint is written keeps what it has, and gets nothing.
func TestGoneMeanwhile(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "a")
	run := checkpoint.Run{Disco: "test", Kind: "k", Text: []byte("k"), Replications: 1, Horizon: 10, Nodes: 1,
		Simprocs: 1, GroupNodes: 1}
	place := checkpoint.NewDir(dir)
	repo, err := checkpoint.Create(ctx, place, run)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	var other *checkpoint.Repo
	place.SetStep(func(step, name string) error {
		if other != nil || !strings.HasPrefix(name, "packs/") {
			return nil
		}
		err := os.Rename(dir, dir+"-moved")
		if err == nil {
			other, err = checkpoint.Create(ctx, checkpoint.NewDir(dir), run)
		}
		if err == nil {
			err = errors.Join(other.Begin().Commit(ctx, &checkpoint.Manifest{Epoch: 2}),
				os.MkdirAll(filepath.Join(dir, "packs"), 0o700))
		}
		return err
	})
	d := repo.Begin()
	if err := d.Add(strings.NewReader("x"), 0, nil); err != nil {
		t.Fatal(err)
	}
	var damaged *checkpoint.DamagedError
	if err := d.Commit(ctx, &checkpoint.Manifest{Epoch: 2, TraceHash: [16]byte{1}}); err == nil {
		t.Error("a checkpoint is written into another run's directory")
	} else if other != nil && !errors.As(err, &damaged) {
		t.Errorf("found %v, want that another run is there", err)
	}
	if other == nil {
		t.Fatal("the directory wasn't replaced: a checkpoint has no pack any more")
	}
	defer other.Close()
	found := 0
	err = other.Verify(ctx, func(_ checkpoint.Point, m *checkpoint.Manifest, damage error) error {
		found++
		return damage
	})
	if err != nil || found != 1 {
		t.Errorf("found %d checkpoints of the other run, %v, want 1 as it was", found, err)
	}
}

// A link to nothing in the place of a directory is named.
func TestLinkToNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nowhere", dir); err != nil {
		t.Fatal(err)
	}
	_, err := checkpoint.Create(context.Background(), checkpoint.NewDir(dir), checkpoint.Run{Disco: "test", Kind: "k",
		Text: []byte("k"), Replications: 1, Horizon: 10, Nodes: 1, Simprocs: 1, GroupNodes: 1})
	if err == nil || !strings.Contains(err.Error(), "found a link to nowhere, which isn't there") {
		t.Errorf("found %v, want that the link leads nowhere", err)
	}
}
