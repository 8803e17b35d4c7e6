// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/infile"
)

// cached is a file of the cache.
var cached = infile.Kind{Name: "a text of an experiment", BytesMax: fleet.MaxAttached}

// fetch gives the bytes of a digest, from the cache where they are there.
func (l *Local) fetch(ctx context.Context, d fleet.Digest) ([]byte, error) {
	if raw, err := hex.DecodeString(d.SHA256); err != nil || len(raw) != sha256.Size || d.Bytes < 0 ||
		d.Bytes > fleet.MaxAttached {
		return nil, fmt.Errorf("found the digest %.80q of %d bytes, want a SHA-256 of at most %d", d.SHA256, d.Bytes,
			fleet.MaxAttached)
	}
	path := filepath.Join(l.blobs(), d.SHA256)
	if text, err := infile.Read(path, cached); err == nil && is(d, text) {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // it is removed later than others, or sooner
		return text, nil
	}
	text, err := l.o.Fetch(ctx, d)
	if errors.Is(err, fleet.ErrNoBlob) {
		err = &executor.OwnError{Why: err}
	}
	if err != nil {
		return nil, err
	}
	if !is(d, text) {
		return nil, fmt.Errorf("found %d bytes with another digest, want %d with %s", len(text), d.Bytes, d.SHA256)
	}
	f, err := os.CreateTemp(l.blobs(), "new-")
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(text); err != nil {
		f.Close()
	} else {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return nil, err
	}
	l.prune()
	return text, nil
}

// is tells whether a text has a digest.
func is(d fleet.Digest, text []byte) bool {
	sum := sha256.Sum256(text)
	return int64(len(text)) == d.Bytes && hex.EncodeToString(sum[:]) == d.SHA256
}

// prune removes what was used longest ago until the cache is as large as it may be. Files that vanish meanwhile, or
// can't be removed, are met again the next time.
func (l *Local) prune() {
	l.cache.Lock()
	defer l.cache.Unlock()
	entries, err := os.ReadDir(l.blobs())
	if err != nil {
		return
	}
	var files []os.FileInfo
	var all int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files, all = append(files, info), all+info.Size()
		}
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if all <= l.o.Cache {
			return
		}
		if os.Remove(filepath.Join(l.blobs(), f.Name())) == nil {
			all -= f.Size()
		}
	}
}
