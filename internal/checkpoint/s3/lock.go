// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// The times of a lock. Others take it when it is freeAfter old, by the store's clock. It is renewed each third of
// that; a holder that couldn't renew it for two thirds writes nothing.
const (
	freeAfter = 60 * time.Second
	unlockMax = 5 * time.Second // for giving it back: else it ends by its age
)

func (s *Store) renewEvery() time.Duration { return s.freeAfter / 3 }

func (s *Store) trusted() time.Duration { return 2 * s.freeAfter / 3 }

const (
	lockBytesMax = 4 << 10
	lockTries    = 5 // where a lock is given back, or taken, at the same time
)

// lockText is what a lock's object has.
type lockText struct {
	Owner  string    `json:"owner"`
	Time   time.Time `json:"time"` // of the owner's clock, for people
	Number uint64    `json:"number"`
	Word   string    `json:"word"` // random: by which the holder knows it as its own
}

// foundLock is a lock as it was found.
type foundLock struct {
	lockText
	etag string
	age  time.Duration // since it was written, by the store's clock
}

// hold is the lock of a Store that has it.
type hold struct {
	*Store
	word  string
	stop  context.CancelFunc // ends what renews it
	ended chan struct{}      // closed when that has ended

	mu     sync.Mutex // guards the rest; held while it is written
	etag   string
	number uint64
	alive  time.Time // when the last write that succeeded was begun
	lost   error     // nil: it is still there
}

// Lock implements checkpoint.Blobs: an object that is made where there is none, and renewed by a goroutine until
// unlock. It ends with the process by its age. What a killed writer has sent in parts is taken back.
func (s *Store) Lock(ctx context.Context) (unlock func() error, err error) {
	h := &hold{Store: s, word: rand.Text(), ended: make(chan struct{})}
	for try := range lockTries {
		err := h.put(ctx, "")
		if !refused(err) {
			return h.begin(ctx, err)
		}
		found, err := s.readLock(ctx)
		var missing *checkpoint.MissingError
		switch {
		case errors.As(err, &missing): // given back just now
		case err != nil:
			return nil, err
		case found.Word == h.word: // the answer to put was lost
			h.etag = found.etag
			return h.begin(ctx, nil)
		case found.age < s.freeAfter:
			owner := strings.TrimSpace(found.Owner)
			if owner != "" {
				owner += fmt.Sprintf(" (last sign of life %d s ago; after %d s another one may write)",
					found.age/time.Second, s.freeAfter/time.Second)
			}
			return nil, &checkpoint.LockedError{Where: s.String(), Owner: owner}
		default:
			if err := h.put(ctx, found.etag); !refused(err) {
				return h.begin(ctx, err)
			}
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
	return nil, &checkpoint.LockedError{Where: s.String()}
}

// refused reports whether a condition of a put didn't hold.
func refused(err error) bool {
	switch answered(err) {
	case "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey":
		return true
	}
	return false
}

// begin is the rest of Lock, with what put has ended with.
func (h *hold) begin(ctx context.Context, err error) (unlock func() error, _ error) {
	if err != nil {
		return nil, err
	}
	h.Store.mu.Lock()
	h.held = h
	h.Store.mu.Unlock()
	renew, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	go h.renewal(renew)
	if err := h.probe(ctx); err != nil {
		return nil, errors.Join(err, h.unlock())
	}
	h.sweep(ctx)
	return h.unlock, nil
}

// probe refuses a store that doesn't heed conditions: two writers couldn't be kept apart there.
func (h *hold) probe(ctx context.Context) error {
	h.mu.Lock()
	err := h.write(ctx, "", h.number)
	h.mu.Unlock()
	if err == nil {
		return fmt.Errorf("%v: the store at %s has taken a write with If-None-Match: * over a blob that is there, so "+
			"two runs couldn't be kept apart: want a store with conditional writes", h.Store, h.endpoint)
	}
	if !refused(err) {
		return err
	}
	return h.mayWrite(ctx)
}

// write writes the lock with a condition: that it is as it was, or, without an etag, that there is none.
func (h *hold) write(ctx context.Context, etag string, number uint64) error {
	text, err := json.Marshal(lockText{h.owner, h.clock.now().UTC(), number, h.word})
	if err != nil {
		return err
	}
	o := minio.PutObjectOptions{DisableContentSha256: true} // see sum
	if etag == "" {
		o.SetMatchETagExcept("*")
	} else {
		o.SetMatchETag(etag)
	}
	return h.call(ctx, "lock", checkpoint.LockName, func(ctx context.Context) error {
		info, err := h.core.PutObject(ctx, h.bucket, h.key(checkpoint.LockName), bytes.NewReader(text),
			int64(len(text)), "", sum(text), o)
		if err == nil {
			h.etag = info.ETag
		}
		return err
	})
}

// put writes the lock, and notes when.
func (h *hold) put(ctx context.Context, etag string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	begun := h.clock.now()
	h.alive = begun // of Lock, where the answer is lost
	err := h.write(ctx, etag, h.number+1)
	if err == nil {
		h.number++
	}
	return err
}

// renewal renews the lock until it is lost or given back.
func (h *hold) renewal(ctx context.Context) {
	defer close(h.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.clock.after(h.renewEvery()):
		}
		// Who writes next renews it itself, where this has failed, and has the error.
		if err := h.renew(ctx, 0); err != nil && h.isLost() != nil {
			return
		}
	}
}

// renew writes the lock, unless it was written so shortly ago.
func (h *hold) renew(ctx context.Context, enough time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil {
		return h.lost
	}
	begun := h.clock.now()
	if begun.Sub(h.alive) < enough {
		return nil
	}
	err := h.write(ctx, h.etag, h.number+1)
	if refused(err) {
		var found *foundLock
		if found, err = h.readOwn(ctx); err == nil {
			h.etag = found.etag // the answer was lost
		}
	}
	if err == nil {
		h.alive, h.number = begun, h.number+1
	}
	return err
}

// readOwn reads the lock, and sees that it is still this one's. The caller has h.mu.
func (h *hold) readOwn(ctx context.Context) (*foundLock, error) {
	found, err := h.readLock(ctx)
	var missing *checkpoint.MissingError
	switch {
	case errors.As(err, &missing):
		h.lost = fmt.Errorf("%v: its lock is gone, so that this process writes no more: see that nobody removes it",
			h.Store)
	case err != nil:
		return nil, err
	case found.Word != h.word:
		h.lost = &checkpoint.LockedError{Where: h.Store.String(),
			Owner: fmt.Sprintf("%s, which has taken the lock from this process,", found.Owner)}
	}
	return found, h.lost
}

// isLost gives the error of a lock that is lost.
func (h *hold) isLost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// mayWrite refuses to write with a lock that is lost. Without one it allows it: it is Repo's to take one.
func (s *Store) mayWrite(ctx context.Context) error {
	s.mu.Lock()
	h := s.held
	s.mu.Unlock()
	if h == nil {
		return nil
	}
	if err := h.renew(ctx, h.trusted()); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.readOwn(ctx)
	return err
}

// unlock gives the lock back, where it is still this one's. A second call does nothing.
func (h *hold) unlock() error {
	h.Store.mu.Lock()
	mine := h.held == h
	if mine {
		h.held = nil
	}
	h.Store.mu.Unlock()
	h.stop()
	<-h.ended
	if !mine || h.isLost() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), unlockMax)
	defer cancel()
	if err := h.renew(ctx, h.trusted()); err != nil {
		if h.isLost() != nil {
			return nil
		}
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.readOwn(ctx); h.lost != nil {
		return nil
	} else if err != nil {
		return err
	}
	return h.call(ctx, "unlock", checkpoint.LockName, func(ctx context.Context) error {
		return h.core.RemoveObject(ctx, h.bucket, h.key(checkpoint.LockName), minio.RemoveObjectOptions{})
	})
}

// readLock reads the lock. *checkpoint.MissingError where there is none.
func (s *Store) readLock(ctx context.Context) (*foundLock, error) {
	found := &foundLock{}
	err := s.call(ctx, "read lock", checkpoint.LockName, func(ctx context.Context) error {
		body, info, header, err := s.core.GetObject(ctx, s.bucket, s.key(checkpoint.LockName),
			minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer body.Close()
		text := make([]byte, lockBytesMax)
		n, err := io.ReadFull(body, text)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		// What isn't a lock's text is a lock all the same, whose owner nobody knows.
		if json.Unmarshal(text[:n], &found.lockText) != nil {
			found.lockText = lockText{}
		}
		found.etag = info.ETag
		// Both by the store's clock: this machine's doesn't matter. Without them a lock is never old.
		now, errNow := http.ParseTime(header.Get("Date"))
		written, errWritten := http.ParseTime(header.Get("Last-Modified"))
		if errNow == nil && errWritten == nil {
			found.age = max(0, now.Sub(written))
		}
		return nil
	})
	return found, s.missing(checkpoint.LockName, err)
}

// sweep takes back what writers that were killed have sent in parts: nobody else writes now. What it can't take back
// costs room, and nothing else.
func (h *hold) sweep(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_ = h.call(ctx, "list", "", func(ctx context.Context) error {
		uploads := h.core.ListIncompleteUploads(ctx, h.bucket, h.prefix, true)
		defer func() {
			cancel()
			for range uploads { // ends what lists them
			}
		}()
		for u := range uploads {
			if u.Err != nil {
				return u.Err
			}
			name := strings.TrimPrefix(u.Key, h.prefix)
			if folder, _, ok := strings.Cut(name, "/"); name == "run.json" || ok && checkpoint.IsFolder(folder+"/") {
				if err := h.abort(ctx, u.Key, u.UploadID); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
