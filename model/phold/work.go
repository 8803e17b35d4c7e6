// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"errors"
	"math"
)

// work is what handlers calculate for each event, beside passing it on. It changes no result: only how long a run
// takes, and where.
type work struct {
	cold   int // steps for an event outside the hot spot
	heat   int // … in it
	hot    int // processes in it
	lps    int
	wander float64 // simulated seconds of a round; 0: it stays at process 0
}

// do calculates for a number of events of a process.
func (w *work) do(lp int, now float64, events int) error {
	steps := w.cold
	if w.hot > 0 && w.inside(lp, now) {
		steps = w.heat
	}
	if calculate(uint64(lp)+1, events*steps) == 0 {
		return errors.New("phold: a generator came to 0, which it can't: this processor calculates wrong")
	}
	return nil
}

// inside reports whether a process is in the hot spot. That begins at a process that goes round evenly with simulated
// time: where nodes are numbered as they are here, neighbours are hot together.
func (w *work) inside(lp int, now float64) bool {
	first := 0
	if w.wander > 0 {
		rounds := now / w.wander
		first = min(int((rounds-math.Floor(rounds))*float64(w.lps)), w.lps-1)
	}
	if lp < first {
		lp += w.lps
	}
	return lp-first < w.hot
}

// calculate makes so many steps of Marsaglia's xorshift from a state that isn't 0: none leads to 0.
func calculate(x uint64, steps int) uint64 {
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
