// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

// A graph of millions of nodes and links is cut into pieces before it is partitioned: stretches of an order of the
// nodes, of equal work. What is sent between any two pieces fits into a table, and the partition of the pieces is that
// of their nodes. Two orders are tried: that of the scenario, and a walk along the links. The one with less traffic
// between pieces is taken.

const (
	// piecesMin is how many pieces there are at the least. Where any two of them exchange something, refining a
	// partition takes a time that grows with the cube of their number.
	piecesMin = 256
	// piecesEach is how many a worker has at the least, so that its work is even.
	piecesEach = 8
)

// pieces are sets of nodes that are assigned as one.
type pieces struct {
	of    []int32   // by node
	pin   []int32   // by piece
	work  []float64 // by piece
	table []float64 // by piece × piece, the lower number first: what a border between them costs
	apart float64   // sum of table
}

// inPieces fills of with the method MinCut.
func (a *assignment) inPieces(pinned bool) error {
	if err := a.weigh(); err != nil {
		return err
	}
	root, err := a.tight()
	if err != nil {
		return err
	}
	orders := [][]int32{inOrder(len(a.of))}
	err = atOnce(a.findCycles, func() error {
		if a.s.NumLinks() > 0 {
			orders = append(orders, a.walk())
		}
		return nil
	})
	if err != nil {
		return err
	}
	work := a.weights()
	divided, calls := make([]*pieces, len(orders)), make([]func() error, len(orders))
	for i, order := range orders {
		calls[i] = func() error {
			divided[i] = a.divide(order, root, work)
			return a.fillTable(divided[i])
		}
	}
	if err := atOnce(calls...); err != nil {
		return err
	}
	best := divided[0]
	for _, p := range divided[1:] {
		if p.apart < best.apart {
			best = p
		}
	}
	pins := slices.Clone(a.of)
	best.assign(a.of, a.workers)
	if pinned {
		return nil
	}
	if err := a.fewerPieces(best, pins); err != nil {
		return err
	}
	return a.proceed()
}

// nodeSeconds is what a node takes beside its events, to be made and to report: a service's server, as measured.
const nodeSeconds = 4e-6

// weights is what the pieces of a run divide evenly: the expected work of every node, and what it takes beside that, in
// units of all events. Millions of nodes that each handle a few events take longer to be made than to be simulated.
func (a *assignment) weights() []float64 {
	work := newWorks(a.s).expected()
	if a.most == 0 {
		return work // nothing says how long the events take
	}
	sum := 0.0
	for _, w := range work {
		sum += w
	}
	// At the most as much as all events, so that sums can't overflow: work hardly counts then.
	each := min(1, nodeSeconds/(a.events*a.run.Seconds*eventSeconds))
	for n := range work {
		work[n] = work[n]/sum + each
	}
	return work
}

// fewerPieces leaves workers empty where all of them would wait for each other at nearly every event, or where the run
// would take several times as long as over fewer.
func (a *assignment) fewerPieces(p *pieces, pins []int32) error {
	if least := a.s.LeastLookahead(); math.IsInf(least, 1) || a.most == 0 || !a.manyRounds(1/least) {
		return nil
	}
	predict, err := newPredictor(a)
	if err != nil || !predict.known() {
		return err
	}
	all, rounds := predict.seconds(a.of, a.workers)
	if !predict.everyEvent(rounds) && predict.run.near(all, predict.least(a.workers)) {
		return nil
	}
	best, before := all, slices.Clone(a.of)
	for fewer := a.workers / 2; fewer >= 1 && predict.least(fewer) < best; fewer /= 2 {
		if err := a.proceed(); err != nil {
			return err
		}
		try := slices.Clone(pins)
		p.assign(try, fewer)
		if seconds, _ := predict.seconds(try, fewer); seconds < best {
			best = seconds
			copy(a.of, try)
		}
	}
	if !predict.everyEvent(rounds) && predict.run.near(all, best) {
		copy(a.of, before)
		return nil
	}
	a.saved = all / best
	return nil
}

// manyRounds tells whether so many rounds of messages in a simulated second, the most that there can be, are worth a
// prediction, which takes long for a large graph.
func (a *assignment) manyRounds(rounds float64) bool {
	events := a.events
	lanes := float64(a.workers) * float64(a.workers-1)
	cost := rounds * roundOf(lanes, a.workers, a.run.Processors)
	work := events * eventSeconds / float64(min(a.workers, a.run.Processors))
	return rounds*eventsFew > events || cost > (turnsFactor-1)*work
}

// tight gives every node the first one of those that it stays together with (tightGroups).
func (a *assignment) tight() ([]int32, error) {
	root := inOrder(len(a.of))
	between := 0x1p-1022
	if a.most > 0 {
		between = a.run.tight(a.events)
	}
	if a.s.LeastLookahead() > between {
		return root, nil
	}
	c, err := newCycles(a.s, between, a.proceed)
	if err != nil {
		return nil, err
	}
	if c.every {
		a.cycles = c // findCycles would find the same once more
	}
	find := func(n int32) int32 {
		for root[n] != n {
			root[n] = root[root[n]]
			n = root[n]
		}
		return n
	}
	err = a.eachLink(func(from node.SimprocID, k, n, to int) {
		if n == to || !c.has(from, k) {
			return
		}
		if x, y := find(int32(n)), find(int32(to)); x != y {
			root[max(x, y)] = min(x, y)
		}
	})
	pin := slices.Clone(a.of)
	for n := range root {
		first := find(int32(n))
		root[n] = first
		switch p := a.of[n]; {
		case p == free || p == pin[first]:
		case pin[first] == free:
			pin[first] = p
		default: // pinned to different workers: they can't stay together
			return inOrder(len(a.of)), err
		}
	}
	return root, err
}

// walk visits every node once along the links, as mesh.depthFirst does.
func (a *assignment) walk() []int32 {
	layers := len(a.s.Simprocs())
	order, seen := make([]int32, 0, len(a.of)), make([]bool, len(a.of))
	next := make([]uint32, len(a.of))    // link to look at next, from the node's first
	stack := make([]int32, 0, len(a.of)) // so deep where each node leads to one that hasn't been seen
	visit := func(n int32) {
		if !seen[n] {
			seen[n] = true
			order, stack = append(order, n), append(stack, n)
		}
	}
	for root := range int32(len(a.of)) {
		visit(root)
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			// The links of a node's simprocs lie behind one another.
			first, _ := a.s.LinksOf(node.SimprocID(int(n) * layers))
			_, end := a.s.LinksOf(node.SimprocID(int(n)*layers + layers - 1))
			k := first + int(next[n])
			if k == end {
				stack = stack[:len(stack)-1]
				continue
			}
			next[n]++
			visit(int32(a.s.Node(a.s.To(k))))
		}
	}
	return order
}

// divide cuts an order of the nodes into pieces. Nodes of one root, and of one pin, come to one piece.
func (a *assignment) divide(order, root []int32, work []float64) *pieces {
	all := 0.0
	for _, w := range work {
		all += w
	}
	p := &pieces{of: slices.Repeat([]int32{free}, len(order))}
	share := all / float64(max(piecesMin, piecesEach*a.workers))
	current := slices.Repeat([]int32{free}, a.workers+1) // by pin + 1: the piece that is filled
	pin := slices.Clone(a.of)
	for n, w := range a.of {
		if w != free {
			pin[root[n]] = w
		}
	}
	for _, n := range order {
		first := root[n]
		at := p.of[first]
		if at == free {
			at = current[pin[first]+1]
			if at == free || p.work[at] >= share {
				at = int32(len(p.work))
				current[pin[first]+1] = at
				p.work, p.pin = append(p.work, 0), append(p.pin, pin[first])
			}
			p.of[first] = at
		}
		p.of[n] = at
		p.work[at] += work[n]
	}
	return p
}

// fillTable adds up the costs of links between pieces.
func (a *assignment) fillTable(p *pieces) error {
	n := len(p.work)
	p.table = make([]float64, n*n)
	perEvent := 0.0
	if a.most > 0 {
		perEvent = a.events / a.most
	}
	err := a.eachLink(func(from node.SimprocID, k, x, y int) {
		i, j := int(p.of[x]), int(p.of[y])
		if i == j {
			return
		}
		cost := a.rate(k)
		if l := a.s.Lookahead(k); l > 0 && a.most > 0 && a.cycles.has(from, k) {
			cost += a.run.exchange() * min(1/(l*a.most), perEvent, eventsMax) // linkCosts has the reason
		}
		p.table[min(i, j)*n+max(i, j)] += cost
		p.apart += cost
	})
	return err
}

// assign gives every free node the worker of its piece.
func (p *pieces) assign(of []int32, workers int) {
	n := len(p.work)
	var ties []tie
	for i := range n {
		for j := i + 1; j < n; j++ {
			if cost := p.table[i*n+j]; cost > 0 {
				ties = append(ties, tie{int32(i), int32(j), cost}, tie{int32(j), int32(i), cost})
			}
		}
	}
	size := make([]int32, n)
	for _, at := range p.of {
		size[at]++
	}
	m := buildMesh(p.work, slices.Clone(p.pin), size, ties)
	part := slices.Clone(p.pin)
	m.bisectionOrBlocks(workers, part, func(tie func(a, b int32, rate float64)) {
		for i := range n {
			for j := i + 1; j < n; j++ {
				tie(int32(i), int32(j), p.table[i*n+j])
			}
		}
	})
	for at, piece := range p.of {
		of[at] = part[piece]
	}
}
