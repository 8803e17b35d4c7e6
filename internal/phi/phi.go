// SPDX-License-Identifier: Apache-2.0

// Package phi judges from the times at which something came so far how unusual it is that nothing comes any more. The
// method is phi accrual (Hayashibara, Défago, Yared, Katayama, The φ Accrual Failure Detector, SRDS 2004).
//
// Guarantee: the result depends on the times that it is given alone. It is a number, 0 or more, never falls while
// nothing comes, and passes any threshold if that lasts. An arrival costs no allocation.
//
//	var d phi.Detector
//	d.Arrived(at)
//	if d.Phi(now) > phi.Threshold { // unreachable
//	}
package phi

import (
	"math"
	"time"
)

const (
	// Threshold is the phi above which a peer counts as unreachable: if intervals are as they were, one of 10^8 is as
	// long.
	Threshold = 8

	window      = 200                    // intervals that count
	sigmaLeast  = 100 * time.Millisecond // intervals that are all the same don't make a late one unusual
	firstGuess  = time.Second            // the interval before there is one
	firstSpread = firstGuess / 4
)

// Detector keeps the last intervals between arrivals from one peer. Times are differences from any moment that is the
// same for all calls. The zero value has seen nothing. One goroutine uses it.
type Detector struct {
	// Resolution is that of the times. What is known no better deviates by as much, also where it seems to be the same
	// each time: it is the least deviation that counts, unless it is below 100 ms.
	Resolution time.Duration

	intervals [window]time.Duration
	count     int // of all, those that were overwritten included
	last      time.Duration
	seen      bool
}

// Arrived notes that something came at a time. One that is before the last one counts as the same.
func (d *Detector) Arrived(at time.Duration) {
	if !d.seen {
		d.seen, d.last = true, at
		// Two guesses, so that there are a mean and a deviation; they leave with the window.
		d.intervals[0], d.intervals[1], d.count = firstGuess-firstSpread, firstGuess+firstSpread, 2
		return
	}
	at = max(at, d.last)
	d.intervals[d.count%window] = at - d.last
	d.last = at
	d.count++
}

// Resumed notes that something came at a time behind a silence that was unusual: how long that was doesn't count among
// the intervals, which would make the next one as long look usual.
func (d *Detector) Resumed(at time.Duration) { d.last = max(at, d.last) }

// Phi is -log10 of the probability that the next arrival comes later than now, if intervals are normally distributed as
// those in the window: 1 for one in ten, 8 for one in 10^8. 0 before the first arrival.
func (d *Detector) Phi(now time.Duration) float64 {
	if !d.seen {
		return 0
	}
	n := min(d.count, window)
	mean, square := 0.0, 0.0
	for _, v := range d.intervals[:n] {
		mean += v.Seconds() / float64(n)
	}
	for _, v := range d.intervals[:n] {
		square += (v.Seconds() - mean) * (v.Seconds() - mean) / float64(n)
	}
	sigma := max(math.Sqrt(square), sigmaLeast.Seconds(), d.Resolution.Seconds())
	waited := max(now-d.last, 0).Seconds()
	return tail((waited - mean) / (sigma * math.Sqrt2))
}

// tail is -log10 of erfc(x)/2.
func tail(x float64) float64 {
	if x < 20 {
		return -math.Log10(math.Erfc(x) / 2)
	}
	// erfc(x) is exp(-x²)/(x√π) up to a relative 1/(2x²), and 0 in a float64 from 27 on.
	return x*x*math.Log10E + math.Log10(2*x*math.Sqrt(math.Pi))
}
