// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"math"
	"slices"
)

// window is a stretch of simulated time, from included, to not.
type window struct{ from, to float64 }

func (w window) empty() bool { return w.from >= w.to }

// until is the length of the part of w before end, in seconds.
func (w window) until(end float64) float64 { return max(0, min(w.to, end)-w.from) }

// merged joins windows that overlap or touch, in order of time.
func merged(ws []window) []window {
	slices.SortFunc(ws, func(a, b window) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var out []window
	for _, w := range ws {
		if n := len(out); n > 0 && w.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, w.to)
			continue
		}
		out = append(out, w)
	}
	return out
}

// within tells whether t lies in one of the merged windows.
func within(ws []window, t float64) bool {
	i, found := slices.BinarySearchFunc(ws, t, func(w window, t float64) int { return cmp.Compare(w.from, t) })
	return found || i > 0 && t < ws[i-1].to
}

// course is a value that changes at given times and is 0 before the first.
type course struct{ at, value []float64 }

// spell is a value that holds for a while.
type spell struct {
	window
	value float64
}

// newCourse joins spells. Where several hold, join makes one value of theirs, earliest
// first, always from nothing: so it comes back to exactly 0 behind the last.
func newCourse(spells []spell, join func(sum, value float64) float64) course {
	var c course
	for _, s := range spells {
		c.at = append(c.at, s.from, s.to)
	}
	slices.Sort(c.at)
	c.at = slices.Compact(c.at)
	todo := slices.Clone(spells)
	slices.SortStableFunc(todo, func(a, b spell) int { return cmp.Compare(a.from, b.from) })
	var active []spell
	for _, t := range c.at {
		active = slices.DeleteFunc(active, func(s spell) bool { return s.to <= t })
		for len(todo) > 0 && todo[0].from <= t {
			active = append(active, todo[0])
			todo = todo[1:]
		}
		sum := 0.0
		for _, s := range active {
			sum = join(sum, s.value)
		}
		c.value = append(c.value, sum)
	}
	return c
}

// reading follows a course through time.
type reading struct {
	course
	cur int // changes that lie behind
}

// now is the value at t, which never goes back.
func (r *reading) now(t float64) float64 {
	for r.cur < len(r.at) && r.at[r.cur] <= t {
		r.cur++
	}
	if r.cur == 0 {
		return 0
	}
	return r.value[r.cur-1]
}

// around returns the windows in which results are compared with those while an
// occurrence lasts: as long before it, and as long after it, as the run has.
func around(w window, horizon float64) (before, during, after window) {
	length := w.to - w.from
	before = window{max(0, w.from-length), min(w.from, horizon)}
	during = window{w.from, min(w.to, horizon)}
	after = window{w.to, min(w.to+length, horizon)}
	return before, during, after
}

// cuts divides the run into segments: segment i ends before cuts[i], the last one at
// the horizon. A sum per segment gives the sum over every window whose ends are cuts,
// however many windows overlap.
type cuts []float64

// newCuts cuts at all ends of the windows around the given ones.
func newCuts(ws []window, horizon float64) cuts {
	var at cuts
	for _, w := range ws {
		before, during, after := around(w, horizon)
		for _, v := range []window{before, during, after} {
			at = append(at, v.from, v.to)
		}
	}
	at = slices.DeleteFunc(at, func(t float64) bool { return t <= 0 || t >= horizon })
	slices.Sort(at)
	return slices.Compact(at)
}

func (c cuts) segments() int { return len(c) + 1 }

// segment is the segment of a time.
func (c cuts) segment(t float64) int {
	i, found := slices.BinarySearch(c, t)
	if found {
		i++
	}
	return i
}

// spread adds the seconds from a to b to the segments in which they lie.
func (c cuts) spread(seconds []float64, a, b float64) {
	for i := c.segment(a); a < b; i++ {
		end := b
		if i < len(c) {
			end = min(end, c[i])
		}
		seconds[i] += end - a
		a = end
	}
}

// within returns the segments lo <= i < hi of a window whose ends are cuts.
func (c cuts) within(w window) (lo, hi int) {
	if w.empty() {
		return 0, 0
	}
	if w.from > 0 {
		lo = c.segment(w.from)
	}
	hi, _ = slices.BinarySearch(c, w.to)
	return lo, hi + 1
}

// never is later than everything.
var never = math.Inf(1)
