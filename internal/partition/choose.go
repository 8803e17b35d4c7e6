// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"slices"

	"github.com/disco-sim/disco/node"
)

const (
	// eventsFew is how many events there are between two rounds of messages of a placement that is not left as it is:
	// hardly more than the one that the round was for.
	eventsFew = 2
	// moveSteps bounds what that may cost, in vertices and edges that are looked at: a tenth of a second.
	moveSteps = 5_000_000
)

// fastest fills of with the min-cut over all workers. Where workers would wait for each other at nearly every event, it
// takes the placement that is predicted to be fastest instead: with single nodes moved, or over fewer workers while the
// others stay empty. With pinned nodes, all workers get something.
func fastest(g *node.Graph, workers int, of []int32, cyclic []bool, pinned bool) {
	p := newPredictor(g)
	pins := slices.Clone(of)
	minCut(g, workers, of, cyclic)
	if workers == 1 || !p.known() || !complete(of, workers) {
		return
	}
	if _, rounds := p.seconds(of, workers); !p.everyEvent(rounds) {
		return
	}
	best := p.improve(of, workers, pins, pinned)
	if pinned {
		return
	}
	for fewer := workers - 1; fewer >= 1 && p.least(fewer) < best; fewer-- {
		try := slices.Clone(pins)
		minCut(g, fewer, try, cyclic)
		if seconds := p.improve(try, fewer, pins, false); seconds < best {
			best = seconds
			copy(of, try)
		}
	}
	emptyLast(of, workers)
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
	each := p.g.NumSimprocs() + workers*workers + 2*len(p.g.Links) + 2*len(p.g.Nodes)*len(p.g.Meshes)
	for steps := 0; steps < moveSteps; {
		node, to := -1, int32(0)
		for _, m := range p.moves(of, pins) {
			if steps += each; steps >= moveSteps {
				break
			}
			from := of[m.n]
			if of[m.n] = m.to; full && !complete(of, workers) {
				of[m.n] = from
				continue
			}
			if seconds, _ := p.seconds(of, workers); seconds < best {
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
	for i := range p.g.Links {
		a, b := int32(p.g.Links[i].From.Node), int32(p.g.Links[i].To.Node)
		if of[a] == of[b] {
			continue
		}
		if pins[a] == free {
			all = append(all, placed{a, of[b]})
		}
		if pins[b] == free {
			all = append(all, placed{b, of[a]})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.to, b.to)) })
	return slices.Compact(all)
}
