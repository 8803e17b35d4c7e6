// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"sort"
)

const (
	// cutSlack is how much worse than the best possible the busiest worker may be for
	// the sake of fewer events between workers. Expected work is an estimate that is
	// seldom better than this.
	cutSlack = 0.05

	// cutPrice is what a shift of a border costs: moving 1 % of a worker's share must
	// save more than 2 % of the traffic over that border. Without a price a graph in
	// which every node sends to every other would always take the whole slack, for a cut
	// that is hardly smaller.
	cutPrice = 2
)

// blocks assigns the nodes that are not pinned to the workers, each a contiguous block of an order.
type blocks struct {
	of      []int32   // worker of each node, by node; filled by assign
	order   []int32   // unpinned nodes, in the order in which they are assigned
	sums    []float64 // sums[i]: work of order[:i]
	across  []float64 // across[i]: traffic between order[:i] and order[i:]
	loads   []float64 // pinned work of each worker
	empty   []bool    // workers without a pinned node, which must get one
	place   []int32   // by node: position in order + 1; 0: pinned
	workers int
}

// newBlocks prepares to assign nodes in the given order.
func newBlocks(workers int, of []int32, work []float64, order []int32) *blocks {
	d := &blocks{of: of, workers: workers, loads: make([]float64, workers), empty: make([]bool, workers)}
	for w := range d.empty {
		d.empty[w] = true
	}
	for _, n := range order {
		if w := of[n]; w >= 0 {
			d.loads[w] += work[n]
			d.empty[w] = false
			continue
		}
		d.order = append(d.order, n)
	}
	d.sums = make([]float64, len(d.order)+1)
	d.place = make([]int32, len(of))
	for i, n := range d.order {
		d.sums[i+1] = d.sums[i] + work[n]
		d.place[n] = int32(i) + 1
	}
	d.across = make([]float64, len(d.order)+2)
	return d
}

// tie adds traffic between two nodes. Between positions i < j it crosses the borders i+1 to j: until assign, across is
// differences.
func (d *blocks) tie(a, b int32, rate float64) {
	if i, j := d.place[a], d.place[b]; i != 0 && j != 0 {
		d.across[min(i, j)] += rate
		d.across[max(i, j)] -= rate
	}
}

// assign chooses the borders from left to right. Each border may lie anywhere from
// which the workers to the right can still manage the rest, and up to which the
// worker to the left can manage its own. Near the even share it is drawn towards
// little traffic across.
func (d *blocks) assign() {
	for i := 1; i < len(d.across); i++ {
		d.across[i] += d.across[i-1]
	}
	limit := d.leastLimit() * (1 + cutSlack)
	earliest := d.earliest(limit)
	at := 0
	for w := 0; w < d.workers; w++ {
		end := len(d.order)
		if w < d.workers-1 {
			end = d.border(w, at, max(at, earliest[w+1]), d.reach(w, at, limit))
		}
		for _, n := range d.order[at:end] {
			d.of[n] = int32(w)
		}
		at = end
	}
}

// border picks the end of worker w's block, which starts at at, between low and high.
func (d *blocks) border(w, at, low, high int) int {
	if d.empty[w] {
		low = max(low, at+1)
	}
	high = min(high, len(d.order)-d.emptyAfter(w))
	if high <= low {
		return max(min(low, len(d.order)), at)
	}
	left := d.sums[len(d.order)] - d.sums[at]
	for _, load := range d.loads[w:] {
		left += load
	}
	share := left / float64(d.workers-w)
	even := d.sums[at] + share - d.loads[w]
	best := low
	for i := low; i <= high; i++ {
		if math.Abs(d.sums[i]-even) < math.Abs(d.sums[best]-even) {
			best = i
		}
	}
	cost := func(i int) float64 {
		return d.across[i] + d.across[best]*cutPrice*math.Abs(d.sums[i]-even)/share
	}
	cheapest := best
	for i := low; i <= high; i++ {
		if cost(i) < cost(cheapest) {
			cheapest = i
		}
	}
	return cheapest
}

// emptyAfter is the number of workers after w that must get a node.
func (d *blocks) emptyAfter(w int) int {
	n := 0
	for _, empty := range d.empty[w+1:] {
		if empty {
			n++
		}
	}
	return n
}

// sumMax is the sum up to which worker w may have a block that starts at at. Every
// comparison with the limit has this form: with another one, by rounding, fits would refuse
// a block that reach allows, and leastLimit would miss the least.
func (d *blocks) sumMax(w, at int, limit float64) float64 { return d.sums[at] + limit - d.loads[w] }

// reach is the last end of a block of worker w that starts at at and keeps the
// worker's load within limit; at least one node for a worker without a node.
func (d *blocks) reach(w, at int, limit float64) int {
	most := d.sumMax(w, at, limit)
	end := sort.Search(len(d.order)-at, func(i int) bool { return d.sums[at+i+1] > most }) + at
	if d.empty[w] && end == at && at < len(d.order) {
		end = at + 1
	}
	return end
}

// fits tells whether all unpinned nodes can be assigned with no load over limit.
func (d *blocks) fits(limit float64) bool {
	at := 0
	for w := 0; w < d.workers; w++ {
		if d.loads[w] > limit {
			return false
		}
		end := min(d.reach(w, at, limit), len(d.order)-d.emptyAfter(w))
		if end > at && d.sums[end] > d.sumMax(w, at, limit) {
			return false // the one node of an empty worker is too much
		}
		at = max(at, end)
	}
	return at == len(d.order)
}

// leastLimit is the least load of the busiest worker, found by halving; 60 halvings
// are more than a float64 can tell apart.
func (d *blocks) leastLimit() float64 {
	low, high := 0.0, d.sums[len(d.order)]
	for _, load := range d.loads {
		high = max(high, load+d.sums[len(d.order)])
	}
	for range 60 {
		if mid := low + (high-low)/2; d.fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// earliest gives, for every worker w, the first position from which the workers w,
// w+1, … can take all the rest within limit.
func (d *blocks) earliest(limit float64) []int {
	first := make([]int, d.workers+1)
	first[d.workers] = len(d.order)
	for w := d.workers - 1; w >= 0; w-- {
		end := first[w+1]
		most := limit - d.loads[w]
		start := sort.Search(end, func(i int) bool { return d.sums[end]-d.sums[i] <= most })
		if d.empty[w] && start == end && end > 0 {
			start = end - 1
		}
		first[w] = start
	}
	return first
}
