// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
)

// Plan is what one worker has to know about a scenario before a run: which
// simprocs are its own, in which classes they fall, and by which shifts bounds travel
// between lanes and classes. It depends on graph and placement alone, serves all
// replications, and doesn't change.
type Plan struct {
	graph     *Graph
	placement []int32 // worker of each node
	self      int
	workers   int
	levels    []uint32
	orders    []uint32 // by dense id: rank of the simproc in (level, id)
	local     []SimprocID
	classOf   []int32 // by local index
	classes   []classPlan
	through   [][]shift // [in peer][out peer]
	across    []shift   // [in peer]: what an idle jump allows
	sends     []bool    // [out peer]: there are links to it
	links     *linkPlan // nil: one bound promises for everything to a peer
}

// classPlan is a set of simprocs that the same lanes can reach and that reach the
// same lanes. Within a class work is done in one order; one class may run ahead of
// another in simulated time.
type classPlan struct {
	in      []shift  // [peer]: from an event on its lane to an activation here
	out     []shift  // [peer]: from an activation here to an event on its lane
	to      []shift  // [class]: from an activation here to one there
	outMask []uint64 // peers that it can reach
}

// ClassesMax bounds the number of classes: the Engine looks at every class for
// every activation. Beyond it all simprocs form one class, which is always right.
const ClassesMax = 16

// NewPlan checks the graph and works out the plan of worker self. placement names
// the worker of every node.
func NewPlan(g *Graph, placement []int32, self, workers int) (*Plan, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	levels, err := g.Levels()
	if err != nil {
		return nil, err
	}
	if workers < 1 || self < 0 || self >= workers || len(placement) != len(g.Nodes) {
		return nil, fmt.Errorf("node: worker %d of %d with a placement of %d nodes, but the scenario has %d", self,
			workers, len(placement), len(g.Nodes))
	}
	for n, w := range placement {
		if w < 0 || int(w) >= workers {
			return nil, fmt.Errorf("node: node %q is placed on worker %d, want 0 to %d", g.Nodes[n].Name, w, workers-1)
		}
	}
	p := &Plan{graph: g, placement: placement, self: self, workers: workers, levels: levels, orders: ordersOf(levels)}
	w := newWiring(g, levels, placement, self, workers)
	p.local = w.local
	p.wire(w)
	return p, nil
}

// ordersOf ranks the dense ids by (level, id): one number to compare instead of two.
func ordersOf(levels []uint32) []uint32 {
	top := uint32(0)
	for _, l := range levels {
		top = max(top, l)
	}
	next := make([]uint32, top+2)
	for _, l := range levels {
		next[l+1]++
	}
	for l := 1; l < len(next); l++ {
		next[l] += next[l-1]
	}
	orders := make([]uint32, len(levels))
	for id, l := range levels {
		orders[id] = next[l]
		next[l]++
	}
	return orders
}

// wire sorts the local simprocs into classes and computes all shifts.
func (p *Plan) wire(w *wiring) {
	n := p.workers
	fromLane := make([]reach, n)
	p.across, p.sends, p.through = make([]shift, n), make([]bool, n), make([][]shift, n)
	for peer := 0; peer < n; peer++ {
		lane := &w.lanes[peer]
		fromLane[peer] = w.spread(w.targets(lane))
		p.across[peer] = w.across(lane)
		p.sends[peer] = len(w.origins(lane)) > 0
	}
	members := p.sort(w, fromLane)
	for peer := 0; peer < n; peer++ {
		p.through[peer] = make([]shift, n)
		for out := 0; out < n; out++ {
			p.through[peer][out] = w.over(fromLane[peer], &w.lanes[out])
		}
	}
	for c := range members {
		r := w.spread(members[c])
		k := classPlan{in: make([]shift, n), out: make([]shift, n), to: make([]shift, len(members)),
			outMask: make([]uint64, (n+63)/64)}
		for peer := 0; peer < n; peer++ {
			k.in[peer] = w.to(fromLane[peer], members[c], 0)
			k.out[peer] = w.over(r, &w.lanes[peer])
			if k.out[peer].kind != shiftNone {
				k.outMask[peer/64] |= 1 << (peer % 64)
			}
		}
		for d := range members {
			k.to[d] = w.to(r, members[d], 1)
		}
		p.classes = append(p.classes, k)
	}
}

// sort groups the local simprocs by the lanes that reach them and that they reach.
func (p *Plan) sort(w *wiring, fromLane []reach) [][]int {
	reaches := w.reversed()
	names := make([][]byte, len(w.local)) // two marks a peer
	for peer := 0; peer < p.workers; peer++ {
		back := reaches(w.origins(&w.lanes[peer]))
		for i := range names {
			names[i] = append(names[i], oneIf(!math.IsInf(fromLane[peer].dist[i], 1)), oneIf(back[i]))
		}
	}
	number := make(map[string]int32)
	p.classOf = make([]int32, len(w.local))
	for i, name := range names {
		c, ok := number[string(name)]
		if !ok {
			c = int32(len(number))
			number[string(name)] = c
		}
		p.classOf[i] = c
	}
	count := len(number)
	if count > ClassesMax {
		count = 1
		clear(p.classOf)
	}
	members := make([][]int, count)
	for i, c := range p.classOf {
		members[c] = append(members[c], i)
	}
	return members
}

func oneIf(yes bool) byte {
	if yes {
		return '1'
	}
	return '0'
}

// reversed prepares going backwards over the worker's steps and returns a function
// that marks all simprocs that can reach one of the given ones.
func (w *wiring) reversed() func(ends []int) []bool {
	back := make([][]int32, len(w.edges))
	for from, edges := range w.edges {
		for _, e := range edges {
			back[e.to] = append(back[e.to], int32(from))
		}
	}
	return func(ends []int) []bool {
		seen := make([]bool, len(w.edges))
		var todo []int32
		add := func(i int32) {
			if !seen[i] {
				seen[i] = true
				todo = append(todo, i)
			}
		}
		for _, i := range ends {
			add(int32(i))
		}
		for len(todo) > 0 {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, from := range back[at] {
				add(from)
			}
		}
		return seen
	}
}

// Pace is how far a worker may go, in simulated seconds, before it should promise its
// peers: half of the least lookahead on its ways to them. +Inf when no way has
// lookahead. Telling them only at the window's end makes workers alternate; telling them
// more often than twice costs more than it brings (docs/sync.md, "Publishing").
func (p *Plan) Pace() float64 {
	pace := math.Inf(1)
	for c := range p.classes {
		for _, h := range p.classes[c].out {
			if h.kind == shiftAhead {
				pace = min(pace, h.lookahead/2)
			}
		}
	}
	return pace
}

// Graph is the scenario's structure.
func (p *Plan) Graph() *Graph { return p.graph }

// Local lists the simprocs that this worker hosts, by rising id. The caller must
// not change it.
func (p *Plan) Local() []SimprocID { return p.local }

// SendsTo reports whether any link leads to a peer.
func (p *Plan) SendsTo(peer int) bool { return p.sends[peer] }

// ReceivesFrom reports whether any link comes from a peer.
func (p *Plan) ReceivesFrom(peer int) bool { return p.across[peer].kind != shiftNone }
