// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

// What a run costs, in seconds of a processor of today. Only the ratios matter: they are the same on every machine, so
// that placements are.
//
// The price of a round is that of two workers that are awake, each on a processor of its own. One that has to be woken
// takes fifty times as long, but then all workers would do better to be fewer, and that is for people to decide.
const (
	eventSeconds = 100e-9 // to handle one event
	crossSeconds = 50e-9  // to send one to another worker, and again to receive it
	roundSeconds = 500e-9 // for a promise there, and one back
)

// predictor predicts how long a run over a placement takes.
//
// Workers hold each other back where bounds go round: the bound of a lane between two workers is the least of all that
// may be sent over it, so a lane joins links that have nothing to do with each other. The predictor builds that graph
// of simprocs and lanes, and looks for the least lookahead with which a cycle over a lane closes. Simulated time moves
// by so much in each round of messages, or from event to event where that is further (idle jumps).
type predictor struct {
	g      *node.Graph
	shares []float64 // of the work, by node
	events float64   // of all nodes, in a simulated second; 0: unknown
	epochs float64   // different ones that these have, no more
	rates  []float64 // by link, in events per simulated second
	mesh   []float64 // by mesh
	steps  []float64 // the lookaheads that there are, rising
}

func newPredictor(g *node.Graph) *predictor {
	p := &predictor{g: g, shares: workShares(g)}
	all, most := eventRates(g)
	if most == 0 || math.IsInf(all, 0) || slices.Max(p.shares) == 0 {
		return p
	}
	p.events, p.epochs, p.rates, p.mesh = all, all, linkRates(g), meshRates(g)
	if known(g.Epochs) {
		p.epochs = min(all, g.Epochs)
	}
	for _, rates := range [][]float64{p.rates, p.mesh} {
		for i := range rates {
			rates[i] *= most
		}
	}
	for i := range g.Links {
		p.steps = append(p.steps, g.Links[i].Lookahead)
	}
	for i := range g.Meshes {
		p.steps = append(p.steps, g.Meshes[i].Lookahead)
	}
	slices.Sort(p.steps)
	p.steps = slices.Compact(p.steps)
	return p
}

// known tells whether the scenario says enough for a prediction.
func (p *predictor) known() bool { return p.events > 0 }

// least is the least time that any placement over so many workers takes.
func (p *predictor) least(workers int) float64 { return p.events * eventSeconds / float64(workers) }

// seconds is the predicted time of a simulated second, and how many rounds of messages it takes.
func (p *predictor) seconds(of []int32, workers int) (all, rounds float64) {
	busy := make([]float64, workers)
	for n, w := range of {
		busy[w] += p.shares[n] * p.events * eventSeconds
	}
	for i, rate := range p.rates {
		if from, to := of[p.g.Links[i].From.Node], of[p.g.Links[i].To.Node]; from != to {
			busy[from] += rate * crossSeconds
			busy[to] += rate * crossSeconds
		}
	}
	away := 0.0
	if len(of) > 1 && len(p.mesh) > 0 {
		away = shareAway(of)
	}
	for _, rate := range p.mesh {
		for w := range busy {
			busy[w] += 2 * rate * away * crossSeconds / float64(workers)
		}
	}
	work := slices.Max(busy)
	rounds = p.rounds(of, workers, work)
	return work + rounds*roundSeconds, rounds
}

// rounds is how many rounds of messages a simulated second takes. Fewer than cost a hundredth of the work are none.
func (p *predictor) rounds(of []int32, workers int, work float64) float64 {
	f := newFlow(p.g, of, workers)
	from, _ := slices.BinarySearch(p.steps, 1/p.epochs)
	to, found := slices.BinarySearch(p.steps, 100*roundSeconds/work)
	if found {
		to++
	}
	// steps[:to] hold somebody back. Of these, steps[:from] let the next epoch come first.
	if to == 0 || !f.closes(p.steps[to-1]) {
		return 0
	}
	if from = min(from, to); from > 0 && f.closes(p.steps[from-1]) {
		return p.epochs
	}
	for from+1 < to { // a cycle closes with steps[to-1], and none with steps[from-1]
		if mid := (from + to) / 2; f.closes(p.steps[mid-1]) {
			to = mid
		} else {
			from = mid
		}
	}
	return min(p.epochs, 1/p.steps[to-1])
}
