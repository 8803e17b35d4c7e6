// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/disco-sim/disco/internal/worker"
)

// ringSizes is the bytes of the ring from each worker to each other one, 0 where there is no lane because traffic, what
// it is expected to carry, is 0. All together have at most t.AllRingBytes, but each of them has t.RingBytesLeast(). A
// ring gets a share of what there is by its traffic, the next lower power of two of it, and at most t.RingBytes; what
// is beyond that is left to the others.
func ringSizes(traffic [][]float64, t *worker.Tuning) [][]int {
	type pair struct{ from, to int }
	var pairs []pair
	sizes := make([][]int, len(traffic))
	for from, row := range traffic {
		sizes[from] = make([]int, len(row))
		for to, amount := range row {
			if amount > 0 {
				pairs = append(pairs, pair{from, to})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return cmp.Compare(traffic[b.from][b.to], traffic[a.from][a.to])
	})
	left := make([]float64, len(pairs)+1) // traffic of pairs[i:], the least added first
	for i := len(pairs) - 1; i >= 0; i-- {
		left[i] = left[i+1] + traffic[pairs[i].from][pairs[i].to]
	}
	least, most := t.RingBytesLeast(), t.RingBytes
	room := float64(max(0, t.AllRingBytes-least*len(pairs)))
	for i, p := range pairs {
		share := min(room*(traffic[p.from][p.to]/left[i]), float64(most-least))
		room -= share
		if t.AllRingBytes == 0 {
			share = float64(most - least)
		}
		// The least is a power of two, and so is the most.
		sizes[p.from][p.to] = 1 << (bits.Len(uint(least+int(share))) - 1)
	}
	return sizes
}
