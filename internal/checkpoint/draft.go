// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

const (
	packMagic     = "discopk1"
	packHeadBytes = 32
	packReadBytes = 1 << 20

	// A pack of which less than one in usedLeast bytes is still used isn't referred to any more: Commit copies them.
	usedLeast = 4
)

// Draft is a checkpoint that is being made: chunks of spools, and chunks of earlier checkpoints. One goroutine uses
// it.
type Draft struct {
	repo  *Repo
	added []addedChunk
	kept  []Chunk
}

// addedChunk is a chunk that goes into the draft's pack; its At and Pack are still those of where it is.
type addedChunk struct {
	Chunk
	from io.ReaderAt
}

// Begin begins a checkpoint. Nothing is written before Commit.
func (r *Repo) Begin() *Draft { return &Draft{repo: r} }

// Add takes chunks of a spool of size bytes over. The spool is read in Commit.
func (d *Draft) Add(from io.ReaderAt, size int64, chunks []Chunk) error {
	for i := range chunks {
		c := chunks[i]
		err := c.check(d.repo.run.Nodes)
		switch {
		case err != nil:
		case c.Kind == table:
			err = fmt.Errorf("found kind %v, want any other", table)
		case c.At < 0 || c.At > size-c.Size:
			err = fmt.Errorf("found %d bytes at %d, want a place in a spool of %d bytes", c.Size, c.At, size)
		}
		if err != nil {
			return fmt.Errorf("checkpoint: spool: %v: %w", &c, err)
		}
		d.added = append(d.added, addedChunk{c, from})
	}
	return nil
}

// Keep takes a chunk of an earlier checkpoint over, which must still be there at Commit.
func (d *Draft) Keep(c Chunk) { d.kept = append(d.kept, c) }

// Commit writes the draft as the checkpoint of m's Replication and Epoch, or, with Finished, as the replication's end.
// When it returns nil, it is there, whole and durable. Where it is there already with the same TraceHash, nothing is
// written; with another one the error is *ConflictError; a damaged one is replaced. After any error the earlier
// checkpoints are as they were; what was written is removed, now or by Prune.
func (d *Draft) Commit(ctx context.Context, m *Manifest) error {
	r := d.repo
	r.mustWrite()
	m.Format, m.Run, m.RunJSON = formatVersion, r.run.ID, r.run.Check
	if err := m.check(r.run); err != nil {
		return fmt.Errorf("checkpoint: a checkpoint that can't be saved: %w", err)
	}
	if err := r.checkThere(ctx); err != nil {
		return err
	}
	old, err := r.load(ctx, m.Point())
	switch {
	case err == nil && old.TraceHash == m.TraceHash:
		*m = *old
		return nil
	case err == nil:
		return &ConflictError{r.String(), m.Point(), old.TraceHash, m.TraceHash}
	case !missing(err) && !damaged(err):
		return err
	}
	if err := d.checkKept(ctx); err != nil {
		return err
	}
	d.compact(ctx)
	p, err := d.newPack(m)
	if err != nil {
		return err
	}
	if r.most > 0 && p.size > r.most && !m.Finished {
		return &TooLargeError{r.String(), p.size, r.most}
	}
	written, err := p.write(ctx, r, m)
	if err != nil {
		return err
	}
	text, err := m.encode()
	if errThere := r.checkStill(ctx); errThere != nil {
		ctx, cancel := cleaning(ctx)
		defer cancel()
		if written {
			errThere = errors.Join(errThere, r.blobs.Delete(ctx, m.Packs[0].name()))
		}
		return errThere
	}
	if err == nil {
		err = putBytes(ctx, r.blobs, m.Point().name(), text, false)
	}
	if err == nil {
		return nil
	}
	// The manifest may be there in spite of the error, so it goes first: it must not refer to a pack that is gone.
	ctx, cancel := cleaning(ctx)
	defer cancel()
	errClean := r.blobs.Delete(ctx, m.Point().name())
	if errClean == nil && written {
		errClean = r.blobs.Delete(ctx, m.Packs[0].name())
	}
	if errClean != nil {
		err = fmt.Errorf("%w; what was written of it stays until the next prune: %w", err, errClean)
	}
	return err
}

// checkThere refuses a place that was removed, renamed or taken by another run meanwhile: what is written there can't
// be resumed.
func (r *Repo) checkThere(ctx context.Context) error {
	const head = 256 // the run's id is one of the first fields
	text, err := r.blobs.Get(ctx, runName, 0, head, nil)
	if missing(err) || err == nil && !bytes.Contains(text, []byte(r.run.ID.String())) {
		return &DamagedError{Where: r.String(), Name: runName,
			Err: fmt.Errorf("found it gone, or another run's, want run %v: what is there was removed or renamed while "+
				"the run writes to it", r.run.ID)}
	}
	return err
}

// checkStill is checkThere again, behind the writing of a pack: a directory may have been renamed meanwhile. For an
// object store it would be one more request for each checkpoint.
func (r *Repo) checkStill(ctx context.Context) error {
	if _, ok := r.blobs.(*Dir); ok {
		return r.checkThere(ctx)
	}
	return nil
}

// checkKept refuses chunks of packs that are not there.
func (d *Draft) checkKept(ctx context.Context) error {
	if len(d.kept) == 0 {
		return nil
	}
	sizes, err := d.repo.packSizes(ctx)
	if err != nil {
		return err
	}
	for i := range d.kept {
		c := &d.kept[i]
		err := errors.Join(c.check(d.repo.run.Nodes), c.checkPlace())
		if size, there := sizes[c.Pack.name()]; err == nil && (!there || size != c.Pack.Bytes) {
			err = fmt.Errorf("found a file of %d bytes, want %d: write the chunk again", size, c.Pack.Bytes)
		}
		if err != nil {
			return &DamagedError{Where: d.repo.String(), Name: c.Pack.name(), Chunk: c, Err: err}
		}
	}
	return nil
}

// compact has the chunks of packs that are hardly used any more copied.
func (d *Draft) compact(ctx context.Context) {
	used := map[Pack]int64{}
	for i := range d.kept {
		used[d.kept[i].Pack] += d.kept[i].Size
	}
	kept := d.kept[:0]
	for _, c := range d.kept {
		if used[c.Pack] >= c.Pack.Bytes/usedLeast {
			kept = append(kept, c)
			continue
		}
		d.added = append(d.added, addedChunk{c, blobReader{ctx, d.repo.blobs, c.Pack.name()}})
	}
	d.kept = kept
}

// newPack is the pack of a draft, with the tables of all its chunks, before it is written: the manifest's first one.
type newPack struct {
	head   []byte
	added  []addedChunk // in the pack's order
	tables []byte       // frames
	size   int64
}

// newPack lays the draft's pack out, and fills packs and tables of the manifest but for the pack's digest.
func (d *Draft) newPack(m *Manifest) (*newPack, error) {
	r := d.repo
	p := &newPack{head: make([]byte, packHeadBytes), size: packHeadBytes}
	copy(p.head, packMagic)
	copy(p.head[len(packMagic):], r.run.ID[:])
	indexes := map[Pack]int{}
	for i := range d.kept {
		indexes[d.kept[i].Pack] = 0
	}
	packs := slices.SortedFunc(maps.Keys(indexes), func(a, b Pack) int {
		return cmp.Or(bytes.Compare(a.Digest[:], b.Digest[:]), cmp.Compare(a.Bytes, b.Bytes))
	})
	for i, pack := range packs {
		indexes[pack] = i + 1
	}
	m.Packs = append([]Pack{{}}, packs...) // the zero one is the new pack, whose digest isn't known yet
	p.added = slices.Clone(d.added)
	all := slices.Clone(d.kept)
	for _, c := range p.added {
		c.At, c.Pack = p.size, Pack{}
		p.size += c.Size
		all = append(all, c.Chunk)
	}
	slices.SortStableFunc(all, func(a, b Chunk) int { return compareChunks(&a, &b) })
	m.Wall.Raw, m.Wall.Stored = 0, 0
	for i := range all {
		m.Wall.Raw += all[i].Raw
		m.Wall.Stored += all[i].Size
		if all[i].From >= m.Epoch {
			return nil, fmt.Errorf("checkpoint: %v begins at %v, want less than epoch %v", &all[i], all[i].From,
				m.Epoch)
		}
	}
	if err := p.addTables(&r.codec, m, all, indexes); err != nil {
		return nil, err
	}
	m.Wall.New, m.Packs[0].Bytes = p.size, p.size
	if err := m.check(r.run); err != nil {
		return nil, fmt.Errorf("checkpoint: a checkpoint that can't be saved: %w", err)
	}
	return p, nil
}

// addTables adds the rows of all chunks.
func (p *newPack) addTables(k *codec, m *Manifest, all []Chunk, indexes map[Pack]int) (err error) {
	m.tables = nil
	var rows []byte
	for part := range slices.Chunk(all, tableRowsMax) {
		rows = rows[:0]
		for i := range part {
			rows = appendRow(rows, &part[i], indexes[part[i].Pack])
		}
		before := len(p.tables)
		if p.tables, err = k.encode(p.tables, rows); err != nil {
			return err
		}
		t := Chunk{Kind: table, Digest: sha256.Sum256(rows), Raw: int64(len(rows)), At: p.size,
			Size: int64(len(p.tables) - before)}
		p.size += t.Size
		m.tables = append(m.tables, t)
	}
	return nil
}

// reader reads the whole pack.
func (p *newPack) reader() io.Reader {
	parts := []io.Reader{bytes.NewReader(p.head)}
	for i := range p.added {
		c := &p.added[i]
		parts = append(parts, io.NewSectionReader(c.from, c.At, c.Size))
	}
	parts = append(parts, bytes.NewReader(p.tables))
	return bufio.NewReaderSize(io.MultiReader(parts...), packReadBytes)
}

// write stores the pack and fills its digest in. It reads everything twice, because the digest is its name. written is
// false for a pack that was there before.
func (p *newPack) write(ctx context.Context, r *Repo, m *Manifest) (written bool, err error) {
	sum := sha256.New()
	if n, err := io.Copy(sum, p.reader()); err != nil || n != p.size {
		return false, fmt.Errorf("checkpoint: %d of %d bytes of chunks can be read: %w", n, p.size,
			cmp.Or(err, io.ErrUnexpectedEOF))
	}
	pack := Pack{Digest(sum.Sum(nil)), p.size}
	m.Packs[0] = pack
	for i := range m.tables {
		m.tables[i].Pack = pack
	}
	whole, err := r.wholePack(ctx, pack)
	if err == nil {
		if !whole { // damaged: what other checkpoints have in it is mended, too
			err = r.blobs.Put(ctx, pack.name(), p.reader(), p.size, false)
		}
		return false, err
	}
	if !missing(err) {
		return false, err
	}
	if err := r.blobs.Put(ctx, pack.name(), p.reader(), p.size, false); err != nil {
		ctx, cancel := cleaning(ctx)
		defer cancel()
		return false, errors.Join(err, r.blobs.Delete(ctx, pack.name()))
	}
	return true, nil
}

// wholePack reports whether a pack is as it was written. *MissingError where there is none.
func (r *Repo) wholePack(ctx context.Context, p Pack) (bool, error) {
	sum := sha256.New()
	from := io.NewSectionReader(blobReader{ctx, r.blobs, p.name()}, 0, p.Bytes+1)
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{from}, make([]byte, packReadBytes))
	return err == nil && n == p.Bytes && Digest(sum.Sum(nil)) == p.Digest, err
}

// ConflictError says that a checkpoint is there with another result: the model depends on more than its input.
type ConflictError struct {
	Where      string
	Point      Point
	Found, New ID
}

// Error says what to do.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: found the checkpoint of %v with trace hash %v, and the same run has now made %v: the "+
		"model depends on more than its input (disco-run verify finds where)", e.Where, e.Point, e.Found, e.New)
}
