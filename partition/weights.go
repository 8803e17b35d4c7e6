package partition

import (
	"math"

	"github.com/disco-sim/disco/node"
)

// zeroWork is the share of the mean work that a node without any counts for, so that
// nodes nobody expects much of are still spread.
const zeroWork = 1e-3

// expectedWork is the weight of every node: what the scenario says, scaled so that
// sums can't overflow, with a little for those that say 0.
func expectedWork(g *node.Graph) []float64 {
	most := 0.0
	for _, n := range g.Nodes {
		most = max(most, n.Work)
	}
	work := make([]float64, len(g.Nodes))
	if most == 0 {
		for i := range work {
			work[i] = 1
		}
		return work
	}
	sum := 0.0
	for i, n := range g.Nodes {
		work[i] = n.Work / most
		sum += work[i]
	}
	least := zeroWork * sum / float64(len(work))
	for i := range work {
		work[i] = max(work[i], least)
	}
	return work
}

// linkRates is the weight of every link: its rate; the mean of the known ones where
// it is unknown; 1 where none is known.
func linkRates(g *node.Graph) []float64 {
	most, sum, known := 0.0, 0.0, 0
	for _, l := range g.Links {
		if l.Rate > 0 && !math.IsInf(l.Rate, 1) {
			most = max(most, l.Rate)
		}
	}
	rates := make([]float64, len(g.Links))
	for i, l := range g.Links {
		if l.Rate > 0 && !math.IsInf(l.Rate, 1) {
			rates[i] = l.Rate / most
			sum += rates[i]
			known++
		}
	}
	mean := 1.0
	if known > 0 {
		mean = sum / float64(known)
	}
	for i := range rates {
		if rates[i] == 0 {
			rates[i] = mean
		}
	}
	return rates
}

// cutShare is the share of the traffic between different nodes that leaves its worker.
// The nodes of a mesh send to all others alike.
func cutShare(g *node.Graph, of []int32) float64 {
	all, cut := 0.0, 0.0
	for i, rate := range linkRates(g) {
		from, to := g.Links[i].From.Node, g.Links[i].To.Node
		if from == to {
			continue
		}
		all += rate
		if of[from] != of[to] {
			cut += rate
		}
	}
	if len(g.Nodes) > 1 {
		away := shareAway(of)
		for _, rate := range meshRates(g) {
			all += rate
			cut += rate * away
		}
	}
	if all == 0 {
		return 0
	}
	return cut / all
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
	most := 0.0
	for _, l := range g.Links {
		if !math.IsInf(l.Rate, 1) {
			most = max(most, l.Rate)
		}
	}
	if most == 0 {
		most = 1
	}
	rates := make([]float64, len(g.Meshes))
	for i, m := range g.Meshes {
		rates[i] = float64(len(g.Nodes))
		if m.Rate > 0 && !math.IsInf(m.Rate, 1) {
			rates[i] *= m.Rate / most
		}
	}
	return rates
}
