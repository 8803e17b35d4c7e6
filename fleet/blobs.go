// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// A blob lies in parts, and has a head, which is written behind them. Every submission that names it writes the head
// anew in its own commit, under the condition that it is there: so a blob is removed under the condition that its head
// is as it was read before the specifications were, or the commit of a submission fails, and it writes the blob again.

// blobTries is how often a blob is written that somebody removes meanwhile.
const blobTries = 10

// digestOf is the digest of a blob.
func digestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(data))}
}

// parts is how many parts a blob has.
func (d *Digest) parts() int { return int((d.Bytes + blobPart - 1) / blobPart) }

// PutBlob writes a blob, at most MaxText bytes, unless it is there whole. It stays for an hour where no experiment
// names it. It tries again until the outcome is known or ctx ends.
func (c *Client) PutBlob(ctx context.Context, data []byte) (Digest, error) {
	d := digestOf(data)
	if err := d.check(); err != nil {
		return d, fmt.Errorf("a blob: %w", err)
	}
	for range blobTries {
		done, err := c.putBlob(ctx, d, data)
		if err != nil || done {
			return d, err
		}
	}
	return d, fmt.Errorf("the blob %s was removed %d times while it was written", d.SHA256, blobTries)
}

// putBlob tells whether the blob is there; it isn't where somebody removes it meanwhile.
func (c *Client) putBlob(ctx context.Context, d Digest, data []byte) (done bool, err error) {
	if there, err := c.hasHead(ctx, d); err != nil || there {
		return there, err
	}
	var conds []metastore.Cond
	for i := range d.parts() {
		part := data[i*blobPart : min((i+1)*blobPart, len(data))]
		raw, err := metastore.EncodeAs(metastore.CBOR, part) // JSON has no bytes
		if err != nil {
			return false, err
		}
		key := blobPartKey(d.SHA256, i)
		op := metastore.Op{Path: key, Do: metastore.Set, Value: raw}
		if err := c.again(ctx, nil, op); err != nil { // its name says what it holds: it may be done twice
			return false, err
		}
		conds = append(conds, metastore.Cond{Path: key, Is: metastore.Exists})
	}
	head, err := c.op(metastore.Set, blobKey(d.SHA256), d)
	if err != nil {
		return false, err
	}
	err = c.again(ctx, conds, head)
	if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) {
		return false, nil
	}
	return err == nil, err
}

// again commits what may be done twice until its outcome is known.
func (c *Client) again(ctx context.Context, conds []metastore.Cond, ops ...metastore.Op) error {
	for {
		err := c.store.Commit(ctx, conds, ops)
		if !errors.Is(err, metastore.ErrUnknown) || ctx.Err() != nil {
			return err
		}
	}
}

// hasHead tells whether a blob is whole.
func (c *Client) hasHead(ctx context.Context, d Digest) (bool, error) {
	var head Digest
	version, err := c.get(ctx, blobKey(d.SHA256), &head)
	if bad := (*MalformedError)(nil); errors.As(err, &bad) {
		return false, nil // it is written anew
	}
	return err == nil && version != (metastore.Version{}) && head == d, err
}

// ErrNoBlob is the error about a blob of which something is missing, or was changed. Another try, by whom whatever,
// finds the same until it is written again.
var ErrNoBlob = errors.New("it isn't whole in the store any more")

// Blob reads a blob, and verifies that it is what its digest says. A missing or changed one is ErrNoBlob.
func (c *Client) Blob(ctx context.Context, d Digest) ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("a blob: %w", err)
	}
	data := make([]byte, 0, min(d.Bytes, blobPart))
	for i := range d.parts() {
		v, err := c.store.Get(ctx, blobPartKey(d.SHA256, i))
		var part []byte
		if err == nil {
			err = v.Decode(&part)
		}
		if errors.Is(err, metastore.ErrNoNode) {
			err = errors.Join(err, ErrNoBlob)
		}
		if err != nil {
			return nil, fmt.Errorf("the blob %s of %d bytes: %w", d.SHA256, d.Bytes, err)
		}
		if want := min(blobPart, d.Bytes-int64(i)*blobPart); int64(len(part)) != want {
			return nil, fmt.Errorf("the blob %s of %d bytes: %w: part %d: found %d bytes, want %d", d.SHA256, d.Bytes,
				ErrNoBlob, i, len(part), want)
		}
		data = append(data, part...)
	}
	if is := digestOf(data); is != d {
		return nil, fmt.Errorf("the blob %s of %d bytes: %w: found one with the digest %s: the store's data was "+
			"changed", d.SHA256, d.Bytes, ErrNoBlob, is.SHA256)
	}
	return data, nil
}

// BlobAt is a blob that no experiment names, as it was read.
type BlobAt struct {
	SHA256 string
	Head   metastore.Version // zero: it isn't whole
}

// UnusedBlobs returns the blobs that no experiment names. A leader that has found the same one, with the same Head, for
// an hour removes it. An experiment of which the specification can't be read might name any: then none is unused.
func (c *Client) UnusedBlobs(ctx context.Context) ([]BlobAt, error) {
	names, err := c.names(ctx, keyBlobs)
	if err != nil {
		return nil, err
	}
	all := make([]BlobAt, 0, len(names))
	for _, name := range names { // the heads first: a submission that comes later changes those that it names
		v, err := c.store.Get(ctx, blobKey(name))
		if err != nil && !errors.Is(err, metastore.ErrNoNode) {
			return nil, err
		}
		b := BlobAt{SHA256: name}
		if v.HasValue() {
			b.Head = v.Version
		}
		all = append(all, b)
	}
	experiments, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, e := range experiments {
		if e.Spec == nil {
			return nil, nil
		}
		for _, d := range e.Spec.blobs() {
			named[d.SHA256] = true
		}
	}
	return slices.DeleteFunc(all, func(b BlobAt) bool { return named[b.SHA256] }), nil
}

// blobs are those that an experiment names, each once.
func (s *Spec) blobs() (all []Digest) {
	seen := map[Digest]bool{}
	add := func(d Digest) {
		if !seen[d] {
			seen[d] = true
			all = append(all, d)
		}
	}
	for _, step := range s.Steps {
		add(step.Text)
		for _, a := range step.Attachments {
			add(a.Digest)
		}
	}
	return all
}

// RemoveBlob removes a blob that UnusedBlobs has returned, unless somebody has named it since, which is no error.
// guards are the leader's.
func (c *Client) RemoveBlob(ctx context.Context, b BlobAt, guards ...metastore.Cond) error {
	is := at(blobKey(b.SHA256), b.Head)
	ops := []metastore.Op{{Path: blobKey(b.SHA256), Do: metastore.DeleteTree}}
	err := c.store.Commit(ctx, append(slices.Clone(guards), is), ops)
	if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) && conflict.Cond == is {
		return nil
	}
	return err
}

// SweepBlobs removes blobs that no experiment has named for so long, and returns those that none names now, and since
// when: the next sweep's before. now is of the caller's clock, and guards are its leadership's.
func (c *Client) SweepBlobs(ctx context.Context, before map[BlobAt]time.Duration, now, unused time.Duration,
	guards ...metastore.Cond) (found map[BlobAt]time.Duration, err error) {
	all, err := c.UnusedBlobs(ctx)
	if err != nil {
		return nil, err
	}
	found = map[BlobAt]time.Duration{}
	for _, b := range all {
		since, known := before[b]
		if !known {
			since = now
		}
		if found[b] = since; now-since >= unused {
			if err := c.RemoveBlob(ctx, b, guards...); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}
