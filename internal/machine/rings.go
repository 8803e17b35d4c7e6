// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/disco-sim/disco/internal/worker"
)

// ringSizes is the bytes of the ring from each worker to each other one, 0 where there is no lane because traffic, what
// it is expected to carry, is 0. All together have at most t.AllRingBytes, but each of them has t.RingBytesLeast() and
// at most t.RingBytes, which all have where t.AllRingBytes is 0.
func ringSizes(traffic [][]float64, t *worker.Tuning) [][]int {
	least := t.RingBytesLeast()
	if t.AllRingBytes == 0 {
		least = t.RingBytes
	}
	sizes := square(len(traffic))
	share(sizes, traffic, t.AllRingBytes, least, t.RingBytes, func(_, _ int) bool { return true })
	return sizes
}

// Windows of lanes between machines.
const (
	windowLeast = WindowMin
	windowMost  = 1 << 20

	// WindowBytesDefault is what all windows of a machine have together: for records, and as much for payloads.
	WindowBytesDefault = 32 << 20
)

// windowSizes is the bytes of the window of each lane between two machines, 0 for the others. The receiving machine
// keeps what is under way: all windows of lanes to one have together half of all, but each has windowLeast.
func windowSizes(machine []int32, traffic [][]float64, all int) [][]int {
	sizes := square(len(traffic))
	for m := range MachinesMax {
		share(sizes, traffic, all/2, windowLeast, windowMost, func(from, to int) bool {
			return int(machine[to]) == m && int(machine[from]) != m
		})
	}
	return sizes
}

// share shares bytes out among those pairs that are in and have traffic. Each gets a share of what there is by its
// traffic, the next lower power of two of it, at least least and at most most, both powers of two; what is beyond that
// is left to the others.
func share(sizes [][]int, traffic [][]float64, all, least, most int, in func(from, to int) bool) {
	type pair struct{ from, to int }
	var pairs []pair
	for from, row := range traffic {
		for to, amount := range row {
			if amount > 0 && in(from, to) {
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
	room := float64(max(0, all-least*len(pairs)))
	for i, p := range pairs {
		share := min(room*(traffic[p.from][p.to]/left[i]), float64(most-least))
		room -= share
		sizes[p.from][p.to] = 1 << (bits.Len(uint(least+int(share))) - 1)
	}
}
