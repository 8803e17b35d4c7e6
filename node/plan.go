// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"slices"
)

// Plan is what one worker has to know about a scenario before a run: which
// simprocs are its own, in which classes they fall, and by which shifts bounds travel
// between lanes and classes. It depends on graph and placement alone, serves all
// replications, and doesn't change.
type Plan struct {
	*Placed
	self    int
	count   int         // of the simprocs here
	local   []SimprocID // by place; nil where that is the id
	classOf []int32     // by place; nil: all in one
	classes []classPlan
	through [][]shift // [in peer][out peer]
	alike   [][]int32 // in peers from which the same leads on to every out peer; those from which nothing does left out
	across  []shift   // [in peer]: what an idle jump allows
	sends   []bool    // [out peer]: there are links to it
	links   *linkPlan // nil: one bound promises for everything to a peer
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
	s, err := Compile(g, nil)
	if err != nil {
		return nil, err
	}
	p, err := s.Place(placement, workers)
	if err != nil {
		return nil, err
	}
	return p.Plan(self, nil)
}

// Plan works out the plan of worker self. It takes time and memory for what that worker
// hosts, and for the links that lead to it or away from it. proceed, when not nil, is called
// now and then; its error ends the work and is returned as it is.
func (p *Placed) Plan(self int, proceed func() error) (*Plan, error) {
	if self < 0 || self >= p.workers {
		return nil, fmt.Errorf("node: worker %d of %d", self, p.workers)
	}
	plan := &Plan{Placed: p, self: self}
	plan.count = p.numOn(self) * len(p.layers)
	if !p.blocks {
		plan.local = p.localOf(self)
	}
	if p.mapped {
		if err := p.checkPart(self, plan.count, plan.hostedAt); err != nil {
			return nil, err
		}
	}
	n := p.workers
	plan.across, plan.sends, plan.through = make([]shift, n), make([]bool, n), make([][]shift, n)
	for peer := range plan.through {
		plan.through[peer] = make([]shift, n)
	}
	if n == 1 {
		plan.classes = []classPlan{plan.newClass(1)}
		return plan, nil
	}
	of := p
	if p.blocks && p.linkStart == nil {
		var err error
		if of, err = p.oneEach(); err != nil {
			return nil, err
		}
	}
	w := newWiring(of, self, of.localOf(self), proceed)
	w.most = plan.count
	return plan, plan.wire(w)
}

// oneEach is p with one node for each worker that has some. Where there are nothing but meshes between nodes of one
// simproc, all of a worker cause and are caused the same, so the shifts are those of p.
func (p *Placed) oneEach() (*Placed, error) {
	var placement []int32
	for w := range p.workers {
		if p.numOn(w) > 0 {
			placement = append(placement, int32(w))
		}
	}
	s := &Structure{layers: p.layers, meshes: p.meshes, nodes: len(placement), shared: make([]uint8, len(placement))}
	return s.Place(placement, p.workers)
}

// localOf are the simprocs of a worker, by rising id.
func (p *Placed) localOf(worker int) []SimprocID {
	local := make([]SimprocID, 0, p.numOn(worker)*len(p.layers))
	for _, n := range p.nodesOn(worker) {
		for r := range p.layers {
			local = append(local, SimprocID(int(n)*len(p.layers)+r))
		}
	}
	return local
}

func (p *Plan) newClass(classes int) classPlan {
	n := p.workers
	return classPlan{in: make([]shift, n), out: make([]shift, n), to: make([]shift, classes),
		outMask: make([]uint64, (n+63)/64)}
}

// findAlike finds in peers from which the same leads on to every out peer. What follows from the bounds of such peers
// is what follows from the least of them, because a shift keeps the order of bounds.
func (p *Plan) findAlike() {
	nothing := make([]shift, p.workers)
	for peer, row := range p.through {
		if slices.Equal(row, nothing) {
			continue
		}
		i := slices.IndexFunc(p.alike, func(peers []int32) bool { return slices.Equal(p.through[peers[0]], row) })
		if i < 0 {
			i, p.alike = len(p.alike), append(p.alike, nil)
		}
		p.alike[i] = append(p.alike[i], int32(peer))
	}
}

// wire sorts the local simprocs into classes and computes all shifts.
func (p *Plan) wire(w *wiring) error {
	n := p.workers
	targets := make([][]int32, n)
	for peer := range n {
		targets[peer] = w.targets(peer)
		p.across[peer] = w.across(peer)
		p.sends[peer] = w.sends(peer)
	}
	members, err := p.sort(w, targets)
	if err != nil {
		return err
	}
	for range members {
		p.classes = append(p.classes, p.newClass(len(members)))
	}
	r := w.newReach()
	for peer := range n {
		if err := w.proceed(); err != nil {
			return err
		}
		w.spread(r, targets[peer], func() bool { return p.shiftsOf(w, r, peer, members) })
	}
	p.findAlike()
	for c := range members {
		if err := w.proceed(); err != nil {
			return err
		}
		k := &p.classes[c]
		w.spread(r, members[c], func() bool { return k.shiftsFrom(w, r, members) })
		for peer := range n {
			if k.out[peer].kind != shiftNone {
				k.outMask[peer/64] |= 1 << (peer % 64)
			}
		}
	}
	return nil
}

// shiftsOf takes from r what follows from the bound of a peer, and tells whether that is settled (wiring.spread).
func (p *Plan) shiftsOf(w *wiring, r *reach, peer int, members [][]int32) (settled bool) {
	settled = true
	for out := range p.workers {
		p.through[peer][out] = w.over(r, out)
		settled = settled && w.settled(p.through[peer][out], out)
	}
	for c := range members {
		p.classes[c].in[peer] = w.to(r, members[c], 0)
		settled = settled && p.classes[c].in[peer].kind == shiftZero
	}
	return settled
}

// shiftsFrom takes from r what follows from the next activation of the class, and tells whether that is settled.
func (k *classPlan) shiftsFrom(w *wiring, r *reach, members [][]int32) (settled bool) {
	settled = true
	for peer := range k.out {
		k.out[peer] = w.over(r, peer)
		settled = settled && w.settled(k.out[peer], peer)
	}
	for d := range members {
		k.to[d] = w.to(r, members[d], 1)
		settled = settled && k.to[d].kind == shiftZero
	}
	return settled
}

// sort groups the local simprocs by the lanes that reach them and that they reach.
func (p *Plan) sort(w *wiring, targets [][]int32) ([][]int32, error) {
	classes := newClasses(len(w.local))
	back := w.edges.reversed()
	for peer := range p.workers {
		if err := w.proceed(); err != nil {
			return nil, err
		}
		classes.split(w.edges.reach(targets[peer]))
		classes.split(back.reach(w.origins(peer)))
		if classes.count > ClassesMax {
			classes = newClasses(len(w.local))
			break
		}
	}
	members := classes.members()
	if len(members) > 1 {
		p.classOf = classes.of
	}
	return members, nil
}

// classes are the simprocs of a worker in sets, numbered in the order of their first
// members.
type classes struct {
	of    []int32 // by place
	count int
}

func newClasses(n int) *classes { return &classes{make([]int32, n), min(n, 1)} }

// split divides every class in two: those that are marked, and the others.
func (c *classes) split(marked []bool) {
	number := make([]int32, 2*c.count) // of each half, + 1
	next := int32(0)
	for i, of := range c.of {
		half := 2 * of
		if marked[i] {
			half++
		}
		if number[half] == 0 {
			next++
			number[half] = next
		}
		c.of[i] = number[half] - 1
	}
	c.count = int(next)
}

func (c *classes) members() [][]int32 {
	size := make([]int, c.count)
	for _, of := range c.of {
		size[of]++
	}
	members := make([][]int32, c.count)
	for k := range members {
		members[k] = make([]int32, 0, size[k])
	}
	for i, of := range c.of {
		members[of] = append(members[of], int32(i))
	}
	return members
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

// Local lists the simprocs that this worker hosts, by rising id. The caller must
// not change it.
func (p *Plan) Local() []SimprocID {
	if p.local != nil {
		return p.local
	}
	return p.localOf(p.self)
}

// hostedAt is the id of the simproc in a place.
func (p *Plan) hostedAt(place int) SimprocID {
	if p.local == nil {
		return SimprocID(p.hostStart[p.self]) + SimprocID(place)
	}
	return p.local[place]
}

// Nodes lists the nodes that this worker hosts, rising. The caller must not change it.
func (p *Plan) Nodes() []uint32 {
	if !p.blocks {
		return p.hosted[p.hostStart[p.self]:p.hostStart[p.self+1]]
	}
	nodes := make([]uint32, 0, p.numOn(p.self))
	for _, n := range p.nodesOn(p.self) {
		nodes = append(nodes, n)
	}
	return nodes
}

// NumHosted is how many simprocs this worker hosts.
func (p *Plan) NumHosted() int { return p.count }

// SendsTo reports whether any link leads to a peer.
func (p *Plan) SendsTo(peer int) bool { return p.sends[peer] }

// ReceivesFrom reports whether any link comes from a peer.
func (p *Plan) ReceivesFrom(peer int) bool { return p.across[peer].kind != shiftNone }
