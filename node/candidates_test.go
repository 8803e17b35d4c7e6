// SPDX-License-Identifier: Apache-2.0

package node

import (
	standard "container/heap"
	"math"
	"slices"

	"github.com/disco-sim/disco/internal/heap"
)

// The pending-event sets that pending was chosen from (docs/pending-set.md), each in the
// plainest form that is still a fair one. All keep the same entries in the same total
// order.
type candidate interface {
	insert(en entry)
	first() *entry // nil: empty; valid until the next call
	drop()         // takes out what first returned
}

var candidates = []struct {
	name string
	make func() candidate
}{
	{"radix", func() candidate { s := &pending{}; s.init(); return s }},
	{"ahead", func() candidate { s := &ahead{}; s.init(); return s }},
	{"heap4", func() candidate { return &heap4{} }},
	{"heap2", func() candidate { return &heap2{} }},
	{"generic", func() candidate { return &generic{heap.New(entry.tied)} }},
	{"twolevel", func() candidate { return newTwoLevel(1024) }},
	{"calendar", func() candidate { return newCalendar() }},
	{"ladder", func() candidate { return newLadder() }},
}

// ahead is the set with looking ahead, as for thousands of simprocs.
type ahead struct{ pending }

func (s *ahead) drop() {
	s.pending.drop()
	s.lookAhead()
}

// heap4 is one 4-ary heap: what pending is while it is small.
type heap4 struct{ p pending }

func (h *heap4) insert(en entry) { h.p.pushLate(en) }
func (h *heap4) drop()           { h.p.dropLate() }
func (h *heap4) first() *entry {
	if len(h.p.late) == 0 {
		return nil
	}
	return &h.p.late[0]
}

// heap2 is the standard library's binary heap.
type heap2 []entry

func (h heap2) Len() int           { return len(h) }
func (h heap2) Less(i, j int) bool { return h[i].before(&h[j]) }
func (h heap2) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heap2) Push(x any)        { *h = append(*h, *x.(*entry)) }
func (h *heap2) Pop() any          { *h = (*h)[:len(*h)-1]; return nil }
func (h *heap2) insert(en entry)   { standard.Push(h, &en) }
func (h *heap2) drop()             { standard.Pop(h) }
func (h *heap2) first() *entry {
	if len(*h) == 0 {
		return nil
	}
	return &(*h)[0]
}

// generic is the binary heap that serves everything else, by epoch with a function for ties.
type generic struct{ h heap.Heap[entry] }

func (a entry) tied(b entry) bool { return a.before(&b) }

func (g *generic) insert(en entry) { g.h.Push(en.epoch(), en) }
func (g *generic) drop()           { g.h.Pop() }
func (g *generic) first() *entry {
	if g.h.Len() == 0 {
		return nil
	}
	return &g.h.First().Value
}

// twoLevel has a heap for every target, and a heap of the targets by their first
// entries, with the place of each: what this Engine had before.
type twoLevel struct {
	queues []heap4
	index  []uint32 // 4-ary heap of targets
	at     []int32  // place of each target in index, -1: not there
}

func newTwoLevel(targets int) *twoLevel {
	return &twoLevel{queues: make([]heap4, targets), at: slices.Repeat([]int32{-1}, targets)}
}

func (t *twoLevel) before(a, b uint32) bool {
	return t.queues[a].p.late[0].before(&t.queues[b].p.late[0])
}

func (t *twoLevel) insert(en entry) {
	q := en.proc
	t.queues[q].insert(en)
	if t.queues[q].first().number != en.number {
		return
	}
	i := int(t.at[q])
	if i < 0 {
		i = len(t.index)
		t.index = append(t.index, q)
	}
	for i > 0 && t.before(q, t.index[(i-1)/4]) {
		t.put(i, t.index[(i-1)/4])
		i = (i - 1) / 4
	}
	t.put(i, q)
}

func (t *twoLevel) put(i int, q uint32) {
	t.index[i] = q
	t.at[q] = int32(i)
}

func (t *twoLevel) first() *entry {
	if len(t.index) == 0 {
		return nil
	}
	return t.queues[t.index[0]].first()
}

func (t *twoLevel) drop() {
	q := t.index[0]
	t.queues[q].drop()
	if t.queues[q].first() == nil {
		t.at[q] = -1
		q = t.index[len(t.index)-1]
		t.index = t.index[:len(t.index)-1]
		if len(t.index) == 0 {
			return
		}
	}
	i := 0
	for {
		c := 4*i + 1
		if c >= len(t.index) {
			break
		}
		least := c
		for j := c + 1; j < min(c+4, len(t.index)); j++ {
			if t.before(t.index[j], t.index[least]) {
				least = j
			}
		}
		if !t.before(t.index[least], q) {
			break
		}
		t.put(i, t.index[least])
		i = least
	}
	t.put(i, q)
}

// calendar is a calendar queue (Brown, CACM 31(10), 1988): days of one width in a year
// that repeats, each day sorted, both resized with the number of entries. Days are
// sorted with the least last.
type calendar struct {
	days  [][]entry
	width float64
	size  int
	day   int     // where the search stands
	until float64 // end of that day, this year
	now   float64
}

func newCalendar() *calendar {
	return &calendar{days: make([][]entry, 2), width: 1, until: 1}
}

func (c *calendar) dayOf(epoch float64) int {
	return int(uint64(epoch/c.width) % uint64(len(c.days)))
}

func (c *calendar) insert(en entry) {
	c.put(&en)
	c.size++
	if c.size > 2*len(c.days) {
		c.resize(2 * len(c.days))
	}
}

func (c *calendar) put(en *entry) {
	d := &c.days[c.dayOf(en.epoch())]
	*d = append(*d, *en)
	i := len(*d) - 1
	for ; i > 0 && (*d)[i-1].before(en); i-- {
		(*d)[i] = (*d)[i-1]
	}
	(*d)[i] = *en
	if en.epoch() < c.until-c.width {
		c.turnTo(en.epoch())
	}
}

func (c *calendar) turnTo(epoch float64) {
	c.day = c.dayOf(epoch)
	c.until = (math.Floor(epoch/c.width) + 1) * c.width
}

func (c *calendar) first() *entry {
	if c.size == 0 {
		return nil
	}
	for range c.days {
		if d := c.days[c.day]; len(d) > 0 && d[len(d)-1].epoch() < c.until {
			return &d[len(d)-1]
		}
		c.day = (c.day + 1) % len(c.days)
		c.until += c.width
	}
	var least *entry // nothing this year: look at all days
	for _, d := range c.days {
		if len(d) > 0 && (least == nil || d[len(d)-1].before(least)) {
			least = &d[len(d)-1]
		}
	}
	c.turnTo(least.epoch())
	return least
}

func (c *calendar) drop() {
	d := &c.days[c.day]
	c.now = (*d)[len(*d)-1].epoch()
	*d = (*d)[:len(*d)-1]
	c.size--
	if c.size < len(c.days)/2 && len(c.days) > 2 {
		c.resize(len(c.days) / 2)
	}
}

// resize takes the width from the spread of the next entries, as Brown does.
func (c *calendar) resize(days int) {
	var sample []float64
	for _, d := range c.days {
		for i := range d {
			sample = append(sample, d[i].epoch())
		}
	}
	slices.Sort(sample)
	near := sample[:min(len(sample), 1024)]
	if span := near[len(near)-1] - near[0]; span > 0 {
		c.width = 3 * span / float64(len(near))
	}
	c.width = max(c.width, c.now*0x1p-50)
	old := c.days
	c.days = make([][]entry, days)
	c.turnTo(c.now)
	for _, d := range old {
		for i := range d {
			c.put(&d[i])
		}
	}
}

// ladder is a ladder queue (Tang, Goh and Thng, ACM TOMACS 15(3), 2005): an unsorted top,
// rungs of ever finer buckets of one width each, a sorted bottom.
type ladder struct {
	top      []entry
	topStart float64
	rungs    []rung
	bottom   heap4 // a heap instead of a sorted list: what comes in late is then cheap
}

type rung struct {
	start, width float64
	at           int // buckets before it are spent
	buckets      [][]entry
}

const ladderThreshold = 50 // as in the paper

func newLadder() *ladder { return &ladder{topStart: math.Inf(-1)} }

func (l *ladder) insert(en entry) {
	epoch := en.epoch()
	if epoch >= l.topStart {
		l.top = append(l.top, en)
		return
	}
	for i := range l.rungs {
		if l.rungs[i].put(&en) {
			return
		}
	}
	l.bottom.insert(en)
}

func (r *rung) put(en *entry) bool {
	// What is before the bucket in use lies in a finer rung, or in the bottom.
	x := (en.epoch() - r.start) / r.width
	if x < float64(r.at) || r.at == len(r.buckets) {
		return false
	}
	i := min(int(x), len(r.buckets)-1)
	r.buckets[i] = append(r.buckets[i], *en)
	return true
}

func (l *ladder) first() *entry {
	for l.bottom.first() == nil {
		if len(l.rungs) == 0 && len(l.top) == 0 {
			l.topStart = math.Inf(-1)
			return nil
		}
		if len(l.rungs) == 0 {
			l.topStart = l.spread(l.top)
			l.top = l.top[:0]
			continue
		}
		r := &l.rungs[len(l.rungs)-1]
		for r.at < len(r.buckets) && len(r.buckets[r.at]) == 0 {
			r.at++
		}
		if r.at == len(r.buckets) {
			l.rungs = l.rungs[:len(l.rungs)-1]
			continue
		}
		b := r.buckets[r.at]
		r.buckets[r.at] = b[:0]
		r.at++
		if len(b) > ladderThreshold && l.spread(b) > 0 {
			continue
		}
		for i := range b {
			l.bottom.insert(b[i])
		}
	}
	return l.bottom.first()
}

// spread makes a rung of entries, or, if all are at one epoch, puts them into the
// bottom. It returns what is after all of them.
func (l *ladder) spread(entries []entry) float64 {
	least, most := entries[0].epoch(), entries[0].epoch()
	for i := range entries {
		least, most = min(least, entries[i].epoch()), max(most, entries[i].epoch())
	}
	after := math.Nextafter(most, math.Inf(1))
	width := (most - least) / float64(len(entries))
	if len(l.rungs) >= 8 || !(least+width > least) {
		for i := range entries {
			l.bottom.insert(entries[i])
		}
		return after
	}
	n := len(l.rungs)
	if n < cap(l.rungs) {
		l.rungs = l.rungs[:n+1] // with the buckets that it had
	} else {
		l.rungs = append(l.rungs, rung{})
	}
	r := &l.rungs[n]
	*r = rung{start: least, width: width, buckets: slices.Grow(r.buckets[:0], len(entries)+1)[:len(entries)+1]}
	for i := range r.buckets {
		r.buckets[i] = r.buckets[i][:0]
	}
	for i := range entries {
		r.put(&entries[i])
	}
	return after
}

func (l *ladder) drop() { l.bottom.drop() }
