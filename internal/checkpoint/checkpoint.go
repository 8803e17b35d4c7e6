// SPDX-License-Identifier: Apache-2.0

// Package checkpoint keeps the checkpoints of a run: it commits, finds, reads, verifies, labels and prunes them, in a
// directory or in any other place for named bytes (docs/checkpoints.md, section 4; docs/format/checkpoint.md).
//
// Guarantee: a checkpoint is there whole or not at all, whenever its writer is killed, the disk is full or the power
// fails; the ones before it stay. What is read is what was written, or an error that names the file, the chunk and its
// nodes. Memory is bounded by one chunk, one table and the list of chunks. One process writes at a time; others may
// read meanwhile.
//
//	repo, err := checkpoint.Create(ctx, checkpoint.NewDir(path), run)
//	defer repo.Close()
//	draft := repo.Begin()
//	draft.Add(spool, size, chunks)
//	err = draft.Commit(ctx, &checkpoint.Manifest{Epoch: 3600})
//
//	m, err := repo.Find(ctx, "latest", 0)
//	err = repo.Chunks(ctx, m, func(c checkpoint.Chunk) error { data, err := repo.Read(ctx, m, c, nil); … })
package checkpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Repo is the checkpoints of one run. One goroutine uses it.
type Repo struct {
	blobs Blobs
	run   *Run
	*means
	unlock func() error // nil: it only reads
	most   int64        // bytes that a checkpoint may write, but for ends; 0: any number
}

// means are what chunks are read and written with.
type means struct {
	codec codec
	frame []byte // of the chunk that was read last
}

// Create begins the checkpoints of a run, which gets an id where it has none, and locks them. Where those of another
// run are, the error is *OtherRunError; where something else is, *NotRepoError.
func Create(ctx context.Context, b Blobs, run Run) (*Repo, error) {
	if run.ID == (ID{}) {
		rand.Read(run.ID[:])
	}
	run.Format = formatVersion
	if err := run.check(); err != nil {
		return nil, fmt.Errorf("checkpoint: a run that can't be saved: %w", err)
	}
	if err := CheckNew(ctx, b); err != nil {
		return nil, err
	}
	text, check, err := encodeJSON(&run)
	if err != nil {
		return nil, err
	}
	if len(text) > runBytesMax {
		return nil, fmt.Errorf("checkpoint: scenario, settings and attached files take %d bytes of %s, want at most %d",
			len(text), runName, runBytesMax)
	}
	run.Check = check
	r := &Repo{blobs: b, run: &run, means: &means{}}
	if err := r.lockNew(ctx); err != nil {
		return nil, err
	}
	err = putBytes(ctx, b, runName, text, true)
	if errors.Is(err, ErrExists) {
		err = CheckNew(ctx, b)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// CheckNew refuses, as Create does, a place that has a run's checkpoints, or anything that is no part of a Repo.
func CheckNew(ctx context.Context, b Blobs) error {
	blobs, err := b.List(ctx, "")
	if err != nil {
		return err
	}
	for _, blob := range blobs {
		if blob.Name != runName {
			continue
		}
		other, err := Open(ctx, b)
		if err != nil {
			return err
		}
		return &OtherRunError{Where: b.String(), Found: other.run}
	}
	for _, blob := range blobs {
		if !ours(blob.Name) {
			return &NotRepoError{Where: b.String(), Found: blob.Name}
		}
	}
	return nil
}

// ours reports whether a name is one that a Repo has before its run.json: a lock, and empty folders. What is in folders
// is of a run whose run.json is gone, and would be mixed up with that of another one.
func ours(name string) bool { return name == lockName || slices.Contains(folders, name) }

// Open reads which run's checkpoints are there; it takes no lock. Where there are none, the error is *NotRepoError.
func Open(ctx context.Context, b Blobs) (*Repo, error) {
	run := new(Run)
	err := readJSON(ctx, b, runName, runBytesMax, run)
	var missing *MissingError
	if errors.As(err, &missing) {
		return nil, &NotRepoError{Where: b.String()}
	}
	if err != nil {
		return nil, err
	}
	if err := run.check(); err != nil {
		return nil, &DamagedError{Where: b.String(), Name: runName, Err: err}
	}
	return &Repo{blobs: b, run: run, means: &means{}}, nil
}

// Share has r read with what other reads with, and hold the scenario's text and files with it where they are the same:
// of many parts of a run memory has these once. One goroutine uses both from then on.
func (r *Repo) Share(other *Repo) {
	r.means = other.means
	is, was := r.run, other.run
	same := bytes.Equal(is.Text, was.Text) && len(is.Attached) == len(was.Attached)
	for i := range is.Attached {
		same = same && is.Attached[i].Name == was.Attached[i].Name && is.Attached[i].Digest == was.Attached[i].Digest
	}
	if same { // each has been verified by its digest
		is.Text, is.Attached, is.Settings = was.Text, was.Attached, shared(is.Settings, was.Settings)
	}
}

// shared is the other one of two lists where they are the same.
func shared(is, was []Setting) []Setting {
	if slices.Equal(is, was) {
		return was
	}
	return is
}

// Run is what the checkpoints are of. It isn't to be changed.
func (r *Repo) Run() *Run { return r.run }

// Blobs is where they are. Journals of what the outside world answers are there, too (package answers).
func (r *Repo) Blobs() Blobs { return r.blobs }

// String says where it is, for messages.
func (r *Repo) String() string { return r.blobs.String() }

// Lock makes this process the one that writes; *LockedError where another one does. Methods that write want it.
func (r *Repo) Lock(ctx context.Context) error {
	unlock, err := r.blobs.Lock(ctx)
	if err == nil {
		r.unlock = unlock
	}
	return err
}

// Close gives the lock back, where it was taken.
func (r *Repo) Close() error {
	if r.unlock == nil {
		return nil
	}
	unlock := r.unlock
	r.unlock = nil
	if err := unlock(); err != nil {
		return fmt.Errorf("%v: the lock can't be given back, which others will find until it is old: %w", r, err)
	}
	return nil
}

// Withdraw undoes Create, and Copy, where nothing else was committed, so that another run can use the place. Else it
// does nothing.
func (r *Repo) Withdraw(ctx context.Context) error {
	r.mustWrite()
	points, err := r.Points(ctx)
	from := r.run.From
	if err == nil && from != nil && len(points) == 1 && points[0] == (Point{Epoch: from.Epoch}) {
		err, points = r.blobs.Delete(ctx, points[0].name()), nil
	}
	if err != nil || len(points) > 0 {
		return err
	}
	packs, err := r.packSizes(ctx)
	if err != nil {
		return err
	}
	if err := r.blobs.Delete(ctx, slices.Collect(maps.Keys(packs))...); err != nil {
		return err
	}
	return r.blobs.Delete(ctx, runName)
}

// mustWrite is called by what writes.
func (r *Repo) mustWrite() {
	if r.unlock == nil {
		panic("checkpoint: " + r.String() + " is written to without Lock")
	}
}
