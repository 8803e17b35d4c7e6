// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Blobs is where named bytes are kept. Implemented by Dir and checkpointtest.Mem; checkpointtest.Run is what each
// passes. Names are those of docs/format/checkpoint.md: one folder deep at most.
type Blobs interface {
	// Put stores a blob of the size bytes that r gives, which may be read from this place meanwhile. When it returns
	// nil the blob is there whole and durable. After an error nothing of it is there, or all of it. One that is there
	// already is replaced; with onlyNew it stays, the error is ErrExists, and exactly one of several Puts succeeds.
	Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error

	// Get reads size bytes from a place on, fewer where the blob ends before, into the memory of buf where that is
	// enough. *MissingError where there is none.
	Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error)

	// List gives the blobs whose names begin with prefix, by name. prefix is empty or a folder; with an empty one,
	// what is no blob of a Repo may be one entry for a folder, whose name ends in a slash.
	List(ctx context.Context, prefix string) ([]Blob, error)

	// Delete removes blobs; nil where there are none. When it returns nil that is durable.
	Delete(ctx context.Context, names ...string) error

	// Lock keeps other writers out until unlock, or the end of this process. *LockedError where there is one.
	Lock(ctx context.Context) (unlock func() error, err error)

	// String says where it is, for messages.
	String() string
}

// Blob is a name, and how many bytes it stands for.
type Blob struct {
	Name string
	Size int64
}

// ErrExists says that a blob that was to be new is there.
var ErrExists = errors.New("checkpoint: it is there already")

// MissingError is a blob that isn't there.
type MissingError struct{ Where, Name string }

// Error says what is missing.
func (e *MissingError) Error() string { return e.Where + "/" + e.Name + ": no such file" }

// LockedError says that another process writes.
type LockedError struct {
	Where string
	Owner string // who it is; empty: unknown
}

// Error says who writes, and what to do.
func (e *LockedError) Error() string {
	owner := e.Owner
	if owner == "" {
		owner = "another process"
	}
	return fmt.Sprintf("%s: %s writes to it: wait for its end, or end it", e.Where, owner)
}

// NotRepoError says that no run's checkpoints are there.
type NotRepoError struct {
	Where string
	Found string // what is there instead; empty: no run.json
}

// Error says what is there instead, and what to do.
func (e *NotRepoError) Error() string {
	if e.Found == "" {
		return fmt.Sprintf("%s: found no %s, want a directory with the checkpoints of a run", e.Where, runName)
	}
	return fmt.Sprintf("%s: found %q, which is no part of a run's checkpoints: name an empty or new directory",
		e.Where, e.Found)
}

// OtherRunError says that the checkpoints of another run are there.
type OtherRunError struct {
	Where string
	Name  string // the file that shows it; empty: run.json
	Found *Run
}

// Error says which run it is, and what to do.
func (e *OtherRunError) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("%s/%s: found a checkpoint of run %v, want those of one run only: the file was put here "+
			"from that run's directory, or the directory has taken this one's place", e.Where, e.Name, e.Found.ID)
	}
	return fmt.Sprintf("%s: found the checkpoints of run %v (%s, %s): resume that run, or name another directory",
		e.Where, e.Found.ID, e.Found.Kind, e.Found.File)
}

// DamagedError is a file of a Repo that isn't as it was written.
type DamagedError struct {
	Where, Name string
	Chunk       *Chunk // nil: it is about the file
	Err         error  // what was found, and what is wanted
}

// Error names file, chunk and nodes, and says what to do where no other checkpoint helps.
func (e *DamagedError) Error() string {
	if e.Chunk == nil {
		return fmt.Sprintf("%s/%s: %v%s", e.Where, e.Name, e.Err, e.remedy())
	}
	return fmt.Sprintf("%s/%s: %v: %v", e.Where, e.Name, e.Chunk, e.Err)
}

// remedy is what to do about a file that stands for no checkpoint.
func (e *DamagedError) remedy() string {
	switch label, isLabel := strings.CutPrefix(e.Name, labelFolder); {
	case OtherVersion(e.Err): // it says so itself
	case isLabel:
		return fmt.Sprintf(": remove the label (checkpoints unlabel %s %s), and give it again", e.Where,
			strings.TrimSuffix(label, ".json"))
	case e.Name == runName:
		return ": it has the scenario, without which no checkpoint can be read: restore it from a copy, or begin the " +
			"run in another place"
	}
	return ""
}

// OfPoint reports whether the file is that of one checkpoint, or of the end of a replication.
func (e *DamagedError) OfPoint() bool {
	return strings.HasPrefix(e.Name, pointFolder) || strings.HasPrefix(e.Name, doneFolder)
}

// Unwrap gives what was found.
func (e *DamagedError) Unwrap() error { return e.Err }

// damaged reports whether an error says that a file is damaged, and not, for example, that it can't be reached.
func damaged(err error) bool {
	var d *DamagedError
	return errors.As(err, &d)
}

// missing reports whether an error says that a file isn't there.
func missing(err error) bool {
	var m *MissingError
	return errors.As(err, &m)
}

// putBytes stores bytes.
func putBytes(ctx context.Context, b Blobs, name string, text []byte, onlyNew bool) error {
	return b.Put(ctx, name, bytes.NewReader(text), int64(len(text)), onlyNew)
}

// blobReader reads a blob at any place.
type blobReader struct {
	ctx   context.Context
	blobs Blobs
	name  string
}

// ReadAt implements io.ReaderAt.
func (b blobReader) ReadAt(p []byte, at int64) (int, error) {
	data, err := b.blobs.Get(b.ctx, b.name, at, int64(len(p)), p[:0])
	n := copy(p, data)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// cleaning is the context for taking back what was written. Where the writing was canceled it has little time: somebody
// waits for the end, and Prune takes it back, too.
func cleaning(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	const least = time.Second
	return context.WithTimeout(context.WithoutCancel(ctx), least)
}
