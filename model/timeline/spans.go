// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// Spans divide a run: span i ends before Spans[i], the last one at the horizon. A sum
// for each span gives the sum over every window whose ends divide spans, however many
// windows overlap, for one addition an event.
type Spans []float64

// NewSpans divides the run at all ends of the windows around the given ones (Around).
func NewSpans(ws []Window, horizon float64) Spans {
	var at Spans
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

// Divided are the spans with one more end.
func (s Spans) Divided(at float64) Spans {
	i, there := slices.BinarySearch(s, at)
	if there {
		return s
	}
	return slices.Insert(slices.Clone(s), i, at)
}

// Count is the number of spans.
func (s Spans) Count() int { return len(s) + 1 }

// At is the span of a time.
func (s Spans) At(t float64) int {
	i, found := slices.BinarySearch(s, t)
	if found {
		i++
	}
	return i
}

// AddSeconds adds the time from a to b to the spans in which it lies.
func (s Spans) AddSeconds(seconds []float64, a, b float64) {
	for i := s.At(a); a < b; i++ {
		end := b
		if i < len(s) {
			end = min(end, s[i])
		}
		seconds[i] += end - a
		a = end
	}
}

// Within returns the spans lo <= i < hi of a window whose ends divide spans.
func (s Spans) Within(w Window) (lo, hi int) {
	if w.Empty() {
		return 0, 0
	}
	if w.From > 0 {
		lo = s.At(w.From)
	}
	hi, _ = slices.BinarySearch(s, w.To)
	return lo, hi + 1
}

// Cursor finds the spans of times that never go back.
type Cursor struct {
	spans Spans
	now   int
}

// Cursor begins in the first span.
func (s Spans) Cursor() Cursor { return Cursor{spans: s} }

// At is the span of a time.
func (c *Cursor) At(t float64) int {
	for c.now < len(c.spans) && c.spans[c.now] <= t {
		c.now++
	}
	return c.now
}

// Count is the number of spans.
func (c *Cursor) Count() int { return c.spans.Count() }
