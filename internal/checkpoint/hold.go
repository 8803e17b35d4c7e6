// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/internal/outfile"
)

// Hold keeps within reach of this Repo what a checkpoint has, until release, also where it is pruned meanwhile: of a
// directory its packs stay open, of any other place they are copied to a file without a name in dir. *PrunedError where
// it is gone already.
func (r *Repo) Hold(ctx context.Context, m *Manifest, dir string) (release func() error, err error) {
	h := &held{Blobs: r.blobs, packs: map[string]*os.File{}}
	for _, pack := range m.Packs {
		name := pack.name()
		if h.packs[name] != nil {
			continue
		}
		f, err := r.hold(ctx, pack, dir)
		if missing(err) {
			err = r.lost(ctx, m, &DamagedError{Where: r.String(), Name: name,
				Err: errors.New("found no such file, want a pack")})
		}
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
		h.packs[name] = f
	}
	r.blobs = h
	return func() error {
		r.blobs = h.Blobs
		return h.close()
	}, nil
}

// hold opens a pack, or a copy of it.
func (r *Repo) hold(ctx context.Context, pack Pack, dir string) (*os.File, error) {
	name := pack.name()
	if d, ok := r.blobs.(*Dir); ok {
		// O_NONBLOCK: a named pipe isn't waited for; Get refuses it.
		f, err := os.OpenFile(d.file(name), os.O_RDONLY|unix.O_NONBLOCK, 0)
		if errors.Is(err, os.ErrNotExist) {
			return nil, &MissingError{d.path, name}
		}
		return f, err
	}
	f, err := outfile.Temporary(dir)
	if err != nil {
		return nil, fmt.Errorf("temporary file for a checkpoint: %w", outfile.Error(dir, err))
	}
	from := io.NewSectionReader(blobReader{ctx, r.blobs, name}, 0, pack.Bytes)
	if _, err = io.CopyBuffer(onlyWriter{f}, from, make([]byte, packReadBytes)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// onlyWriter hides that a file can read by itself, with a buffer of its own.
type onlyWriter struct{ io.Writer }

// held is a place for blobs of which some packs are in files that are open.
type held struct {
	Blobs
	packs map[string]*os.File // by name
}

// Get implements Blobs.
func (h *held) Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	f := h.packs[name]
	if f == nil {
		return h.Blobs.Get(ctx, name, from, size, buf)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return readPart(f, h.String(), name, from, size, buf)
}

func (h *held) close() (err error) {
	for _, f := range h.packs {
		err = errors.Join(err, f.Close())
	}
	return err
}
