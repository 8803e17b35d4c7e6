package measure

import "fmt"

// Batches cuts the time from a start to an end into stretches of one length and adds
// up, for each, what happened in it: single amounts at an instant, and areas under
// something that holds for a while. Two of them are a Series for Ratio (Law and
// Kelton's method of batch means).
//
// Nothing allocates after NewBatches.
type Batches struct {
	start, length float64
	sums          []float64
}

// NewBatches cuts [start, end) into count stretches.
func NewBatches(start, end float64, count int) *Batches {
	if !(end > start) || count < 1 {
		panic(fmt.Sprintf("measure: %d batches from %v to %v", count, start, end))
	}
	return &Batches{start: start, length: (end - start) / float64(count), sums: make([]float64, count)}
}

// Sums is what was added up, one number a stretch. The caller must not change it.
func (b *Batches) Sums() []float64 { return b.sums }

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

// At adds an amount to the stretch of an instant; instants outside add nothing.
func (b *Batches) At(at, amount float64) {
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
	first, last := max(b.index(from), 0), min(b.index(to), len(b.sums)-1)
	for k := first; k <= last; k++ {
		low := max(from, b.start+float64(k)*b.length)
		high := min(to, b.start+float64(k+1)*b.length)
		if high > low {
			b.sums[k] += height * (high - low)
		}
	}
}

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
