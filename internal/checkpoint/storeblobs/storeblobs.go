// SPDX-License-Identifier: Apache-2.0

// Package storeblobs keeps checkpoints in a metadata store, where there are no larger places that all machines reach:
// the ends of replications of an experiment, say, which are small.
//
// Guarantee: a blob is there whole or not at all, whenever its writer is killed or the store's connection breaks; it
// is as durable as the store's engine makes it. Of several writers one has the lock, and one that has lost it, with
// its session, takes it again at its next write, and goes on where nobody else has written meanwhile; else it writes
// and deletes nothing more. Memory is that of one piece, PieceBytes. Every call ends: where the store doesn't answer,
// after 30 s, with metastore.ErrUnavailable.
//
//	store, err := dial.Open(ctx, dial.Options{URL: "etcd://127.0.0.1:2379/night", Store: storeblobs.Options("parts")})
//	place := storeblobs.New(store, "part-7", "part 7 of night", "process 7 on alpha")
//	repo, err := checkpoint.Open(ctx, place)
//
// A blob is a head, KEY/names/NAME, with its size and a random number, and pieces, KEY/data/NUMBER/0 and so on, which
// are written before the head and never changed: so readers see one writing of a blob or another, and no mixture.
// KEY/lock is the lock, and KEY/writer has the mark of whoever had it last.
package storeblobs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/metastore"
)

const (
	PieceBytes = 900_000   // of a piece: a value has at most a megabyte, with its encoding
	BlobMax    = 256 << 20 // bytes of a blob: a store isn't the place for large ones

	QuietMax  = 30 * time.Second // for which a store that doesn't answer is waited for
	leaveMax  = 10 * time.Second // the same for what happens later anyway: see leave
	silentMax = time.Second      // the same where the call before had no answer either

	sweepBatch = 20 // trees of pieces that are deleted in one commit
	rereads    = 5  // of a blob that is replaced while it is read
)

// Group and Key are where a metadata store keeps a run's checkpoints, below the path of the address.
const (
	Group = "checkpoints"
	Key   = "run"
)

// Options are those of a store that has places.
func Options(group string) metastore.Options {
	return metastore.Options{Group: group, Codec: metastore.CBOR} // JSON has no bytes
}

// Place is a place in a store: checkpoint.Blobs. Goroutines may share it. The store stays its caller's.
type Place struct {
	// Quiet is for how long a store is waited for that doesn't answer: QuietMax, and less in tests, which set it before
	// the place is used.
	Quiet time.Duration
	// Report gets what there is to say of a lock that was taken again; nil: nobody wants it. It is set before the place
	// is used, and called by whoever writes.
	Report func(text string)

	store *metastore.Store
	key   string
	name  string
	owner string

	silent atomic.Bool // the last call had no answer

	locking sync.Mutex // held while the lock is taken, taken again, or given back
	mu      sync.Mutex
	lock    *metastore.Cond // that the lock is still this Place's; nil: it has none
	mark    string          // by which this Place knows that it was the last to have the lock
}

var _ checkpoint.Blobs = (*Place)(nil)

// New is the place at a key of a store that was opened with Options. name is what messages call it, and owner whose
// lock it is, for people.
func New(store *metastore.Store, key, name, owner string) *Place {
	return &Place{store: store, key: key, name: name, owner: owner, Quiet: QuietMax}
}

// TooLargeError is a blob that is too large for a store.
type TooLargeError struct {
	Where, Name string
	Size        int64
}

// Error says what to do.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: %s has %d bytes, and a metadata store takes at most %d in one: keep checkpoints of this "+
		"run in a directory or an object store", e.Where, e.Name, e.Size, BlobMax)
}

// ErrLost says that the lock was lost, with the store's session, and that another writer has it, or has had it.
var ErrLost = errors.New("storeblobs: the lock was lost with the session at the store, and another process has taken " +
	"it meanwhile: nothing more is written here")

// head is what names a blob.
type head struct {
	Number string `json:"number"` // of its pieces
	Size   int64  `json:"size"`
}

// pieces is how many pieces a blob has.
func (h *head) pieces() int { return int((h.Size + PieceBytes - 1) / PieceBytes) }

// String implements checkpoint.Blobs.
func (p *Place) String() string { return p.name }

func (p *Place) nameKey(name string) string   { return p.key + "/names/" + name }
func (p *Place) dataKey(number string) string { return p.key + "/data/" + number }
func (p *Place) pieceKey(number string, i int) string {
	return p.dataKey(number) + "/" + strconv.Itoa(i)
}

// failed is an error with what it is about; that of a context that has ended is the context's.
func (p *Place) failed(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return fmt.Errorf("%s: %s: %w", p, name, err)
}

// within is a context that ends when the store hasn't answered for so long.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("it hasn't answered for %v", limit))
}

// call does something at the store that may be done twice, until its outcome is known; ErrUnavailable where the store
// doesn't answer for p.Quiet, or until ctx has ended.
func (p *Place) call(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := within(ctx, p.Quiet)
	defer cancel()
	for {
		err := do(ctx)
		unknown := errors.Is(err, metastore.ErrUnknown)
		if unknown && ctx.Err() == nil {
			continue
		}
		if unknown {
			err = fmt.Errorf("%w: %w: %w", metastore.ErrUnavailable, context.Cause(ctx), err)
		}
		p.silent.Store(errors.Is(err, metastore.ErrUnavailable))
		return err
	}
}

// leave is call for what happens later where it can't be done now: a lock ends with its session, and pieces that nobody
// names are removed by the next Lock. So it doesn't take long, and least of all at a store that is silent.
func (p *Place) leave(ctx context.Context, do func(ctx context.Context) error) error {
	limit := leaveMax
	if p.silent.Load() {
		limit = silentMax
	}
	ctx, cancel := within(context.WithoutCancel(ctx), min(limit, p.Quiet))
	defer cancel()
	return p.call(ctx, do)
}

// get reads a key.
func (p *Place) get(ctx context.Context, key string) (v metastore.Value, err error) {
	err = p.call(ctx, func(ctx context.Context) error {
		v, err = p.store.Get(ctx, key)
		return err
	})
	return v, err
}

// walk reads what is below a key.
func (p *Place) walk(ctx context.Context, key string) (values []metastore.Value, err error) {
	err = p.call(ctx, func(ctx context.Context) error {
		values, err = p.store.Walk(ctx, key)
		return err
	})
	return values, err
}

// Put implements checkpoint.Blobs. *TooLargeError, ErrLost.
func (p *Place) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	if size > BlobMax {
		return &TooLargeError{p.String(), name, size}
	}
	if ctx.Err() != nil {
		return p.failed(ctx, name, ctx.Err())
	}
	h := head{Number: number(), Size: size}
	old, err := p.write(ctx, name, &h, r, onlyNew)
	if err != nil {
		// What isn't known may come later, and what can't be reached can't be removed: the next Lock does it.
		if !errors.Is(err, metastore.ErrUnknown) && !errors.Is(err, metastore.ErrUnavailable) {
			p.remove(ctx, h.Number)
		}
		if errors.Is(err, checkpoint.ErrExists) {
			return err
		}
		return p.failed(ctx, name, err)
	}
	if old != nil {
		p.remove(ctx, old.Number)
	}
	return nil
}

// number is a random name for pieces.
func number() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// write writes the pieces and then the head, and returns the head before it.
func (p *Place) write(ctx context.Context, name string, h *head, r io.Reader, onlyNew bool) (old *head, err error) {
	if onlyNew { // what is there already costs no pieces
		if _, there, err := p.head(ctx, name); err != nil || there != nil {
			return nil, errors.Join(err, exists(there))
		}
	}
	buf := make([]byte, min(h.Size, PieceBytes))
	for i := range h.pieces() {
		piece := buf[:min(PieceBytes, h.Size-int64(i)*PieceBytes)]
		if _, err := io.ReadFull(r, piece); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("the source of its %d bytes: %w", h.Size, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.putPiece(ctx, p.pieceKey(h.Number, i), piece); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return p.publish(ctx, name, h, onlyNew)
}

// exists is ErrExists where there is a head.
func exists(h *head) error {
	if h == nil {
		return nil
	}
	return checkpoint.ErrExists
}

// putPiece writes a piece. It may be done twice: its key is nobody else's.
func (p *Place) putPiece(ctx context.Context, key string, piece []byte) error {
	return p.call(ctx, func(ctx context.Context) error { return p.store.Put(ctx, key, piece) })
}

// publish makes h the head of a blob, and returns the one before it. After a break it looks which head is there, and
// tries again under the condition that this hasn't changed: a commit that is done late changes it, or conflicts. All of
// it takes no longer than one call.
func (p *Place) publish(ctx context.Context, name string, h *head, onlyNew bool) (old *head, err error) {
	ctx, cancel := within(ctx, p.Quiet)
	defer cancel()
	value, err := p.store.Encode(h)
	if err != nil {
		return nil, err
	}
	key, doubt := p.nameKey(name), false
	for {
		version, now, err := p.head(ctx, name)
		switch {
		case err != nil && doubt:
			return nil, errors.Join(metastore.ErrUnknown, err)
		case err != nil:
			return nil, err
		case now != nil && now.Number == h.Number:
			return old, nil
		case now != nil && onlyNew:
			return nil, checkpoint.ErrExists
		}
		old = now
		is := metastore.Cond{Path: key, Is: metastore.Missing}
		if now != nil {
			is = metastore.Cond{Path: key, Is: metastore.At, Version: version}
		}
		err = p.commit(ctx, []metastore.Cond{is}, metastore.Op{Path: key, Do: metastore.Set, Value: value})
		conflict := (*metastore.ConflictError)(nil)
		switch {
		case errors.Is(err, metastore.ErrUnknown) && ctx.Err() == nil:
			doubt = true
		case errors.As(err, &conflict) && conflict.Cond.Path == key:
		default:
			return old, err
		}
	}
}

// commit does operations while the lock is this Place's, where it has one. One that was lost is taken again, and the
// operations, of which none was done, are done under the new one.
func (p *Place) commit(ctx context.Context, conds []metastore.Cond, ops ...metastore.Op) error {
	p.mu.Lock()
	lock := p.lock
	p.mu.Unlock()
	for {
		all := conds
		if lock != nil {
			all = append(slices.Clip(conds), *lock)
		}
		err := p.store.Commit(ctx, all, ops)
		conflict := (*metastore.ConflictError)(nil)
		if lock == nil || !errors.As(err, &conflict) || conflict.Cond.Path != lock.Path {
			return err
		}
		if lock, err = p.regain(ctx, lock); err != nil {
			return err
		}
	}
}

// head reads the head of a blob; nil: there is none.
func (p *Place) head(ctx context.Context, name string) (metastore.Version, *head, error) {
	v, err := p.get(ctx, p.nameKey(name))
	if errors.Is(err, metastore.ErrNoNode) || err == nil && !v.HasValue() {
		return metastore.Version{}, nil, nil
	}
	if err != nil {
		return metastore.Version{}, nil, err
	}
	h, err := p.decode(v)
	return v.Version, h, err
}

// decode reads a head. It comes from a store that others write, too.
func (p *Place) decode(v metastore.Value) (*head, error) {
	h := &head{}
	if err := v.Decode(h); err != nil {
		return nil, err
	}
	if _, err := hex.DecodeString(h.Number); err != nil || len(h.Number) != 24 || h.Size < 0 || h.Size > BlobMax {
		return nil, fmt.Errorf("found number %.40q and size %d, want 24 hexadecimal digits and 0 to %d", h.Number,
			h.Size, BlobMax)
	}
	return h, nil
}

// remove takes pieces away that nobody names. What stays after an error is found by the next Lock.
func (p *Place) remove(ctx context.Context, number string) {
	_ = p.leave(ctx, func(ctx context.Context) error { return p.store.DeleteTree(ctx, p.dataKey(number)) })
}

// Get implements checkpoint.Blobs. A blob that is replaced meanwhile is read anew.
func (p *Place) Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	var before string
	for range rereads {
		if ctx.Err() != nil {
			return nil, p.failed(ctx, name, ctx.Err())
		}
		_, h, err := p.head(ctx, name)
		switch {
		case err != nil:
			return nil, p.failed(ctx, name, err)
		case h == nil:
			return nil, &checkpoint.MissingError{Where: p.String(), Name: name}
		case h.Number == before:
			return nil, p.failed(ctx, name, fmt.Errorf("a piece of its %d bytes is missing: somebody else has "+
				"changed the store", h.Size))
		}
		data, whole, err := p.read(ctx, h, from, size, buf)
		if err != nil {
			return nil, p.failed(ctx, name, err)
		}
		if whole {
			return data, nil
		}
		before = h.Number
	}
	return nil, p.failed(ctx, name, fmt.Errorf("it was replaced %d times while it was read", rereads))
}

// read reads some of a blob; whole says that all pieces were there.
func (p *Place) read(ctx context.Context, h *head, from, size int64, buf []byte) (data []byte, whole bool, err error) {
	data = buf[:0]
	end := min(h.Size, from+min(size, h.Size))
	for at := from; at < end; {
		i := int(at / PieceBytes)
		v, err := p.get(ctx, p.pieceKey(h.Number, i))
		if errors.Is(err, metastore.ErrNoNode) {
			return nil, false, nil
		}
		var piece []byte
		if err == nil {
			err = v.Decode(&piece)
		}
		if err != nil {
			return nil, false, err
		}
		begin := int64(i) * PieceBytes
		if want := min(PieceBytes, h.Size-begin); int64(len(piece)) != want {
			return nil, false, fmt.Errorf("found a piece of %d bytes, want %d", len(piece), want)
		}
		data = append(data, piece[at-begin:min(int64(len(piece)), end-begin)]...)
		at = begin + int64(len(piece))
	}
	return data, true, nil
}

// List implements checkpoint.Blobs.
func (p *Place) List(ctx context.Context, prefix string) (blobs []checkpoint.Blob, err error) {
	if ctx.Err() != nil {
		return nil, p.failed(ctx, prefix, ctx.Err())
	}
	values, err := p.walk(ctx, strings.TrimSuffix(p.nameKey(prefix), "/"))
	if err != nil {
		return nil, p.failed(ctx, prefix, err)
	}
	for _, v := range values {
		if !v.HasValue() {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(v.Key(), "/"), p.key+"/names/")
		h, err := p.decode(v)
		if err != nil {
			return nil, p.failed(ctx, name, err)
		}
		blobs = append(blobs, checkpoint.Blob{Name: name, Size: h.Size})
	}
	return blobs, nil
}

// Delete implements checkpoint.Blobs.
func (p *Place) Delete(ctx context.Context, names ...string) error {
	if ctx.Err() != nil {
		return p.failed(ctx, strings.Join(names, ", "), ctx.Err())
	}
	for _, name := range names {
		_, h, err := p.head(ctx, name)
		if err == nil && h != nil {
			err = p.call(ctx, func(ctx context.Context) error {
				return p.commit(ctx, nil, metastore.Op{Path: p.nameKey(name), Do: metastore.Delete})
			})
		}
		if err != nil {
			return p.failed(ctx, name, err)
		}
		if h != nil {
			p.remove(ctx, h.Number)
		}
	}
	return nil
}
