// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"math/bits"
	"slices"
)

// tournament keeps the least of many numbers, each of which may change: leaf i is at
// width+i, and every node n above them is the less of 2n and 2n+1.
type tournament []float64

// newTournament has n leaves of value 0.
func newTournament(n int) tournament {
	width := 1 << bits.Len(uint(max(n, 1)-1))
	t := tournament(slices.Repeat([]float64{math.Inf(1)}, 2*width))
	for i := range n {
		t.set(i, 0)
	}
	return t
}

// least is the least of all leaves, +Inf when there are none.
func (t tournament) least() float64 { return t[1] }

// set gives leaf i a new value and plays its matches anew, up to the first that ends as
// before.
func (t tournament) set(i int, value float64) {
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
