// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Bounds of Windows.
const (
	WindowsMax   = 256     // of one set
	windowsLeast = 16      // that each node of a scenario may have, however many nodes there are
	numbersMax   = 1 << 22 // of all nodes of a scenario together, unless they would have fewer than windowsLeast
	fieldsMax    = 1 << 20 // of one set
)

// Windows are time series in the making. They cut simulated time, from 0 on, into windows of one width, and have for
// each window the same fields: sums of amounts at an instant, and areas under what holds for a while. Beside them they
// have, for each window, the spread of values whose percentiles are wanted.
//
// They begin narrow and double in width, two becoming one, whenever there would be more than a number of them: a
// run that ends early has as many of them as one that doesn't. At the horizon they are 1, 2 or 5 times a power of ten
// wide. What was added depends on the order of the calls alone, never on when it was saved or reported.
//
// A nil *Windows records nothing. Otherwise recording allocates only where values are new to the table that holds
// their spread, and it grows.
type Windows struct {
	fields    int
	doublings int // to come until they reach the horizon
	width     float64
	from, end float64   // of the window that was asked for last
	index     int       // its number
	sums      []float64 // window by window
	spread    spread
}

// WindowCount is how many windows each node of a scenario has at most, whose nodes have so many fields all together:
// an even number.
func WindowCount(fields int) int {
	n := WindowsMax
	for n > windowsLeast && n*fields > numbersMax {
		n /= 2
	}
	return n
}

// WindowsFit reports whether a number from elsewhere is one that WindowCount gives, or 0.
func WindowsFit(count int) bool { return count >= 0 && count <= WindowsMax && count%2 == 0 }

// NewWindows makes windows of the time from 0 to a horizon, at most count, an even number, with so many fields each.
func NewWindows(horizon float64, count, fields int) *Windows {
	if !(horizon > 0) || count < 2 || count > WindowsMax || count%2 != 0 || fields < 0 || fields > fieldsMax {
		panic(fmt.Sprintf("measure: %d windows of %d fields up to %v", count, fields, horizon))
	}
	width := roundWidth(horizon / float64(count))
	n := int(math.Ceil(horizon / width))
	n = min(count, max(2, n+n%2))
	w := &Windows{fields: fields, doublings: finest, width: math.Ldexp(width, -finest), sums: make([]float64, n*fields)}
	w.spread.windows = n
	w.turn(0)
	return w
}

// roundWidth is the least of 1, 2 and 5 times a power of ten that isn't below least.
func roundWidth(least float64) float64 {
	exponent := int(math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5, 10, 20} {
		x := m * math.Pow10(exponent)
		if exponent < 0 && exponent > -300 {
			x = m / math.Pow10(-exponent) // the float64 that is nearest to it
		}
		if x >= least && x > 0 {
			return x
		}
	}
	return least // below what has powers of ten
}

// WindowBytes is what NewWindows takes at most, without the spread of values.
func WindowBytes(count, fields int) int { return 8*count*fields + 160 }

// Count is how many windows there are, of which those behind what was recorded are empty.
func (w *Windows) Count() int { return w.spread.windows }

// Width is how long a window is, in seconds.
func (w *Windows) Width() float64 { return w.width }

// turn finds the window of an instant. What is beyond the last one belongs to it, and what is before 0 to the first.
func (w *Windows) turn(at float64) {
	w.Reach(at)
	last := w.spread.windows - 1
	k := int(min(max(0, at/w.width), float64(last)))
	for k > 0 && at < float64(k)*w.width {
		k--
	}
	for k < last && at >= float64(k+1)*w.width {
		k++
	}
	w.index = k
	w.from, w.end = float64(k)*w.width, float64(k+1)*w.width
	if k == 0 {
		w.from = math.Inf(-1)
	}
	if k == last && w.doublings == 0 {
		w.end = math.Inf(1)
	}
}

// Reach doubles the width until the windows reach an instant.
func (w *Windows) Reach(at float64) {
	for w != nil && w.doublings > 0 && at >= w.width*float64(w.spread.windows) {
		w.Coarsen(w.doublings - 1)
	}
}

// Coarsen doubles the width until it may do so at most that many times.
func (w *Windows) Coarsen(doublings int) {
	for w.doublings > doublings {
		n := w.spread.windows
		for k := range n / 2 {
			for f := range w.fields {
				w.sums[k*w.fields+f] = w.sums[2*k*w.fields+f] + w.sums[(2*k+1)*w.fields+f]
			}
		}
		clear(w.sums[n/2*w.fields:])
		w.spread.halve()
		w.width *= 2
		w.doublings--
		w.from, w.end = math.Inf(1), math.Inf(-1) // no window was found yet
	}
}

// Clone is a copy.
func (w *Windows) Clone() *Windows {
	if w == nil {
		return nil
	}
	o := *w
	o.sums, o.spread.table = slices.Clone(w.sums), slices.Clone(w.spread.table)
	return &o
}

// At adds an amount to a field in the window of an instant.
func (w *Windows) At(at float64, field int, amount float64) {
	if w == nil {
		return
	}
	if !(at >= w.from && at < w.end) {
		w.turn(at)
	}
	w.sums[w.index*w.fields+field] += amount
}

// Over adds height × time to a field for something of that height that holds from one instant to another, to every
// window as much as falls into it.
func (w *Windows) Over(from, to float64, field int, height float64) {
	if w == nil || !(to > from) {
		return
	}
	w.Reach(to)
	for {
		if !(from >= w.from && from < w.end) {
			w.turn(from)
		}
		if to <= w.end {
			w.sums[w.index*w.fields+field] += float64(height * (to - from))
			return
		}
		w.sums[w.index*w.fields+field] += float64(height * (w.end - from))
		from = w.end
	}
}

// Value adds a value from -ValueMax to ValueMax to the spread of the window of an instant.
func (w *Windows) Value(at, x float64) {
	if w == nil {
		return
	}
	if !(at >= w.from && at < w.end) {
		w.turn(at)
	}
	w.spread.add(uint64(w.index)<<spreadKeyBits|spreadKey(x), 1)
}

// Add adds what other windows of the same horizon, number and fields have. Both are as wide as the wider of them
// then.
func (w *Windows) Add(o *Windows) {
	w.Coarsen(o.doublings)
	o.Coarsen(w.doublings)
	for i, x := range o.sums {
		w.sums[i] += x
	}
	w.spread.merge(&o.spread)
}

// Sums are those of a field, window by window.
func (w *Windows) Sums(field int) []float64 {
	list := make([]float64, w.spread.windows)
	for k := range list {
		list[k] = w.sums[k*w.fields+field]
	}
	return list
}

// Percentile is that of the values of each window, within 1.6 %; NaN where there were none.
func (w *Windows) Percentile(p float64) []float64 { return w.spread.percentile(p) }

// Edges are where the windows begin and end, up to an instant: one more than there are windows before it.
func (w *Windows) Edges(until float64) []float64 {
	edges := []float64{0}
	for k := 1; k < w.spread.windows; k++ {
		if x := tidy(float64(k) * w.width); x < until {
			edges = append(edges, x)
		}
	}
	return append(edges, until)
}

// tidy is a multiple of a width as people would write it: 0.3 and not the float64 beside it.
func tidy(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 13, 64), 64)
	if err != nil {
		return x // it rounds up to what is no float64 any more
	}
	return y
}

// Quotients are those of two lists, NaN where the divisor is 0.
func Quotients(y, x []float64) []float64 {
	list := make([]float64, len(y))
	for k := range list {
		if list[k] = math.NaN(); x[k] != 0 {
			list[k] = y[k] / x[k]
		}
	}
	return list
}
