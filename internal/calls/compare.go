// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
)

// Comparer compares the calls of a run with the streams of a recorded one, part after part. One goroutine uses it. It
// keeps memory for the next comparison: 48 bytes for each call of the run, 2 for each recorded one that is ahead, and 4
// for each simproc.
type Comparer struct {
	Simprocs int
	Level    func(simproc uint32) uint32

	// Layout reads a layout. Its error is returned as it is.
	Layout func(digest [32]byte) (*Layout, error)

	legs   []*leg // that have been recorded and aren't over, rising
	of     []uint32
	ofList [][32]byte // the layouts that of is of
	starts []int
	parts  [2][]Call // calls by leg, and those of a leg by stream
	merged []Call
}

// leg is what was recorded of a leg.
type leg struct {
	begin   float64
	layouts [][32]byte
	streams []*stream // of the first layout by class, then those of the next one
	first   []int     // by layout: its first stream
	runs    []*Layout
}

// stream is what was recorded of a stream.
type stream struct {
	layout *Layout
	class  uint32
	hashes []byte // that weren't compared yet
	chunks []Chunk
	next   uint64 // the place behind hashes
	last   *Call  // that was compared
}

// Add adds a recorded chunk. Those of a stream may come in any order, but between two comparisons they are whole: they
// begin with what follows on those before. The chunk's memory is kept until the next comparison.
func (c *Comparer) Add(chunk Chunk) error {
	i, there := slices.BinarySearchFunc(c.legs, chunk.Begin, func(l *leg, begin float64) int {
		return cmp.Compare(l.begin, begin)
	})
	if !there {
		c.legs = slices.Insert(c.legs, i, &leg{begin: chunk.Begin})
	}
	l := c.legs[i]
	k := slices.Index(l.layouts, chunk.Layout)
	if k < 0 {
		layout, err := c.Layout(chunk.Layout)
		if err != nil {
			return err
		}
		k = len(l.layouts)
		l.layouts, l.first, l.runs = append(l.layouts, chunk.Layout), append(l.first, len(l.streams)),
			append(l.runs, layout)
		for class := range layout.Classes {
			l.streams = append(l.streams, &stream{layout: layout, class: uint32(class)})
		}
	}
	if n := l.runs[k].Classes; int64(chunk.Class) >= int64(n) {
		return fmt.Errorf("calls: found calls of class %d, want 0 to %d", chunk.Class, n-1)
	}
	s := l.streams[l.first[k]+int(chunk.Class)]
	s.chunks = append(s.chunks, chunk)
	return nil
}

// join puts the chunks of a stream that have come behind its hashes.
func (s *stream) join() error {
	slices.SortFunc(s.chunks, func(a, b Chunk) int { return cmp.Compare(a.Before, b.Before) })
	for _, c := range s.chunks {
		if c.Before != s.next {
			return fmt.Errorf("calls: found calls from number %d of a stream on, want number %d: a part of the "+
				"journal is missing, or there twice", c.Before, s.next)
		}
		s.hashes, s.next = append(s.hashes, c.Hashes...), s.next+uint64(len(c.Hashes)/hashBytes)
	}
	s.chunks = s.chunks[:0]
	return nil
}

// Compare compares the calls of the run behind the last comparison and before until, in any order, with those that were
// recorded. All chunks with a call before until were given to Add. ended: a recorded leg ends there. same is how
// many calls were compared; found is nil where they are equal. An error is about what was recorded, or a run that has a
// call twice.
func (c *Comparer) Compare(is []Call, until float64, ended bool) (found *Found, same uint64, err error) {
	all := &differences{c: c}
	parts := c.byLeg(is)
	all.extra(parts[0], until)
	for i, l := range c.legs {
		over, end := ended, until
		if i+1 < len(c.legs) {
			over, end = true, c.legs[i+1].begin
		}
		if err := c.leg(l, parts[i+1], over, end, all); err != nil {
			return nil, 0, err
		}
	}
	switch {
	case ended:
		c.legs = nil
	case len(c.legs) > 0:
		c.legs = c.legs[len(c.legs)-1:]
	}
	return all.first(), all.same, nil
}

// byLeg divides calls by the legs of the recorded run: those before all legs come first.
func (c *Comparer) byLeg(is []Call) [][]Call {
	at, of := 0, func(e float64) int {
		return sort.Search(len(c.legs), func(i int) bool { return c.legs[i].begin > e })
	}
	next := func(call *Call) int { // most are of the same leg as the one before
		if !(at == 0 || c.legs[at-1].begin <= call.Epoch) || !(at == len(c.legs) || c.legs[at].begin > call.Epoch) {
			at = of(call.Epoch)
		}
		return at
	}
	return c.divide(&c.parts[0], is, len(c.legs)+1, next)
}

// divide puts calls into n parts, each in the order in which they come.
func (c *Comparer) divide(into *[]Call, calls []Call, n int, part func(*Call) int) [][]Call {
	c.starts = append(c.starts[:0], make([]int, n+1)...)
	for i := range calls {
		c.starts[part(&calls[i])+1]++
	}
	parts := make([][]Call, n)
	*into = slices.Grow((*into)[:0], len(calls))[:len(calls)]
	for k := range n {
		c.starts[k+1] += c.starts[k]
		parts[k] = (*into)[c.starts[k]:c.starts[k+1]]
	}
	for i := range calls {
		at := &c.starts[part(&calls[i])]
		(*into)[*at] = calls[i]
		*at++
	}
	return parts
}

// leg compares the calls of a leg. over: all of them are there.
func (c *Comparer) leg(l *leg, is []Call, over bool, end float64, all *differences) error {
	if err := c.simprocs(l); err != nil {
		return err
	}
	parts := c.divide(&c.parts[1], is, len(l.streams)+1, func(call *Call) int { return int(c.of[call.Simproc]) })
	all.extra(parts[0], end)
	for i, s := range l.streams {
		if err := s.join(); err != nil {
			return err
		}
		part := parts[i+1]
		if err := c.sort(part); err != nil {
			return err
		}
		all.stream(s, part, over, end)
	}
	return nil
}

// simprocs fills in the stream of each simproc, from 1; 0: it has none.
func (c *Comparer) simprocs(l *leg) error {
	if c.of != nil && slices.Equal(c.ofList, l.layouts) {
		return nil
	}
	c.of = append(c.of[:0], make([]uint32, c.Simprocs)...)
	c.ofList = append(c.ofList[:0], l.layouts...)
	for k, layout := range l.runs {
		for _, r := range layout.runs {
			for id := r.first; id < r.end; id++ {
				if c.of[id] != 0 {
					return fmt.Errorf("calls: found simproc %d on two workers in the leg that begins at %v, want one",
						id, l.begin)
				}
				c.of[id] = uint32(l.first[k]) + r.class + 1
			}
		}
	}
	return nil
}

// order is the total order.
func (c *Comparer) order(a, b *Call) int {
	if a.Epoch != b.Epoch {
		return cmp.Compare(a.Epoch, b.Epoch)
	}
	return cmp.Or(cmp.Compare(c.Level(a.Simproc), c.Level(b.Simproc)), cmp.Compare(a.Simproc, b.Simproc))
}

// sort puts calls in the total order. They come as some sorted lists one behind the other.
func (c *Comparer) sort(calls []Call) error {
	ends := c.runs(calls)
	for len(ends) > 1 { // merges neighbours
		c.merged = slices.Grow(c.merged[:0], len(calls))[:0]
		begin, left := 0, ends[:0]
		for i := 0; i < len(ends); i += 2 {
			if i+1 == len(ends) {
				c.merged = append(c.merged, calls[begin:ends[i]]...)
			} else {
				c.merge(calls[begin:ends[i]], calls[ends[i]:ends[i+1]])
			}
			begin = len(c.merged)
			left = append(left, begin)
		}
		copy(calls, c.merged)
		ends = left
	}
	for i := range max(len(calls), 1) - 1 {
		if a, b := &calls[i], &calls[i+1]; a.Epoch == b.Epoch && a.Simproc == b.Simproc {
			return fmt.Errorf("the replay has two calls of simproc %d at %v s, want one", a.Simproc, a.Epoch)
		}
	}
	return nil
}

// runs are the ends of what is sorted.
func (c *Comparer) runs(calls []Call) (ends []int) {
	for i := range calls {
		if i+1 == len(calls) || c.order(&calls[i], &calls[i+1]) > 0 {
			ends = append(ends, i+1)
		}
	}
	return ends
}

// merge appends two sorted lists to merged.
func (c *Comparer) merge(a, b []Call) {
	for len(a) > 0 && len(b) > 0 {
		if c.order(&a[0], &b[0]) <= 0 {
			c.merged, a = append(c.merged, a[0]), a[1:]
		} else {
			c.merged, b = append(c.merged, b[0]), b[1:]
		}
	}
	c.merged = append(append(c.merged, a...), b...)
}

// hash is that of the recorded call i.
func hash(was []byte, i int) uint16 { return binary.LittleEndian.Uint16(was[i*hashBytes:]) }

// same is how many calls are equal, from the first on.
func same(was []byte, is []Call) int {
	n := min(len(was)/hashBytes, len(is))
	for i := range n {
		if hash(was, i) != uint16(is[i].Hash) {
			return i
		}
	}
	return n
}
