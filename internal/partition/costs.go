// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

// eventsMax bounds what the promises of one link may cost, in events of the busiest link:
// more than any scenario tells apart, and so little that the sums of the costs of a
// scenario's links keep the digits of the least of them.
const eventsMax = 1e9

// eventRates is how many events a simulated second has, and how many of them the busiest
// link or mesh carries: 0 where no rate is known. The events are those on all links, or
// those that the nodes say they handle, whichever are more.
func eventRates(g *node.Graph) (all, most float64) {
	most = busiest(g)
	work := 0.0
	for i := range g.Nodes {
		work += g.Nodes[i].Work
	}
	sum := 0.0
	for _, rates := range [][]float64{linkRates(g), meshRates(g)} {
		for _, rate := range rates {
			sum += rate
		}
	}
	return max(work, sum*most), most
}

// linkCosts is what each link costs between workers: its events, and on a cycle the
// promises that its lookahead makes necessary. Both are per simulated second where the
// scenario states rates; where it doesn't, only lookaheads are compared.
//
// Costs are finite whatever the lookaheads, so that sums and differences of costs are
// numbers too, and a link with a lookahead near 0 doesn't hide the differences between all
// others in its rounding error.
func linkCosts(g *node.Graph, run Run, cyclic []bool) []float64 {
	costs := linkRates(g)
	all, most := eventRates(g)
	rated, least := false, math.Inf(1)
	for i := range g.Links {
		l := &g.Links[i]
		rated = rated || outward(l) && known(l.Rate)
		if outward(l) && cyclic[i] && l.Lookahead > 0 {
			least = min(least, l.Lookahead)
		}
	}
	for i := range g.Links {
		l, lookahead := &g.Links[i], g.Links[i].Lookahead
		switch {
		case !outward(l) || !cyclic[i] || lookahead == 0:
		case !rated:
			costs[i] += least / lookahead // the dearest promise costs as much as the busiest link
		default:
			// There is no use in more promises than events: workers whose lookahead ends
			// before the next event jump to it (idle jumps).
			costs[i] += run.exchange() * min(1/(lookahead*most), all/most, eventsMax)
		}
	}
	return costs
}

// groups are sets of nodes that are assigned as one.
type groups struct {
	of    []int32 // by node
	count int
}

// tightGroups puts nodes together that lie on a cycle of links whose lookaheads are shorter
// than what passes between two events of the whole scenario: between workers there would be
// a promise for every event, and all of them together slower than one of them alone (a
// coupling under 1; Varga, Şekercioğlu and Egan, A Practical Efficiency Criterion for the
// Null Message Algorithm, European Simulation Symposium, 2003). Where no rates are known,
// only lookaheads that no epoch can be raised by count as that short.
func tightGroups(g *node.Graph, run Run) groups {
	between := 0x1p-1022
	if all, most := eventRates(g); most > 0 {
		between = run.tight(all)
	}
	root := make([]int32, len(g.Nodes))
	for n := range root {
		root[n] = int32(n)
	}
	find := func(n int) int32 {
		for root[n] != int32(n) {
			root[n] = root[root[n]]
			n = int(root[n])
		}
		return int32(n)
	}
	for i, tight := range cyclicLinks(g, between) {
		if a, b := find(g.Links[i].From.Node), find(g.Links[i].To.Node); tight && a != b {
			root[max(a, b)] = min(a, b) // the lower one, so that groups keep the order of nodes
		}
	}
	s := groups{of: make([]int32, len(g.Nodes))}
	for n := range root {
		if first := find(n); first < int32(n) {
			s.of[n] = s.of[first]
		} else {
			s.of[n] = int32(s.count)
			s.count++
		}
	}
	return s
}

// merge makes a graph of the groups, with the same links, and their pins. A group with
// nodes that were pinned to different workers can't stay together: then there are no pins.
func (s groups) merge(g *node.Graph, of []int32) (merged *node.Graph, pins []int32) {
	merged = &node.Graph{Simprocs: g.Simprocs, Nodes: make([]node.Node, s.count), Links: slices.Clone(g.Links),
		Meshes: g.Meshes}
	pins = slices.Repeat([]int32{free}, s.count)
	for n, share := range workShares(g) {
		to := s.of[n]
		merged.Nodes[to].Work += share
		if of[n] == free || of[n] == pins[to] {
			continue
		}
		if pins[to] != free {
			return nil, nil
		}
		pins[to] = of[n]
	}
	for i := range merged.Links {
		l := &merged.Links[i]
		l.From.Node, l.To.Node = int(s.of[l.From.Node]), int(s.of[l.To.Node])
	}
	return merged, pins
}

// enough tells whether there is something for every worker.
func enough(pins []int32, workers int) bool {
	unpinned, taken := 0, make([]bool, workers)
	for _, w := range pins {
		if w == free {
			unpinned++
		} else {
			taken[w] = true
		}
	}
	for _, has := range taken {
		if !has {
			unpinned--
		}
	}
	return pins != nil && unpinned >= 0
}
