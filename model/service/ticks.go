// SPDX-License-Identifier: Apache-2.0

package service

import "math"

// ticks counts the sampling times k × period, k = 1, 2, 3, … without an event for
// each: state is constant between two activations, so only their number matters.
//
// A tick at the very time of a change sees the state after it.
type ticks struct {
	at     float64 // next × period
	next   int64   // the first tick that isn't counted yet
	begin  int64   // the first tick that counts
	period float64 // seconds; +Inf: no sampling
}

// newTicks counts those from the end of a warm-up on.
func newTicks(period float64, sampling bool, warmup float64) ticks {
	if !sampling {
		period = math.Inf(1)
	}
	k := ticks{period: period, next: 1, at: period, begin: 1}
	if sampling {
		k.begin = k.first(warmup)
	}
	return k
}

// counted is how many ticks were passed that count.
func (k *ticks) counted() int64 { return max(0, k.next-k.begin) }

// first is the number of the first tick at or after t.
func (k *ticks) first(t float64) int64 {
	n := max(1, int64(t/k.period))
	for float64(n)*k.period < t {
		n++
	}
	for n > 1 && float64(n-1)*k.period >= t {
		n--
	}
	return n
}

// pass counts the ticks before t that weren't counted yet.
func (k *ticks) pass(t float64) int64 {
	if k.at >= t {
		return 0
	}
	from := k.next
	k.next = k.first(t)
	k.at = float64(k.next) * k.period
	return k.next - from
}
