// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/disco-sim/disco/internal/checkpoint"
)

const (
	partLeast = 16 << 20 // of blobs up to 156 GiB
	partsMax  = 10000    // of S3
	flights   = 4        // parts under way at once
	namesMax  = 4 << 20  // of a folder: as in a directory
	putTries  = 10       // of one that was refused because of another one at the same time
	getTries  = 10       // of an answer that breaks off before anything of it came

	// writeKey is metadata of a blob: a random word, by which a writer knows a blob as its own.
	writeKey = "Disco-Write"
)

// partBytes is how much of a blob is sent at once.
func (s *Store) partBytes(size int64) int64 { return max(s.part, (size+partsMax-1)/partsMax) }

// Put implements checkpoint.Blobs. A blob of more than a part is sent in several ones.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	if err := s.mayWrite(ctx); err != nil {
		return err
	}
	w := &write{Store: s, name: name, onlyNew: onlyNew, word: rand.Text()}
	if size > s.partBytes(size) {
		return w.inParts(ctx, r, size)
	}
	data, err := w.read(r, make([]byte, size), 0)
	if err != nil {
		return err
	}
	sum := sum(data)
	for try := 0; ; try++ {
		err := s.call(ctx, "put", name, func(ctx context.Context) error {
			_, err := s.core.PutObject(ctx, s.bucket, s.key(name), bytes.NewReader(data), size, "", sum,
				w.options())
			return err
		})
		if err = w.judge(ctx, err); !errors.Is(err, errAgain) || try == putTries {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// write is a blob that is being written.
type write struct {
	*Store
	name    string
	onlyNew bool
	word    string // random
}

// sum is what a request's body is signed by, so that the store sees that it is whole.
func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// options of a put.
func (w *write) options() (o minio.PutObjectOptions) {
	o.UserMetadata, o.DisableContentSha256 = map[string]string{writeKey: w.word}, true // see sum
	if w.onlyNew {
		o.SetMatchETagExcept("*")
	}
	return o
}

// read fills a part, of which some bytes were read before.
func (w *write) read(r io.Reader, part []byte, before int64) ([]byte, error) {
	if n, err := io.ReadFull(r, part); err != nil {
		return nil, fmt.Errorf("s3: %v/%s: byte %d of what is to be written: %w", w.Store, w.name, before+int64(n),
			cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return part, nil
}

// errAgain says that the same put may succeed.
var errAgain = errors.New("another one was writing it at the same time")

// judge says what an error of a put with a condition means: an answer that was lost may have been a yes.
func (w *write) judge(ctx context.Context, err error) error {
	switch found := answered(err); {
	case found == "NoSuchUpload", w.onlyNew && (found == "PreconditionFailed" || found == "ConditionalRequestConflict"):
		var own bool
		errLook := w.call(ctx, "look at", w.name, func(ctx context.Context) error {
			info, err := w.core.StatObject(ctx, w.bucket, w.key(w.name), minio.StatObjectOptions{})
			own = info.UserMetadata[writeKey] == w.word
			return err
		})
		switch {
		case own:
			return nil
		case found == "PreconditionFailed" && errLook == nil:
			return checkpoint.ErrExists
		case found == "NoSuchUpload":
			return err
		case errLook != nil && answered(errLook) != "NoSuchKey":
			return errLook
		}
		return fmt.Errorf("%w: %w", err, errAgain) // or it was deleted between
	}
	return err
}

// inParts sends a blob in parts, some of them at once.
func (w *write) inParts(ctx context.Context, r io.Reader, size int64) (err error) {
	var id string
	err = w.call(ctx, "put", w.name, func(ctx context.Context) (err error) {
		begin := w.options()
		if w.onlyNew { // a condition is for the end
			begin = minio.PutObjectOptions{UserMetadata: begin.UserMetadata}
		}
		id, err = w.core.NewMultipartUpload(ctx, w.bucket, w.key(w.name), begin)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.abort(context.WithoutCancel(ctx), w.key(w.name), id))
		}
	}()
	parts, err := w.send(ctx, id, r, size)
	if err != nil {
		return err
	}
	if err := w.mayWrite(ctx); err != nil { // sending may have taken long
		return err
	}
	err = w.call(ctx, "put", w.name, func(ctx context.Context) error {
		_, err := w.core.CompleteMultipartUpload(ctx, w.bucket, w.key(w.name), id, parts, w.options())
		return err
	})
	return w.judge(ctx, err)
}

// abort takes parts back. What stays where that fails is taken back by the next one that takes the lock.
func (s *Store) abort(ctx context.Context, key, id string) error {
	err := s.call(ctx, "take back", strings.TrimPrefix(key, s.prefix), func(ctx context.Context) error {
		return s.core.AbortMultipartUpload(ctx, s.bucket, key, id)
	})
	if answered(err) == "NoSuchUpload" {
		return nil
	}
	return err
}

// send sends all parts. After an error it sends no more, but waits for the answers to those that are under way: a store
// may still keep a part whose request was broken off when the parts were taken back.
func (w *write) send(ctx context.Context, id string, r io.Reader, size int64) ([]minio.CompletePart, error) {
	failed, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	each := w.partBytes(size)
	parts := make([]minio.CompletePart, (size+each-1)/each)
	free := make(chan []byte, flights)
	for range flights {
		free <- nil
	}
	var all sync.WaitGroup
	for n, at := 0, int64(0); at < size && failed.Err() == nil; n, at = n+1, at+each {
		buf := <-free
		if buf == nil {
			buf = make([]byte, each)
		}
		part, err := w.read(r, buf[:min(each, size-at)], at)
		if err != nil {
			fail(err)
			break
		}
		all.Go(func() {
			err := w.call(ctx, "put", w.name, func(ctx context.Context) error {
				sent, err := w.core.PutObjectPart(ctx, w.bucket, w.key(w.name), id, n+1, bytes.NewReader(part),
					int64(len(part)), minio.PutObjectPartOptions{Sha256Hex: sum(part), DisableContentSha256: true})
				parts[n] = minio.CompletePart{PartNumber: n + 1, ETag: sent.ETag}
				return err
			})
			if err != nil {
				fail(err)
			}
			free <- buf
		})
	}
	all.Wait()
	return parts, context.Cause(failed)
}

// Get implements checkpoint.Blobs.
func (s *Store) Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	g := &get{Store: s, name: name, from: from, size: min(size, math.MaxInt64-from), data: buf[:0]}
	err := s.call(ctx, "get", name, func(ctx context.Context) error {
		for try := 0; ; try++ {
			before := len(g.data)
			broken, err := g.read(ctx)
			if !broken || err == nil || try == getTries {
				return err
			}
			if len(g.data) > before {
				try = 0
			}
			if err := pause(ctx, try); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return nil, s.missing(name, err)
	}
	return g.data, nil
}

// get is a blob that is being read.
type get struct {
	*Store
	name       string
	from, size int64
	data       []byte // so far
	etag       string // of what was found; empty: nothing so far
}

// read reads what is left. broken: the answer has begun, and the rest may be asked for.
func (g *get) read(ctx context.Context) (broken bool, err error) {
	var o minio.GetObjectOptions
	have := int64(len(g.data))
	// At least a byte, which tells whether the blob is there.
	o.Set("Range", fmt.Sprintf("bytes=%d-%d", g.from+have, g.from+max(g.size, 1)-1))
	if g.etag != "" {
		err = o.SetMatchETag(g.etag)
	}
	if err != nil {
		return false, err
	}
	body, info, header, err := g.core.GetObject(ctx, g.bucket, g.key(g.name), o)
	if answerOf(err).Code == "InvalidRange" {
		return false, nil // it ends before
	}
	if err != nil {
		return false, err
	}
	defer body.Close()
	place := header.Get("Content-Range")
	if !strings.HasPrefix(place, fmt.Sprintf("bytes %d-", g.from+have)) {
		return false, fmt.Errorf("found the range %q, want one that begins at byte %d", place, g.from+have)
	}
	g.etag = info.ETag
	n := int(max(0, min(g.size-have, info.Size)))
	g.data = slices.Grow(g.data, n)
	part := g.data[have : int(have)+n]
	got, err := io.ReadFull(body, part)
	g.data = g.data[:int(have)+got]
	return true, err
}

// List implements checkpoint.Blobs.
func (s *Store) List(ctx context.Context, prefix string) ([]checkpoint.Blob, error) {
	blobs, err := s.listFolder(ctx, prefix)
	if err != nil || prefix != "" {
		return blobs, err
	}
	var all []checkpoint.Blob
	for _, b := range blobs {
		if !checkpoint.IsFolder(b.Name) {
			all = append(all, b)
			continue
		}
		inside, err := s.listFolder(ctx, b.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, inside...)
	}
	slices.SortFunc(all, func(a, b checkpoint.Blob) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// listFolder lists a folder, which is empty or ends in a slash.
func (s *Store) listFolder(ctx context.Context, folder string) (blobs []checkpoint.Blob, err error) {
	owner := false
	err = s.call(ctx, "list", folder, func(ctx context.Context) error {
		blobs = nil
		for o := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.key(folder),
			FetchOwner: &owner}) {
			if o.Err != nil {
				return o.Err
			}
			name, ok := strings.CutPrefix(o.Key, s.prefix)
			if !ok || name == folder {
				continue // the folder itself, as some programs make it
			}
			if len(blobs) == s.namesMax {
				return fmt.Errorf("there are more than %d names: remove some, or name another prefix", s.namesMax)
			}
			blobs = append(blobs, checkpoint.Blob{Name: name, Size: max(0, o.Size)})
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(blobs, func(a, b checkpoint.Blob) int { return cmp.Compare(a.Name, b.Name) })
	return blobs, nil
}

// Delete implements checkpoint.Blobs.
func (s *Store) Delete(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	if err := s.mayWrite(ctx); err != nil {
		return err
	}
	for _, name := range names {
		err := s.call(ctx, "delete", name, func(ctx context.Context) error {
			return s.core.RemoveObject(ctx, s.bucket, s.key(name), minio.RemoveObjectOptions{})
		})
		if err != nil && answered(err) != "NoSuchKey" {
			return err
		}
	}
	return nil
}
