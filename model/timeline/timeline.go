// SPDX-License-Identifier: Apache-2.0

// Package timeline computes with what lasts for a while and is known before the run:
// outages, spikes of latency, lossy times. It has windows of simulated time, values that
// hold during windows, and the division of a run into spans, with which a model
// compares its figures before, during and after each window.
//
// Guarantee: results depend on the arguments alone. What a run asks again and again
// (Cursor, Reader) is amortised constant time and allocates nothing.
//
//	spans := timeline.NewSpans(outages, horizon)
//	sums := make([]float64, spans.Count())
//	c := spans.Cursor()
//	sums[c.At(now)] += x                 // now never goes back
//	before, during, after := timeline.Around(outages[0], horizon)
//	for i, hi := spans.Within(during); i < hi; i++ {
//		total += sums[i]
//	}
package timeline

import (
	"cmp"
	"slices"
)

// Window is a stretch of simulated time in seconds, From included, To not.
type Window struct{ From, To float64 }

// Empty reports whether no time lies in w.
func (w Window) Empty() bool { return w.From >= w.To }

// SecondsBefore is the length of the part of w before end.
func (w Window) SecondsBefore(end float64) float64 { return max(0, min(w.To, end)-w.From) }

// Merge joins windows that overlap or touch. It sorts ws; the result is in the order of
// time.
func Merge(ws []Window) []Window {
	slices.SortFunc(ws, func(a, b Window) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	var out []Window
	for _, w := range ws {
		if n := len(out); n > 0 && w.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, w.To)
			continue
		}
		out = append(out, w)
	}
	return out
}

// Contains reports whether t lies in one of the windows that Merge gave.
func Contains(merged []Window, t float64) bool {
	i, found := slices.BinarySearchFunc(merged, t, func(w Window, t float64) int { return cmp.Compare(w.From, t) })
	return found || i > 0 && t < merged[i-1].To
}

// Around returns the windows in which results are compared with those during w: as long
// before it, and as long after it, as the run has.
func Around(w Window, horizon float64) (before, during, after Window) {
	length := w.To - w.From
	before = Window{max(0, w.From-length), min(w.From, horizon)}
	during = Window{w.From, min(w.To, horizon)}
	after = Window{w.To, min(w.To+length, horizon)}
	return before, during, after
}
