// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"slices"
)

// window is a stretch of simulated time, from included, to not.
type window struct{ from, to float64 }

func (w window) empty() bool { return w.from >= w.to }

// until is the length of the part of w before end, in seconds.
func (w window) until(end float64) float64 { return max(0, min(w.to, end)-w.from) }

// around returns the windows in which results are compared with those while an
// outage or a spike lasts: as long before it, and as long after it, as the run has.
func around(start, end, horizon float64) (before, during, after window) {
	length := end - start
	before = window{max(0, start-length), min(start, horizon)}
	during = window{start, min(end, horizon)}
	after = window{end, min(end+length, horizon)}
	return before, during, after
}

// cuts divides the run into segments: segment i ends before cuts.at[i], the last
// one at the horizon. A sum per segment gives the sum over every window whose ends
// are cuts, however many windows overlap, for one addition a request.
type cuts struct {
	at  []float64
	cur int
}

// newCuts cuts at all ends of the windows around the given outages and spikes.
func newCuts(events []window, horizon float64) cuts {
	var at []float64
	for _, e := range events {
		before, during, after := around(e.from, e.to, horizon)
		for _, w := range []window{before, during, after} {
			at = append(at, w.from, w.to)
		}
	}
	at = slices.DeleteFunc(at, func(t float64) bool { return t <= 0 || t >= horizon })
	slices.Sort(at)
	return cuts{at: slices.Compact(at)}
}

func (c *cuts) segments() int { return len(c.at) + 1 }

// segment is the segment of now, which never goes back.
func (c *cuts) segment(now float64) int {
	for c.cur < len(c.at) && c.at[c.cur] <= now {
		c.cur++
	}
	return c.cur
}

// within returns the segments lo <= i < hi of a window whose ends are cuts.
func (c *cuts) within(w window) (lo, hi int) {
	if w.empty() {
		return 0, 0
	}
	lo, _ = slices.BinarySearch(c.at, w.from)
	if lo < len(c.at) && c.at[lo] == w.from {
		lo++
	}
	hi, _ = slices.BinarySearch(c.at, w.to)
	return lo, hi + 1
}

// extra is the sum of the spikes that are active on one edge: constant between two
// changes.
type extra struct {
	at  []float64 // of the changes
	sum []float64 // from that change on
	cur int       // changes that lie behind
}

// newExtra adds up overlapping spikes. Each sum is made anew from the active ones,
// earliest first, so that it comes back to exactly 0 behind the last.
func newExtra(spikes []Spike) extra {
	var x extra
	for _, s := range spikes {
		x.at = append(x.at, s.Start, s.End)
	}
	slices.Sort(x.at)
	x.at = slices.Compact(x.at)
	byStart := slices.Clone(spikes)
	slices.SortStableFunc(byStart, func(a, b Spike) int { return cmp.Compare(a.Start, b.Start) })
	var active []Spike
	for _, t := range x.at {
		active = slices.DeleteFunc(active, func(s Spike) bool { return s.End <= t })
		for len(byStart) > 0 && byStart[0].Start <= t {
			active = append(active, byStart[0])
			byStart = byStart[1:]
		}
		sum := 0.0
		for _, s := range active {
			sum += s.Extra
		}
		x.sum = append(x.sum, sum)
	}
	return x
}

// now is the sum of the spikes that are active at t, which never goes back.
func (x *extra) now(t float64) float64 {
	for x.cur < len(x.at) && x.at[x.cur] <= t {
		x.cur++
	}
	if x.cur == 0 {
		return 0
	}
	return x.sum[x.cur-1]
}
