// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// Cuts divide a run into segments: segment i ends before Cuts[i], the last one at the
// horizon. A sum per segment gives the sum over every window whose ends are cuts,
// however many windows overlap, for one addition an event.
type Cuts []float64

// NewCuts cuts at all ends of the windows around the given ones (Around).
func NewCuts(ws []Window, horizon float64) Cuts {
	var at Cuts
	for _, w := range ws {
		before, during, after := Around(w, horizon)
		for _, v := range []Window{before, during, after} {
			at = append(at, v.From, v.To)
		}
	}
	at = slices.DeleteFunc(at, func(t float64) bool { return t <= 0 || t >= horizon })
	slices.Sort(at)
	return slices.Compact(at)
}

// Segments is their number.
func (c Cuts) Segments() int { return len(c) + 1 }

// Segment is the segment of a time.
func (c Cuts) Segment(t float64) int {
	i, found := slices.BinarySearch(c, t)
	if found {
		i++
	}
	return i
}

// AddSeconds adds the time from a to b to the segments in which it lies.
func (c Cuts) AddSeconds(seconds []float64, a, b float64) {
	for i := c.Segment(a); a < b; i++ {
		end := b
		if i < len(c) {
			end = min(end, c[i])
		}
		seconds[i] += end - a
		a = end
	}
}

// Within returns the segments lo <= i < hi of a window whose ends are cuts.
func (c Cuts) Within(w Window) (lo, hi int) {
	if w.Empty() {
		return 0, 0
	}
	if w.From > 0 {
		lo = c.Segment(w.From)
	}
	hi, _ = slices.BinarySearch(c, w.To)
	return lo, hi + 1
}

// Cursor finds the segments of times that never go back.
type Cursor struct {
	cuts    Cuts
	segment int
}

// Cursor begins in the first segment.
func (c Cuts) Cursor() Cursor { return Cursor{cuts: c} }

// Segment is the segment of now.
func (c *Cursor) Segment(now float64) int {
	for c.segment < len(c.cuts) && c.cuts[c.segment] <= now {
		c.segment++
	}
	return c.segment
}

// Segments is the number of segments.
func (c *Cursor) Segments() int { return c.cuts.Segments() }
