// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

// What a run costs, in seconds of a processor of today. Only the ratios matter: they are the same on every machine, so
// that placements differ only where the number of processors does. docs/sync.md, "How many workers", has what they were
// measured with.
const (
	eventSeconds   = 100e-9 // to handle one event
	crossSeconds   = 50e-9  // to send one to another worker, and again to receive it
	latencySeconds = 500e-9 // from a promise until a worker that is awake goes on
	promiseSeconds = 500e-9 // to make a promise for one lane, and to take it in
	turnSeconds    = 5e-6   // to give the processor to the next worker, where they are more than processors
)

// predictor predicts how long a run over a placement takes.
//
// Workers hold each other back where bounds go round: the bound of a lane between two workers is the least of all that
// may be sent over it, so a lane joins links that have nothing to do with each other. The predictor builds that graph
// of simprocs and lanes, and looks for the least lookahead with which a cycle over a lane closes. Simulated time moves
// by so much in each round of messages, or from event to event where that is further (idle jumps).
type predictor struct {
	g    *node.Graph
	run  Run
	left int // vertices and edges that improve may still look at

	shares []float64 // of the work, by node
	events float64   // of all nodes, in a simulated second; 0: unknown
	epochs float64   // different ones that these have, no more
	rates  []float64 // by link, in events per simulated second
	mesh   []float64 // by mesh
	steps  []float64 // the lookaheads that there are, rising
}

func newPredictor(g *node.Graph, run Run) *predictor {
	p := &predictor{g: g, run: run, left: moveSteps, shares: workShares(g)}
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
func (p *predictor) least(workers int) float64 {
	return p.events * eventSeconds / float64(min(workers, p.run.Processors))
}

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
	sum := 0.0
	for _, b := range busy {
		sum += b
	}
	work := max(slices.Max(busy), sum/float64(p.run.Processors))
	round := p.roundSeconds(of, workers)
	rounds = p.rounds(of, workers, work/round)
	return work + rounds*round, rounds
}

// roundSeconds is what one round of messages takes: a promise for each lane, by all workers that have nodes.
func (p *predictor) roundSeconds(of []int32, workers int) float64 {
	has, used, promises := make([]bool, workers), 0, 0
	for _, w := range of {
		if !has[w] {
			has[w], used = true, used+1
		}
	}
	lanes := make([]bool, workers*workers)
	for i := range p.g.Links {
		from, to := int(of[p.g.Links[i].From.Node]), int(of[p.g.Links[i].To.Node])
		if lane := from*workers + to; from != to && !lanes[lane] {
			lanes[lane], promises = true, promises+1
		}
	}
	if len(p.g.Meshes) > 0 {
		promises = used * (used - 1)
	}
	return roundOf(float64(promises), used, p.run.Processors)
}

// roundOf is what a round takes with so many lanes between workers that have nodes.
func roundOf(lanes float64, workers, processors int) float64 {
	all := lanes * promiseSeconds
	if workers > processors {
		return (all + float64(workers)*turnSeconds) / float64(processors)
	}
	return all/float64(workers) + latencySeconds
}

// rounds is how many rounds of messages a simulated second takes. Fewer than cost a hundredth of the work, which takes
// as long as so many rounds, are none.
func (p *predictor) rounds(of []int32, workers int, work float64) float64 {
	f := newFlow(p.g, of, workers)
	from, _ := slices.BinarySearch(p.steps, 1/p.epochs)
	to, found := slices.BinarySearch(p.steps, 100/work)
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
