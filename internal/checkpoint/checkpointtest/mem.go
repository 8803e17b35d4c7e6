// SPDX-License-Identifier: Apache-2.0

package checkpointtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// Mem is Blobs in memory. Goroutines may share it.
type Mem struct {
	mu     sync.Mutex
	blobs  map[string][]byte
	locked bool
}

// NewMem has no blobs.
func NewMem() *Mem { return &Mem{blobs: map[string][]byte{}} }

// String names it.
func (m *Mem) String() string { return "mem" }

// Put implements checkpoint.Blobs.
func (m *Mem) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	var data bytes.Buffer
	if _, err := io.CopyN(&data, r, size); err != nil {
		return fmt.Errorf("checkpointtest: %s: %w", name, errors.Join(err, io.ErrUnexpectedEOF))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs[name] != nil && onlyNew {
		return checkpoint.ErrExists
	}
	if ctx.Err() == nil {
		m.blobs[name] = append([]byte{}, data.Bytes()...)
	}
	return ctx.Err()
}

// Get implements checkpoint.Blobs.
func (m *Mem) Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data := m.blobs[name]
	if data == nil {
		return nil, &checkpoint.MissingError{Where: m.String(), Name: name}
	}
	data = data[min(from, int64(len(data))):]
	return append(buf[:0], data[:min(size, int64(len(data)))]...), ctx.Err()
}

// List implements checkpoint.Blobs.
func (m *Mem) List(ctx context.Context, prefix string) (blobs []checkpoint.Blob, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.blobs)) {
		if strings.HasPrefix(name, prefix) {
			blobs = append(blobs, checkpoint.Blob{Name: name, Size: int64(len(m.blobs[name]))})
		}
	}
	return blobs, ctx.Err()
}

// Delete implements checkpoint.Blobs.
func (m *Mem) Delete(ctx context.Context, names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() == nil {
		for _, name := range names {
			delete(m.blobs, name)
		}
	}
	return ctx.Err()
}

// Lock implements checkpoint.Blobs.
func (m *Mem) Lock(context.Context) (func() error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked {
		return nil, &checkpoint.LockedError{Where: m.String()}
	}
	m.locked = true
	return func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.locked = false
		return nil
	}, nil
}

// Unlock is the end of the process that has the lock.
func (m *Mem) Unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locked = false
}

// How an operation of Faulty ends.
const (
	Fail  = iota // it does nothing, and is an error; the ones behind it work
	Stop         // it and all behind it do nothing, and are errors, as if the writer had been killed in front of it
	Doubt        // it works, and is an error, as if an answer was lost
)

// Faulty has one operation that fails: Puts, Deletes, Lists, Gets, Locks are counted, from 0.
type Faulty struct {
	checkpoint.Blobs
	At, How int
	Err     error
	Count   int // operations so far
}

// fault tells what an operation has to do.
func (f *Faulty) fault() (works bool, err error) {
	n := f.Count
	f.Count++
	switch {
	case n == f.At && f.How == Doubt:
		return true, f.Err
	case n == f.At, n > f.At && f.How == Stop:
		return false, f.Err
	}
	return true, nil
}

// Put implements checkpoint.Blobs. One that fails has read half of what it got.
func (f *Faulty) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	works, err := f.fault()
	if !works {
		_, errRead := io.CopyN(io.Discard, r, size/2)
		return errors.Join(err, errRead)
	}
	return cmp.Or(f.Blobs.Put(ctx, name, r, size, onlyNew), err)
}

// Get implements checkpoint.Blobs.
func (f *Faulty) Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	if _, err := f.fault(); err != nil {
		return nil, err
	}
	return f.Blobs.Get(ctx, name, from, size, buf)
}

// List implements checkpoint.Blobs.
func (f *Faulty) List(ctx context.Context, prefix string) ([]checkpoint.Blob, error) {
	if _, err := f.fault(); err != nil {
		return nil, err
	}
	return f.Blobs.List(ctx, prefix)
}

// Delete implements checkpoint.Blobs. One that fails has deleted half of the names.
func (f *Faulty) Delete(ctx context.Context, names ...string) error {
	works, err := f.fault()
	if !works {
		names = names[:len(names)/2]
	}
	return cmp.Or(f.Blobs.Delete(ctx, names...), err)
}

// Lock implements checkpoint.Blobs.
func (f *Faulty) Lock(ctx context.Context) (func() error, error) {
	if _, err := f.fault(); err != nil {
		return nil, err
	}
	return f.Blobs.Lock(ctx)
}
