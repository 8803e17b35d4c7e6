// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"slices"
	"sort"

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
//
// It reads nodes and links where they are: of a graph with millions of links nothing is copied but the numbers of one
// graph's vertices at a time (flow.graph).
type predictor struct {
	a    *assignment
	s    *node.Structure // a's
	run  Run
	left int // vertices and edges that improve may still look at

	shares []float64 // of the work, by node
	events float64   // of all nodes, in a simulated second; 0: unknown
	epochs float64   // different ones that these have, no more
	mesh   []float64 // events per simulated second, by mesh
	steps  []float64 // the lookaheads that there are, rising
	space  flowSpace // of one flow at a time
}

// newPredictor fails only where a's proceed does.
func newPredictor(a *assignment) (*predictor, error) {
	p := &predictor{a: a, s: a.s, run: a.run, left: moveSteps, shares: make([]float64, a.s.NumNodes())}
	if err := a.weigh(); err != nil {
		return nil, err
	}
	works := newWorks(a.s)
	for n := range p.shares {
		p.shares[n] = works.share(n)
	}
	if a.most == 0 || math.IsInf(a.events, 0) || works.most == 0 {
		return p, nil
	}
	p.events, p.epochs = a.events, a.events
	if epochs := a.s.Epochs(); known(epochs) {
		p.epochs = min(a.events, epochs)
	}
	for k := range a.s.NumLinks() {
		// Links that follow one another often have one lookahead: millions of copies are neither kept nor sorted.
		if l := a.s.Lookahead(k); len(p.steps) == 0 || p.steps[len(p.steps)-1] != l {
			p.steps = append(p.steps, l)
		}
	}
	for _, m := range a.s.Meshes() {
		p.mesh = append(p.mesh, a.meshRate(m)*a.most)
		p.steps = append(p.steps, m.Lookahead)
	}
	slices.Sort(p.steps)
	p.steps = slices.Compact(p.steps)
	return p, nil
}

// known tells whether the scenario says enough for a prediction.
func (p *predictor) known() bool { return p.events > 0 }

// least is the least time that any placement over so many workers takes.
func (p *predictor) least(workers int) float64 {
	return Run{Workers: workers, Processors: p.run.Processors}.least(p.events)
}

// least is the least time that so many events take.
func (r Run) least(events float64) float64 {
	return events * eventSeconds / float64(min(r.Workers, r.Processors))
}

// leastOfMesh is the same where everybody sends to all others, and nothing else is sent: then every worker has lanes to
// all others, and each mesh of which a node passes on what it gets closes cycles over them. It is for placements in
// which all of the workers have nodes. 0 where there are links, or no such mesh.
func (p *predictor) leastOfMesh(workers int) float64 {
	lookahead := math.Inf(1)
	for _, m := range p.s.Meshes() {
		if m.From >= m.To {
			lookahead = min(lookahead, m.Lookahead)
		}
	}
	if p.s.NumLinks() > 0 || math.IsInf(lookahead, 1) || workers == 1 {
		return 0
	}
	rounds := min(p.epochs, 1/lookahead)
	round := roundOf(float64(workers*(workers-1)), workers, p.run.Processors)
	// Where rounds counts them as none, the work takes a hundred times as long as they do.
	least := min(p.least(workers)+rounds*round, 100*rounds*round)
	return least * (1 - 1e-9) // sums in another order differ
}

// seconds is the predicted time of a simulated second, and how many rounds of messages it takes.
func (p *predictor) seconds(of []int32, workers int) (all, rounds float64) {
	return p.secondsBelow(of, workers, math.Inf(1))
}

// secondsBelow is seconds where that is less than limit. Elsewhere it is some time of at least limit, which is found
// sooner: from the work alone, or from one look whether a cycle closes with which it can't be less.
func (p *predictor) secondsBelow(of []int32, workers int, limit float64) (all, rounds float64) {
	busy := make([]float64, workers)
	for n, w := range of {
		busy[w] += p.shares[n] * p.events * eventSeconds
	}
	eachLink(p.s, func(_ node.SimprocID, k, n, to int) {
		if x, y := of[n], of[to]; x != y {
			rate := p.a.rate(k) * p.a.most
			busy[x] += rate * crossSeconds
			busy[y] += rate * crossSeconds
		}
	})
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
	if work >= limit {
		return work, 0
	}
	f := newFlow(p.s, of, workers, &p.space)
	round := roundOf(float64(len(f.pairs)), f.used, p.run.Processors) // a promise for each lane
	rounds = p.rounds(f, work/round, func(rounds float64) bool { return work+rounds*round >= limit })
	return work + rounds*round, rounds
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
// as long as so many rounds, are none. Where they are tooMany, it is any
// number that is tooMany.
func (p *predictor) rounds(f *flow, work float64, tooMany func(rounds float64) bool) float64 {
	from, _ := slices.BinarySearch(p.steps, 1/p.epochs)
	to, found := slices.BinarySearch(p.steps, 100/work)
	if found {
		to++
	}
	// steps[:to] hold somebody back. Of these, steps[:from] let the next epoch come first.
	from = min(from, to)
	with := func(k int) float64 { // rounds where a cycle closes with steps[k] and none before
		if k < from {
			return p.epochs
		}
		return min(p.epochs, 1/p.steps[k])
	}
	// A cycle that closes while all simprocs are vertices of their own also does where some are one.
	slow := sort.Search(to, func(k int) bool { return !tooMany(with(k)) })
	if slow > 0 && f.closes(p.steps[slow-1]) {
		return with(slow - 1)
	}
	f.merged = f.tooManyClasses()
	if to == 0 || !f.closes(p.steps[to-1]) {
		return 0
	}
	if from > 0 && f.closes(p.steps[from-1]) {
		return p.epochs
	}
	for from+1 < to { // a cycle closes with steps[to-1], and none with steps[from-1]
		if mid := (from + to) / 2; f.closes(p.steps[mid-1]) {
			to = mid
		} else {
			from = mid
		}
	}
	return with(to - 1)
}
