// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"math"
)

// finest is how many times the lengths of batches may double.
const finest = 30

// Batches cuts the time from a start to an end into stretches of one length and adds
// up, for each, what happened in it: single amounts at an instant, and areas under
// something that holds for a while. Two of them are a Series for Ratio (Law and
// Kelton's method of batch means).
//
// They begin short and double in length, two becoming one, whenever the instants
// that are added no longer fit: so a run that ends early, too, has up to count batches
// of the time that it has reached. At the end of the time there are count.
//
// Nothing allocates after NewBatches.
type Batches struct {
	start, length float64
	doublings     int // to come until the batches fill all the time
	sums          []float64
}

// NewBatches cuts [start, end) into count stretches, an even number.
func NewBatches(start, end float64, count int) *Batches {
	if !(end > start) || count < 2 || count%2 != 0 {
		panic(fmt.Sprintf("measure: %d batches from %v to %v", count, start, end))
	}
	return &Batches{start: start, length: math.Ldexp((end-start)/float64(count), -finest), doublings: finest,
		sums: make([]float64, count)}
}

// ReadBatches are batches of the same time and number that another process has
// collected: its Sums and Doublings.
func ReadBatches(start, end float64, sums []float64, doublings int) (*Batches, error) {
	if doublings < 0 || doublings > finest {
		return nil, fmt.Errorf("batches that may double %d times, want 0 to %d", doublings, finest)
	}
	b := NewBatches(start, end, len(sums))
	b.sums, b.doublings = sums, doublings
	b.length = math.Ldexp(b.length, finest-doublings)
	return b, nil
}

// Sums is what was added up, one number a stretch. The caller must not change it.
func (b *Batches) Sums() []float64 { return b.sums }

// Doublings is how many times the stretches may still double in length.
func (b *Batches) Doublings() int { return b.doublings }

// Coarsen doubles the stretches until they may do so at most that many times.
func (b *Batches) Coarsen(doublings int) {
	for b.doublings > doublings {
		half := len(b.sums) / 2
		for k := range half {
			b.sums[k] = b.sums[2*k] + b.sums[2*k+1]
		}
		clear(b.sums[half:])
		b.length *= 2
		b.doublings--
	}
}

// Reach doubles the stretches until they reach an instant, or all the time.
func (b *Batches) Reach(at float64) {
	for b.doublings > 0 && at >= b.start+b.length*float64(len(b.sums)) {
		b.Coarsen(b.doublings - 1)
	}
}

// index is the stretch of an instant, -1 before the first, len(sums) after the last.
func (b *Batches) index(at float64) int {
	if at < b.start {
		return -1
	}
	k := (at - b.start) / b.length
	if k >= float64(len(b.sums)) {
		return len(b.sums)
	}
	return int(k)
}

// End is where the stretch of an instant ends, +Inf for the last one of all: what is recorded up to then may be added
// up and given to At as one amount. The stretches double until they reach the instant.
func (b *Batches) End(at float64) float64 {
	b.Reach(at)
	k := b.index(at)
	if k >= len(b.sums)-1 && b.doublings == 0 {
		return math.Inf(1)
	}
	return b.start + float64(k+1)*b.length
}

// At adds an amount to the stretch of an instant; instants outside add nothing.
func (b *Batches) At(at, amount float64) {
	b.Reach(at)
	if k := b.index(at); k >= 0 && k < len(b.sums) {
		b.sums[k] += amount
	}
}

// Over adds height × time for something of that height that holds from one instant to
// another, to every stretch as much as falls into it.
func (b *Batches) Over(from, to, height float64) {
	if !(to > from) {
		return
	}
	b.Reach(to)
	first, last := max(b.index(from), 0), min(b.index(to), len(b.sums)-1)
	for k := first; k <= last; k++ {
		low := max(from, b.start+float64(k)*b.length)
		high := min(to, b.start+float64(k+1)*b.length)
		if high > low {
			b.sums[k] += height * (high - low)
		}
	}
}

// Add adds what other batches of the same time and number have, which are made as long as these if they are shorter.
func (b *Batches) Add(o *Batches) {
	b.Coarsen(o.doublings)
	o.Coarsen(b.doublings)
	for k, x := range o.sums {
		b.sums[k] += x
	}
}

// Edges are where the stretches begin and end, up to an instant: one more than there are stretches before it.
func (b *Batches) Edges(until float64) []float64 {
	edges := []float64{b.start}
	for k := 1; k < len(b.sums); k++ {
		if x := tidy(b.start + float64(k)*b.length); x < until {
			edges = append(edges, x)
		}
	}
	return append(edges, max(until, b.start))
}

// Length is how long a stretch is, in seconds.
func (b *Batches) Length() float64 { return b.length }

// Lengths is how much of every stretch lies before reached: the whole length of those
// that are over by then, 0 for the others, which a run that ended early has only half
// seen.
func (b *Batches) Lengths(reached float64) []float64 {
	lengths := make([]float64, len(b.sums))
	for k := range lengths {
		if b.start+float64(k+1)*b.length <= reached*(1+1e-12) {
			lengths[k] = b.length
		}
	}
	return lengths
}
