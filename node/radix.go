// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math/bits"
	"slices"
)

// radix is the unsorted part of a pending set: buckets by the digits of the key, in the
// manner of a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, Faster algorithms for the
// shortest path problem, JACM 37(2), 1990), emptied like the rungs of a ladder queue
// (Tang, Goh and Thng, Ladder queue, ACM TOMACS 15(3), 2005).
//
//	tier 15    tier 14          tier 1     tier 0
//	┌──┬──┬─┐  ┌──┬──┬─┐        ┌──┬──┬─┐  ┌──┬──┬─┐
//	│ 0│ 1│…│  │ 0│ 1│…│   …    │ 0│ 1│…│  │ 0│ 1│…│   16 buckets of a tier
//	└──┴──┴─┘  └──┴──┴─┘        └──┴──┴─┘  └──┴──┴─┘
//
// Invariant: base is not after any key; an entry lies in the tier of the highest digit
// in which its key differs from base, in the bucket of that digit. So all of a lower
// tier is before all of a higher one, and within a tier buckets are in order. The key's
// digits are those of a floating-point number: widths adapt to the magnitude of time and
// to how closely events lie, without a parameter to be tuned or resampled.
//
// Buckets are chains of chunks. An append writes to one place, and spreading a bucket
// over finer ones reads memory in order.
type radix struct {
	base    uint64
	tiers   uint16        // bit t: tier t has an entry
	used    [tiers]uint16 // [t], bit d: bucket d of tier t has one
	buckets [tiers * digits]bucket
	free    *chunk
	sorting []entry
	dealt   []uint16 // of those that are distributed
	keys    [rankMax]uint64
}

const (
	digitBits    = 4 // 3 to 6 were measured: docs/pending-set.md
	digits       = 1 << digitBits
	tiers        = 64 / digitBits
	chunkEntries = 15 // with the link: 512 bytes with 24 to spare
	slabChunks   = 128
	runMax       = 16 * chunkEntries // entries of a bucket that is sorted without being spread
	runShare     = 16                // … or, where that is less, this part of all that are pending,
	runLeast     = 3 * chunkEntries  // … or, where that is more, so many
	rankMax      = 12                // … by comparing each with each
	binBits      = 7                 // of the key, by which more are counted
	binMost      = 24                // entries that agree in them and are still sorted by insertion
)

// chunk is a piece of a bucket.
type chunk struct {
	entries [chunkEntries]entry
	next    *chunk
	_       [24]byte // whole cache lines
}

// bucket is a chain of chunks; only the first may have room.
type bucket struct {
	head *chunk
	n    uint64 // entries in head; chunkEntries where there is none
}

func newRadix() *radix {
	r := &radix{}
	for i := range r.buckets {
		r.buckets[i].n = chunkEntries
	}
	return r
}

// file appends en to its bucket.
func (r *radix) file(en *entry) { *r.place(en.key) = *en }

// place appends room for an entry to the bucket of its key.
func (r *radix) place(key uint64) *entry {
	tier := tierOf(key ^ r.base)
	digit := uint(key>>(tier*digitBits)) % digits
	b := &r.buckets[(tier*digits+digit)%(tiers*digits)]
	if b.n >= chunkEntries {
		r.grow(b, tier, digit)
	}
	en := &b.head.entries[b.n]
	b.n++
	return en
}

func (r *radix) grow(b *bucket, tier, digit uint) {
	if r.free == nil {
		slab := make([]chunk, slabChunks)
		for i := range slab[1:] {
			slab[i].next = &slab[i+1]
		}
		r.free = &slab[0]
	}
	c := r.free
	r.free = c.next
	c.next = b.head
	b.head, b.n = c, 0
	r.tiers |= 1 << tier
	r.used[tier] |= 1 << digit
}

// next takes out the entries of the earliest bucket, spreading it until few enough are
// left to sort, and returns them in order, appended to run, with the key before which
// all are taken. pending is how many there are in the whole set: what is filed before the end
// of a run goes into a heap, so a run should be a small part of them. Precondition: there is
// an entry.
func (r *radix) next(run []entry, pending int) ([]entry, uint64) {
	most := max(runLeast, min(pending/runShare, runMax)) / chunkEntries
	for {
		tier := uint(bits.TrailingZeros16(r.tiers))
		digit := uint(bits.TrailingZeros16(r.used[tier]))
		if r.used[tier] &= r.used[tier] - 1; r.used[tier] == 0 {
			r.tiers &= r.tiers - 1
		}
		b := &r.buckets[tier*digits+digit]
		c, n := b.head, b.n
		b.head, b.n = nil, chunkEntries
		shift := tier * digitBits
		r.base = r.base>>shift>>digitBits<<digitBits<<shift | uint64(digit)<<shift
		if tier == 0 || c.few(most) {
			return r.sort(run, c, n, shift), r.base + 1<<shift
		}
		for c != nil {
			for i := range c.entries[:n] {
				r.file(&c.entries[i])
			}
			c, n = r.recycle(c), chunkEntries
		}
	}
}

// recycle frees a chunk and returns the one behind it.
func (r *radix) recycle(c *chunk) *chunk {
	next := c.next
	c.next = r.free
	r.free = c
	return next
}

// few tells whether a chain has no more than so many chunks.
func (c *chunk) few(most int) bool {
	for range most {
		if c = c.next; c == nil {
			return true
		}
	}
	return false
}

// sort appends the entries of a chain to run in order and frees the chain. Their keys are equal but for the lowest
// bits, shift of them. A few entries are ranked by comparing each with each: that has no branch to be mispredicted,
// which is what sorting a few costs otherwise. More are counted by the highest of these bits, put where they belong by
// those, and sorted among the one or two beside them.
func (r *radix) sort(run []entry, c *chunk, n uint64, shift uint) []entry {
	all := r.sorting[:0]
	for c != nil {
		all = append(all, c.entries[:n]...)
		c, n = r.recycle(c), chunkEntries
	}
	r.sorting = all
	start := len(run)
	run = slices.Grow(run, len(all))[:start+len(all)]
	if len(all) > runMax {
		r.distribute(run[start:], all)
		return run
	}
	sorted, keys := run[start:], r.keys[:min(len(all), rankMax)]
	if len(all) > rankMax {
		r.count(sorted, all, shift)
		return run
	}
	for i := range all {
		keys[i] = all[i].key
	}
	for i, key := range keys {
		rank := uint64(i)
		for _, k := range keys[:i] {
			_, before := bits.Sub64(key, k, 0)
			rank -= before
		}
		for _, k := range keys[i+1:] {
			_, before := bits.Sub64(k, key, 0)
			rank += before
		}
		sorted[rank] = all[i]
	}
	sortTies(sorted)
	return run
}

// count sorts all, whose keys differ in the lowest bits only, shift of them, into sorted.
func (r *radix) count(sorted, all []entry, shift uint) {
	var places [1<<binBits + 1]uint32
	down := max(shift, binBits) - binBits
	for i := range all {
		places[all[i].key>>down%(1<<binBits)+1]++
	}
	sum, most := uint32(0), uint32(0)
	for i, k := range places {
		most = max(most, k)
		sum += k
		places[i] = sum
	}
	if most > binMost {
		r.distribute(sorted, all)
		return
	}
	for i := range all {
		p := &places[all[i].key>>down%(1<<binBits)]
		sorted[*p] = all[i]
		*p++
	}
	for i := 1; i < len(sorted); i++ {
		if sorted[i].key > sorted[i-1].key {
			continue
		}
		en := sorted[i]
		j := i
		for ; j > 0 && en.before(&sorted[j-1]); j-- {
			sorted[j] = sorted[j-1]
		}
		sorted[j] = en
	}
}

// sortTies puts entries of equal keys in order, in a run that is in order by key.
func sortTies(run []entry) {
	for i := 1; i < len(run); i++ {
		if run[i].key != run[i-1].key {
			continue
		}
		en := run[i]
		j := i
		for ; j > 0 && en.before(&run[j-1]); j-- {
			run[j] = run[j-1]
		}
		run[j] = en
	}
}

func compare(a, b entry) int {
	if a.before(&b) {
		return -1
	}
	if b.before(&a) {
		return 1
	}
	return 0
}

// parts visits all entries, chunk by chunk.
func (r *radix) parts(visit func(part []entry)) {
	for i := range r.buckets {
		n := r.buckets[i].n
		for c := r.buckets[i].head; c != nil; c = c.next {
			prefetchChunk(c.next)
			visit(c.entries[:n])
			n = chunkEntries
		}
	}
}

// clear takes out all entries.
func (r *radix) clear() {
	for i := range r.buckets {
		for c := r.buckets[i].head; c != nil; {
			c = r.recycle(c)
		}
		r.buckets[i] = bucket{n: chunkEntries}
	}
	r.tiers = 0
	clear(r.used[:])
}
