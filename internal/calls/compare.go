// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"cmp"
	"fmt"
	"slices"
)

// Comparer compares calls of one scenario. One goroutine uses it. It keeps memory for the next comparison: 16 bytes for
// each call of both sides, and 4 for each simproc.
type Comparer struct {
	Simprocs int
	Level    func(simproc uint32) uint32

	start  []uint32
	sorted [2][]Call
}

// Difference is the first call that isn't the same on both sides: only one has it, or it has two hashes.
type Difference struct {
	Simproc uint32
	Epoch   float64
	Was, Is *Call // nil: there is no such call
}

// Compare finds the first difference in the total order (epoch, level, simproc) between what was recorded and what is;
// nil where there is none. An error is about a side that has a call twice. All simprocs are below Simprocs.
func (c *Comparer) Compare(was, is []Call) (*Difference, error) {
	for i, side := range [][]Call{was, is} {
		if err := c.sort(&c.sorted[i], side); err != nil {
			return nil, fmt.Errorf("%s has %w", [...]string{"the journal", "the replay"}[i], err)
		}
	}
	a, b := c.sorted[0], c.sorted[1]
	var first *Difference
	for len(a) > 0 || len(b) > 0 {
		id := ^uint32(0)
		for _, side := range [][]Call{a, b} {
			if len(side) > 0 {
				id = min(id, side[0].Simproc)
			}
		}
		n, m := run(a, id), run(b, id)
		if d := firstOf(a[:n], b[:m]); d != nil && (first == nil || c.before(d, first)) {
			first = d
		}
		a, b = a[n:], b[m:]
	}
	return first, nil
}

// before is the total order.
func (c *Comparer) before(a, b *Difference) bool {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(c.Level(a.Simproc), c.Level(b.Simproc)),
		cmp.Compare(a.Simproc, b.Simproc)) < 0
}

// run is how many calls, from the first on, are of a simproc.
func run(calls []Call, id uint32) (n int) {
	for n < len(calls) && calls[n].Simproc == id {
		n++
	}
	return n
}

// firstOf is the first difference between the calls of one simproc, which rise.
func firstOf(was, is []Call) *Difference {
	i := 0
	for i < len(was) && i < len(is) && was[i] == is[i] {
		i++
	}
	d := &Difference{}
	if i < len(was) {
		d.Was = &Call{}
		*d.Was = was[i] // memory of its own
	}
	if i < len(is) {
		d.Is = &Call{}
		*d.Is = is[i]
	}
	switch {
	case d.Was == nil && d.Is == nil:
		return nil
	case d.Was != nil && d.Is != nil && d.Was.Epoch < d.Is.Epoch:
		d.Is = nil
	case d.Was != nil && d.Is != nil && d.Was.Epoch > d.Is.Epoch:
		d.Was = nil
	}
	at := cmp.Or(d.Was, d.Is)
	d.Simproc, d.Epoch = at.Simproc, at.Epoch
	return d
}

// sort puts calls in the order (simproc, epoch): by counting, because those of a simproc come nearly in order.
func (c *Comparer) sort(into *[]Call, calls []Call) error {
	c.start = append(c.start[:0], make([]uint32, c.Simprocs+1)...)
	for i := range calls {
		c.start[calls[i].Simproc+1]++
	}
	for i := range c.Simprocs {
		c.start[i+1] += c.start[i]
	}
	sorted := slices.Grow((*into)[:0], len(calls))[:len(calls)]
	for i := range calls {
		at := &c.start[calls[i].Simproc]
		sorted[*at] = calls[i]
		*at++
	}
	*into = sorted
	byEpoch := func(a, b Call) int { return cmp.Compare(a.Epoch, b.Epoch) }
	for rest := sorted; len(rest) > 0; {
		n := run(rest, rest[0].Simproc)
		if !slices.IsSortedFunc(rest[:n], byEpoch) {
			slices.SortFunc(rest[:n], byEpoch)
		}
		for i := range n - 1 {
			if rest[i].Epoch == rest[i+1].Epoch {
				return fmt.Errorf("two calls of simproc %d at %v s, want one", rest[i].Simproc, rest[i].Epoch)
			}
		}
		rest = rest[n:]
	}
	return nil
}
