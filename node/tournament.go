// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"math/bits"
	"slices"
)

// tournament keeps the least of many numbers, each of which may change: leaf i is at
// width+i, and every place n above the leaves is the less of 2n and 2n+1. The numbers are
// the bits of times (mark, keyOf), which order as the times do.
type tournament []uint64

// newTournament has n leaves of the given value.
func newTournament(n int, value uint64) tournament {
	width := 1 << bits.Len(uint(max(n, 1)-1))
	t := tournament(slices.Repeat([]uint64{math.MaxUint64}, 2*width))
	for i := range n {
		t[width+i] = value
	}
	t.build()
	return t
}

// leaves are to be followed by build where they are changed directly.
func (t tournament) leaves() []uint64 { return t[len(t)/2:] }

// build plays all matches anew.
func (t tournament) build() {
	for n := len(t)/2 - 1; n > 0; n-- {
		t[n] = min(t[2*n], t[2*n+1])
	}
}

// least is the least of all leaves, math.MaxUint64 when there are none.
func (t tournament) least() uint64 { return t[1] }

// first is the first leaf that has the least value.
func (t tournament) first() int {
	n := 1
	for n < len(t)/2 {
		if n *= 2; t[n] > t[n+1] {
			n++
		}
	}
	return n - len(t)/2
}

// set gives leaf i a new value and plays its matches anew, up to the first that ends as
// before.
func (t tournament) set(i int, value uint64) {
	n := len(t)/2 + i
	t[n] = value
	for n > 1 {
		n /= 2
		least := min(t[2*n], t[2*n+1])
		if t[n] == least {
			return
		}
		t[n] = least
	}
}
