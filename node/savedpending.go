// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"slices"
)

// EachPending calls yield for each node with pending events or wakeups, in rising order; encoded ends with the call. A
// node for which more than 4 MiB are pending comes several times, one part after the other. EachPending
// is called between two legs. Beside what is pending it takes 8 bytes of memory for each entry.
func (e *Engine) EachPending(yield func(n int, encoded []byte) error) error {
	return e.EachPendingOf(nil, yield)
}

// EachPendingOf is EachPending for some of the nodes; nil: all. It walks over what is pending for the others.
func (e *Engine) EachPendingOf(wanted func(n int) bool, yield func(n int, encoded []byte) error) error {
	if err := e.betweenLegs(); err != nil {
		return err
	}
	w := waiting{plan: e.plan, store: e.store, parts: e.eachPart}
	return w.each(wanted, yield)
}

// PendingCopy is what was pending at the end of a leg, for who encodes it while the Engine goes on. Its memory is used
// again by the next copy. One goroutine uses it at a time.
type PendingCopy struct {
	// Memory gives so many bytes, at a multiple of 8, for what is copied: 64 KiB or 1 MiB; nil: they are of the heap.
	// It is set before the first copy, and what it gives is in use until all of this PendingCopy isn't any more.
	Memory func(bytes int) []byte

	plan   *Plan
	store  *store
	blocks [][]entry // of blockEntries each
	size   int
}

// blockEntries are 1 MiB: an entry has 32 bytes.
const (
	blockEntries = 1 << 15
	entryBytes   = 32
)

// CopyPending makes c a copy of what is pending. It is called between two legs. To sort and to encode takes about six
// times as long: entries are copied as they lie, and payloads with the memory around them, unless less than half of
// that is in use.
func (e *Engine) CopyPending(c *PendingCopy) error {
	if err := e.betweenLegs(); err != nil {
		return err
	}
	if c.store == nil {
		c.store = newStore()
		c.store.memory = c.Memory
	}
	c.plan, c.size = e.plan, 0
	cells := 0 // bytes of those in use
	e.eachPart(func(part []entry) {
		for i := range part {
			cells += part[i].ref.cellBytes()
		}
		for len(part) > 0 {
			part = part[c.append(part):]
		}
	})
	c.store.reset()
	dense := c.store.copyCells(e.store, 2*cells)
	c.eachPart(func(part []entry) {
		for i := range part {
			if en := &part[i]; en.ref != refNone && (!dense || en.ref.cellBytes() == 0) {
				en.ref = c.store.put(e.store.get(en.ref))
			}
		}
	})
	return nil
}

// Bytes is the memory that c has.
func (c *PendingCopy) Bytes() int64 {
	bytes := int64(len(c.blocks)) * blockEntries * entryBytes
	if c.store != nil {
		bytes += c.store.bytes()
	}
	return bytes
}

// Grows is how much memory, at most, a copy of what is pending takes beside what c has: between two legs, or in the
// middle of one, of what is pending then.
func (c *PendingCopy) Grows(e *Engine) int64 {
	entries, blocks := e.numPending(), 0
	if blocks = (entries+blockEntries-1)/blockEntries - len(c.blocks); blocks < 0 {
		blocks = 0
	}
	// What isn't copied with the memory around it takes up to twice its size, and a chunk of each class more.
	payloads := e.store.bytes() + 2*e.store.leasedBytes() + cellClasses*chunkBytes
	if c.store != nil {
		payloads -= c.store.bytes()
	}
	return int64(blocks)*blockEntries*entryBytes + max(0, payloads)
}

// append appends as many entries as the last block has room for, at least one.
func (c *PendingCopy) append(part []entry) int {
	block, at := c.size/blockEntries, c.size%blockEntries
	if block == len(c.blocks) {
		c.blocks = append(c.blocks, c.newBlock())
	}
	n := copy(c.blocks[block][at:], part)
	c.size += n
	return n
}

// newBlock is memory for entries.
func (c *PendingCopy) newBlock() []entry {
	if c.Memory == nil {
		return make([]entry, blockEntries)
	}
	return entriesIn(c.Memory(blockEntries * entryBytes))
}

// eachPart visits all entries.
func (c *PendingCopy) eachPart(visit func(part []entry)) {
	for i, left := 0, c.size; left > 0; i, left = i+1, left-blockEntries {
		visit(c.blocks[i][:min(left, blockEntries)])
	}
}

// Each is Engine.EachPending, of what was copied. It may be called while the Engine goes on.
func (c *PendingCopy) Each(yield func(n int, encoded []byte) error) error {
	w := waiting{plan: c.plan, store: c.store, parts: c.eachPart}
	return w.each(nil, yield)
}

// waiting is what is pending, of an Engine or copied.
type waiting struct {
	plan  *Plan
	store *store
	parts func(visit func(part []entry))
}

// each is EachPendingOf.
func (w *waiting) each(wanted func(n int) bool, yield func(n int, encoded []byte) error) error {
	all, start := w.byTarget(wanted)
	layers := len(w.plan.layers)
	p := pendingParts{w: w, layers: layers, yield: yield}
	var entries []entry
	for k, n := range w.plan.nodesOn(w.plan.self) {
		starts := start[k*layers : (k+1)*layers+1]
		if starts[0] == starts[layers] {
			continue
		}
		p.begin(int(n))
		for r := range layers {
			p.simproc(r)
			if from, to := starts[r], starts[r+1]; to-from <= gatherMost {
				entries = w.gather(entries[:0], all, from, to)
				for i := range entries {
					p.add(&entries[i])
				}
			} else {
				for _, en := range inOrder(all[from:to]) {
					p.add(en)
				}
			}
		}
		if err := p.end(); err != nil {
			return err
		}
	}
	return nil
}

// How what is pending for a node is saved; constant, but in tests.
var (
	gatherMost       = 1 << 16 // so many entries are copied to be sorted, which is faster and takes 32 bytes for each
	pendingPartBytes = 4 << 20 // a part ends with the entry that passes it
)

// pendingParts encodes what is pending for nodes, each in as many parts as it takes.
type pendingParts struct {
	w       *waiting
	layers  int
	yield   func(n int, encoded []byte) error
	node    int
	part    uint32 // of the node, from 0
	buf     []byte // partHead bytes, and the part
	rank    int
	countAt int    // where the simproc's number of entries stands in buf
	count   uint32 // of its entries in this part
	err     error  // the first one
}

const (
	partHead         = 4 + 4 + 4        // version, part, whether it is the last one
	wholeHead        = partHead - 4     // in front of the version of a node in one part
	savedPartVersion = savedVersion + 1 // of a node in several
)

// begin begins a node.
func (p *pendingParts) begin(n int) {
	p.node, p.part = n, 0
	p.buf = append(p.buf[:0], make([]byte, partHead)...)
}

// simproc begins the node's next simproc.
func (p *pendingParts) simproc(rank int) {
	p.endSimproc()
	p.rank, p.countAt, p.count = rank, len(p.buf), 0
	p.buf = append(p.buf, 0, 0, 0, 0)
}

// endSimproc fills in how many entries it has.
func (p *pendingParts) endSimproc() {
	if len(p.buf) > partHead {
		binary.LittleEndian.PutUint32(p.buf[p.countAt:], p.count)
	}
}

// add adds an entry of the simproc.
func (p *pendingParts) add(en *entry) {
	if len(p.buf) >= pendingPartBytes {
		p.split()
	}
	p.count++
	p.buf = p.w.appendEntry(p.buf, en)
}

// split ends a part, and begins the next one with the same simproc.
func (p *pendingParts) split() {
	rank := p.rank
	for r := rank + 1; r < p.layers; r++ {
		p.simproc(r)
	}
	p.give(false)
	p.part++
	p.buf = p.buf[:partHead]
	for r := range rank + 1 {
		p.simproc(r)
	}
}

// end ends the node.
func (p *pendingParts) end() error {
	p.give(true)
	return p.err
}

// give yields a part.
func (p *pendingParts) give(last bool) {
	p.endSimproc()
	part, word := p.buf, binary.LittleEndian
	if last && p.part == 0 {
		part = p.buf[wholeHead:]
		word.PutUint32(part, savedVersion)
	} else {
		word.PutUint32(part, savedPartVersion)
		word.PutUint32(part[4:], p.part)
		word.PutUint32(part[8:], 0)
		if last {
			word.PutUint32(part[8:], 1)
		}
	}
	if p.err != nil {
		return
	}
	if p.err = checkSize(p.w.plan, p.node, len(part), true); p.err == nil {
		p.err = p.yield(p.node, part)
	}
}

// byTarget is all that is pending for the wanted nodes, by rising id of the target: those of place k are
// all[start[k]:start[k+1]].
func (w *waiting) byTarget(wanted func(n int) bool) (all []*entry, start []int) {
	n := w.plan.NumHosted()
	next := make([]int, n) // by local index: how many there are, then the place of the next one; -1: unwanted
	w.parts(func(part []entry) {
		for i := range part {
			next[part[i].proc]++
		}
	})
	start = make([]int, n+1)
	for k := range n {
		id := w.plan.hostedAt(k)
		count := &next[w.plan.indexOn(w.plan.self, id)]
		start[k+1] = start[k]
		if wanted == nil || wanted(w.plan.Node(id)) {
			start[k+1] += *count
			*count = start[k]
		} else {
			*count = -1
		}
	}
	all = make([]*entry, start[n])
	w.parts(func(part []entry) {
		for i := range part {
			if at := &next[part[i].proc]; *at >= 0 {
				all[*at] = &part[i]
				*at++
			}
		}
	})
	return all, start
}

// gather appends the entries from all[from:to] to dst, in order. A wakeup that was asked for twice is one call.
func (w *waiting) gather(dst []entry, all []*entry, from, to int) []entry {
	for i := from; i < to; i++ {
		w.store.prefetchPending(all, i)
		dst = append(dst, *all[i])
	}
	if len(dst) > fewEntries {
		slices.SortFunc(dst, compare)
	} else {
		for i := range dst {
			en, j := dst[i], i
			for ; j > 0 && en.before(&dst[j-1]); j-- {
				dst[j] = dst[j-1]
			}
			dst[j] = en
		}
	}
	return slices.CompactFunc(dst, func(a, b entry) bool { return a.sender == wakeSender && compare(a, b) == 0 })
}

// inOrder is what gather gives, without copies: entries are sorted where they are.
func inOrder(all []*entry) []*entry {
	slices.SortFunc(all, func(a, b *entry) int { return compare(*a, *b) })
	return slices.CompactFunc(all, func(a, b *entry) bool { return a.sender == wakeSender && compare(*a, *b) == 0 })
}

// fewEntries are sorted by insertion: with 16, which a node of PHOLD has, in half of the time.
const fewEntries = 24

const (
	savedWakeupBytes = 12 // of a wakeup that is pending
	savedEventBytes  = 28 // of an event that is pending, without headers and data
)

// appendEntry appends an event or a wakeup that is pending, without its target; takeEntry reads it. There may be
// millions, and with one list of fields for both directions each took a third longer.
func (w *waiting) appendEntry(dst []byte, en *entry) []byte {
	at, word := len(dst), binary.LittleEndian
	if en.sender == wakeSender {
		dst = word.AppendUint64(dst, en.key)
		return word.AppendUint32(dst, uint32(en.sender))
	}
	headers, data := w.store.get(en.ref)
	size := savedEventBytes + len(headers) + len(data)
	dst = slices.Grow(dst, size)[:at+size]
	b := dst[at:]
	word.PutUint64(b, en.key)
	word.PutUint32(b[8:], uint32(en.sender))
	word.PutUint64(b[12:], en.number)
	word.PutUint32(b[20:], uint32(len(headers)))
	copy(b[24:], headers)
	b = b[24+len(headers):]
	word.PutUint32(b, uint32(len(data)))
	copy(b[4:], data)
	return dst
}
