// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

// zeroWork is the share of the mean work that a node without any counts for, so that
// such nodes are distributed evenly, too.
const zeroWork = 1e-3

// workShares is the share of the expected work that each node has, 0 to 1. They are
// scaled before they are added up, so that sums can't overflow.
func workShares(g *node.Graph) []float64 {
	most, sum := 0.0, 0.0
	for i := range g.Nodes {
		most = max(most, g.Nodes[i].Work)
	}
	shares := make([]float64, len(g.Nodes))
	if most == 0 {
		return shares
	}
	for i := range g.Nodes {
		shares[i] = g.Nodes[i].Work / most
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// expectedWork is the weight of every node: its share, with a little for those that have
// none, so that they are distributed evenly, too.
func expectedWork(g *node.Graph) []float64 { return withLeast(workShares(g)) }

func withLeast(work []float64) []float64 {
	sum := 0.0
	for _, w := range work {
		sum += w
	}
	if sum == 0 {
		return slices.Repeat([]float64{1}, len(work))
	}
	least := zeroWork * sum / float64(len(work))
	for i := range work {
		work[i] = max(work[i], least)
	}
	return work
}

// works is the expected work of a structure's nodes. Shares are scaled before they are added up, so that sums can't
// overflow.
type works struct {
	s         *node.Structure
	most, sum float64 // sum in units of most
}

func newWorks(s *node.Structure) *works {
	w := &works{s: s}
	for n := range s.NumNodes() {
		w.most = max(w.most, s.Work(n))
	}
	if w.most == 0 {
		return w
	}
	for n := range s.NumNodes() {
		w.sum += s.Work(n) / w.most
	}
	return w
}

// share is the share of all work that a node has, 0 to 1.
func (w *works) share(n int) float64 {
	if w.most == 0 {
		return 0
	}
	return w.s.Work(n) / w.most / w.sum
}

// expected is the weight of every node, as expectedWork has it.
func (w *works) expected() []float64 {
	shares := make([]float64, w.s.NumNodes())
	for n := range shares {
		shares[n] = w.share(n)
	}
	return withLeast(shares)
}

// known tells whether a scenario states a rate.
func known(rate float64) bool { return rate > 0 && rate <= math.MaxFloat64 }

// outward tells whether a link leads to another node. The others can't leave a worker: they
// have no weight.
func outward(l *node.Link) bool { return l.From.Node != l.To.Node }

// busiest is the largest rate that is known of any outward link or mesh, 0 without one: the
// unit in which rates are added up, so that no sum overflows.
func busiest(g *node.Graph) float64 {
	most := 0.0
	for i := range g.Links {
		if l := &g.Links[i]; outward(l) && known(l.Rate) {
			most = max(most, l.Rate)
		}
	}
	for i := range g.Meshes {
		if known(g.Meshes[i].Rate) {
			most = max(most, g.Meshes[i].Rate)
		}
	}
	return most
}

// linkRates is the weight of every outward link, 0 to 1: its rate in the unit of busiest;
// the mean of the known ones where it is unknown; 1 where none is known.
func linkRates(g *node.Graph) []float64 {
	most, sum, count := busiest(g), 0.0, 0
	rates := make([]float64, len(g.Links))
	for i := range g.Links {
		if l := &g.Links[i]; outward(l) && known(l.Rate) {
			rates[i] = l.Rate / most
			sum += rates[i]
			count++
		}
	}
	mean := 1.0
	if count > 0 {
		mean = sum / float64(count)
	}
	for i := range g.Links {
		if l := &g.Links[i]; outward(l) && !known(l.Rate) {
			rates[i] = mean
		}
	}
	return rates
}

// shareAway is the chance that two different nodes are on different workers.
func shareAway(of []int32) float64 {
	count := map[int32]float64{}
	for _, w := range of {
		count[w]++
	}
	n := float64(len(of))
	together := 0.0
	for _, w := range of {
		together += count[w] - 1
	}
	return 1 - together/(n*(n-1))
}

// meshRates is the weight of every mesh, all its nodes together, in the unit of
// linkRates.
func meshRates(g *node.Graph) []float64 {
	most := busiest(g)
	rates := make([]float64, len(g.Meshes))
	for i, m := range g.Meshes {
		rates[i] = float64(len(g.Nodes))
		if known(m.Rate) {
			rates[i] *= m.Rate / most
		}
	}
	return rates
}
