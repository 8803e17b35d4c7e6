// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

const (
	// eventsFew is how many events there are between two rounds of messages of a placement that is not left as it is:
	// hardly more than the one that the round was for.
	eventsFew = 2
	// slowFactor is how many times as long as over fewer workers a placement may take that is left as it is, because
	// the number of workers is what somebody has asked for. Workers that each have a processor may take more: where
	// events are dearer than eventSeconds, waits weigh less. Turns on one processor never pay.
	slowFactor  = 4.0
	turnsFactor = 1.5
	// secondsFew is what nobody gives workers up for.
	secondsFew = 10e-3
	// moveSteps bounds what that may cost, in vertices and edges that are looked at: a tenth of a second.
	moveSteps = 5_000_000
	// allCounts is up to how many nodes and links, times the workers, every smaller number of workers is tried: a
	// fifth of a second. Beyond it, it is every half, so that placing takes no more than twice as long.
	allCounts = 100_000
)

// fastest fills of with the min-cut over all workers. Where workers would wait for each other at nearly every event, or
// the run would take several times as long as over fewer, it takes the placement that is predicted to be fastest
// instead: with single nodes moved, or over fewer workers while the others stay empty. With pinned nodes, all workers
// get something. It returns how many times as long the placement would have taken that all workers have a part in.
func fastest(g *node.Graph, p *predictor, of []int32, cyclic []bool, pinned bool) (saved float64) {
	workers, pins := p.run.Workers, slices.Clone(of)
	minCut(g, p.run, workers, of, cyclic)
	if workers == 1 || !p.known() || !complete(of, workers) {
		return 1
	}
	all, rounds := p.seconds(of, workers)
	if !p.everyEvent(rounds) && (pinned || p.run.near(all, p.least(workers))) {
		return 1
	}
	moved := slices.Clone(of)
	best := p.improve(moved, workers, pins, pinned)
	fewest, reached := moved, p.reached(g, pins, cyclic)
	for _, fewer := range p.counts(workers) {
		if pinned || p.least(fewer) >= best || p.leastOfMesh(fewer) > reached {
			continue
		}
		try := slices.Clone(pins)
		minCut(g, p.run, fewer, try, cyclic)
		if seconds := p.improve(try, fewer, pins, false); seconds < best {
			best, fewest = seconds, try
		}
	}
	if !p.everyEvent(rounds) && p.run.near(all, best) {
		return 1
	}
	copy(of, fewest)
	if pinned {
		return 1
	}
	emptyLast(of, workers)
	return all / best
}

// reached is the time of a placement over as many workers as run at once, where leastOfMesh knows more than least: most
// other numbers needn't be tried then. Where there are links it is +Inf.
func (p *predictor) reached(g *node.Graph, pins []int32, cyclic []bool) float64 {
	few := min(p.run.Workers, p.run.Processors)
	if p.leastOfMesh(few) == 0 {
		return math.Inf(1)
	}
	try := slices.Clone(pins)
	minCut(g, p.run, few, try, cyclic)
	seconds, _ := p.seconds(try, few)
	return seconds
}

// near tells whether a placement over all workers is left as it is where another one takes best.
func (r Run) near(all, best float64) bool {
	factor := slowFactor
	if r.Workers > r.Processors {
		factor = turnsFactor
	}
	return all <= factor*best || (all-best)*r.Seconds <= secondsFew
}

// counts are the smaller numbers of workers to try.
func (p *predictor) counts(workers int) (counts []int) {
	few := (p.s.NumNodes()+p.s.NumLinks())*workers <= allCounts
	for n := workers - 1; n >= 1; n-- {
		if few || n == p.run.Processors || n&(n-1) == 0 {
			counts = append(counts, n)
		}
	}
	return counts
}

// emptyLast numbers the workers anew so that those without a node come last.
func emptyLast(of []int32, workers int) {
	number, next := slices.Repeat([]int32{free}, workers), int32(0)
	for w := range number {
		if slices.Contains(of, int32(w)) {
			number[w], next = next, next+1
		}
	}
	for n, w := range of {
		of[n] = number[w]
	}
}

// complete tells whether every worker has a node.
func complete(of []int32, workers int) bool {
	has := make([]bool, workers)
	for _, w := range of {
		has[w] = true
	}
	return !slices.Contains(has, false)
}

// improve moves single nodes to workers of their neighbours, the best move first, while that makes the run faster, and
// returns its predicted time. With full, every worker keeps a node.
func (p *predictor) improve(of []int32, workers int, pins []int32, full bool) float64 {
	best, _ := p.seconds(of, workers)
	each := p.s.NumSimprocs() + workers*workers + 2*p.s.NumLinks() + 2*p.s.NumNodes()*len(p.mesh)
	for p.left > 0 {
		node, to := -1, int32(0)
		for _, m := range p.moves(of, pins) {
			if p.left -= each; p.left <= 0 {
				break
			}
			from := of[m.n]
			if of[m.n] = m.to; full && !complete(of, workers) {
				of[m.n] = from
				continue
			}
			if seconds, _ := p.secondsBelow(of, workers, best); seconds < best {
				best, node, to = seconds, int(m.n), m.to
			}
			of[m.n] = from
		}
		if node < 0 {
			break
		}
		of[node] = to
	}
	return best
}

// everyEvent tells whether there is a round of messages for nearly every event.
func (p *predictor) everyEvent(rounds float64) bool { return rounds*eventsFew > p.events }

// placed is a node and the worker that it may move to.
type placed struct{ n, to int32 }

// moves are all nodes that nobody pinned, each to every other worker that it has a link with.
func (p *predictor) moves(of, pins []int32) []placed {
	var all []placed
	eachLink(p.s, func(_ node.SimprocID, _, n, to int) {
		a, b := int32(n), int32(to)
		if of[a] == of[b] {
			return
		}
		if pins[a] == free {
			all = append(all, placed{a, of[b]})
		}
		if pins[b] == free {
			all = append(all, placed{b, of[a]})
		}
	})
	slices.SortFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.to, b.to)) })
	return slices.Compact(all)
}
