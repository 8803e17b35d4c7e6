// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"slices"
	"sync"

	"github.com/disco-sim/disco/node"
)

// assignment is a partition under construction.
type assignment struct {
	s       *node.Structure
	run     Run
	workers int
	of      []int32      // worker of each node, or free
	saved   float64      // Partition.Saved
	proceed func() error // one call at a time
	weighed bool         // the next three are known
	most    float64      // the largest rate known of a link or mesh, 0: none is
	mean    float64      // weight of links whose rate isn't known
	events  float64      // of a simulated second: those on all links, or those that the nodes say they handle, if more
	cycles  *cycles      // of all lookaheads; nil: not looked for yet
}

func newAssignment(s *node.Structure, run Run, of []int32, proceed func() error) *assignment {
	if proceed == nil {
		proceed = func() error { return nil }
	}
	var mu sync.Mutex // whoever gave proceed doesn't expect two calls at a time
	return &assignment{s: s, run: run, workers: run.Workers, of: of, saved: 1, proceed: func() error {
		mu.Lock()
		defer mu.Unlock()
		return proceed()
	}}
}

// figures is the finished partition.
func (a *assignment) figures() (*Partition, error) {
	p := &Partition{Workers: a.workers, Of: a.of, Work: make([]float64, a.workers), Nodes: make([]int, a.workers),
		Lookahead: math.Inf(1), Saved: a.saved}
	works := newWorks(a.s)
	for n, w := range a.of {
		p.Work[w] += works.share(n)
		p.Nodes[w]++
	}
	if a.workers == 1 {
		return p, nil
	}
	if slices.Min(a.of) == slices.Max(a.of) {
		return p, nil
	}
	if err := a.predict(p); err != nil {
		return nil, err
	}
	for _, m := range a.s.Meshes() {
		p.Lookahead = min(p.Lookahead, m.Lookahead)
	}
	if err := a.findCycles(); err != nil {
		return nil, err
	}
	return p, a.cut(p)
}

// predict fills in what the partition is predicted to cost, unless the graph is so large that this would take long.
func (a *assignment) predict(p *Partition) error {
	if a.s.NumNodes()+a.s.NumLinks() > listedMax {
		return nil
	}
	predict, err := newPredictor(a)
	if err == nil && predict.known() {
		seconds, rounds := predict.seconds(a.of, a.workers)
		p.Rounds, p.Slowdown = rounds/predict.events, seconds/predict.least(1)
	}
	return err
}

// eachLink visits all links, by rising sender.
func (a *assignment) eachLink(visit func(from node.SimprocID, link, fromNode, toNode int)) error {
	return a.linksOf(0, a.s.NumNodes(), visit)
}

// linksOf visits the links that leave some nodes, begin to end-1, by rising sender.
func (a *assignment) linksOf(begin, end int, visit func(from node.SimprocID, link, fromNode, toNode int)) error {
	const stretch = 1 << 12
	for ; begin < end && a.s.NumLinks() > 0; begin += stretch {
		linksOf(a.s, begin, min(begin+stretch, end), visit)
		if end-begin > stretch {
			if err := a.proceed(); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachLink visits all links of a structure, by rising sender.
func eachLink(s *node.Structure, visit func(from node.SimprocID, link, fromNode, toNode int)) {
	if s.NumLinks() > 0 {
		linksOf(s, 0, s.NumNodes(), visit)
	}
}

func linksOf(s *node.Structure, begin, end int, visit func(from node.SimprocID, link, fromNode, toNode int)) {
	layers := len(s.Simprocs())
	for n := begin; n < end; n++ {
		for r := range layers {
			from := node.SimprocID(n*layers + r)
			first, end := s.LinksOf(from)
			for k := first; k < end; k++ {
				to := int(s.To(k))
				if layers > 1 {
					to /= layers
				}
				visit(from, k, n, to)
			}
		}
	}
}

func (a *assignment) findCycles() (err error) {
	if a.cycles == nil {
		a.cycles, err = newCycles(a.s, math.MaxFloat64, a.proceed)
	}
	return err
}

// weigh finds the unit of rates: they are added up in that of the busiest link or mesh, so that no sum overflows.
func (a *assignment) weigh() error {
	if a.weighed {
		return nil
	}
	most, err := eachStretch(a, func(most *float64, _ node.SimprocID, k, n, to int) {
		if r := a.s.Rate(k); n != to && known(r) {
			*most = max(*most, r)
		}
	})
	if err != nil {
		return err
	}
	for _, m := range most {
		a.most = max(a.most, m)
	}
	for _, m := range a.s.Meshes() {
		if known(m.Rate) {
			a.most = max(a.most, m.Rate)
		}
	}
	type rates struct {
		sum            float64
		known, unknown int
	}
	stretches, err := eachStretch(a, func(s *rates, _ node.SimprocID, k, n, to int) {
		switch r := a.s.Rate(k); {
		case n == to:
		case known(r):
			s.sum += r / a.most
			s.known++
		default:
			s.unknown++
		}
	})
	var all rates
	for _, s := range stretches {
		all.sum, all.known, all.unknown = all.sum+s.sum, all.known+s.known, all.unknown+s.unknown
	}
	a.mean = 1
	if all.known > 0 {
		a.mean = all.sum / float64(all.known)
	}
	a.countEvents(all.sum + float64(all.unknown)*a.mean)
	a.weighed = err == nil
	return err
}

// countEvents fills in how many events a simulated second has; onLinks is the weight of all links together.
func (a *assignment) countEvents(onLinks float64) {
	work := 0.0
	for n := range a.s.NumNodes() {
		work += a.s.Work(n)
	}
	for _, m := range a.s.Meshes() {
		onLinks += a.meshRate(m)
	}
	a.events = max(work, onLinks*a.most)
}

// rate is the weight of a link to another node, 0 to 1: its rate, or the mean of the known ones.
func (a *assignment) rate(k int) float64 {
	if r := a.s.Rate(k); known(r) {
		return r / a.most
	}
	return a.mean
}

// meshRate is the weight of a mesh, all its nodes together.
func (a *assignment) meshRate(m node.Mesh) float64 {
	rate := float64(a.s.NumNodes())
	if known(m.Rate) {
		rate *= m.Rate / a.most
	}
	return rate
}

// cut fills in what runs between workers: the least lookahead of links on a cycle, and the share of the traffic between
// different nodes. The nodes of a mesh send to all others alike.
func (a *assignment) cut(p *Partition) error {
	if err := a.weigh(); err != nil {
		return err
	}
	stretches, err := eachStretch(a, func(s *cutSum, from node.SimprocID, k, n, to int) {
		if n == to {
			return
		}
		rate := a.rate(k)
		s.all += rate
		if a.of[n] != a.of[to] {
			s.cut += rate
			if l := a.s.Lookahead(k); l < s.least() && a.cycles.has(from, k) {
				s.found, s.lookahead = true, l
			}
		}
	})
	all, cut := 0.0, 0.0
	for i := range stretches {
		s := &stretches[i]
		all, cut, p.Lookahead = all+s.all, cut+s.cut, min(p.Lookahead, s.least())
	}
	if meshes := a.s.Meshes(); len(meshes) > 0 && len(a.of) > 1 {
		away := shareAway(a.of)
		for _, m := range meshes {
			rate := a.meshRate(m)
			all += rate
			cut += rate * away
		}
	}
	if all > 0 {
		p.Cut = cut / all
	}
	return err
}

// cutSum is what eachStretch adds up for cut.
type cutSum struct {
	all, cut  float64
	found     bool
	lookahead float64
}

// least is the least lookahead found, +Inf without any.
func (s *cutSum) least() float64 {
	if !s.found {
		return math.Inf(1)
	}
	return s.lookahead
}

// blocks fills of with the method Block.
func (a *assignment) blocks() {
	d := newBlocks(a.workers, a.of, newWorks(a.s).expected(), inOrder(len(a.of)))
	_ = a.weigh() // only proceed fails, and then so do the figures
	_ = a.eachLink(func(_ node.SimprocID, k, n, to int) {
		if n != to {
			d.tie(int32(n), int32(to), a.rate(k))
		}
	})
	d.assign()
}

// listedMax is the largest graph, in nodes and links, that minCut looks at node by node: some seconds of work. Larger
// ones are cut into pieces first.
const listedMax = 1 << 19

// minCut fills of with the method MinCut.
func (a *assignment) minCut(pinned bool) error {
	if a.s.NumNodes()+a.s.NumLinks() > listedMax {
		return a.inPieces(pinned)
	}
	predict, err := newPredictor(a)
	if err != nil {
		return err
	}
	g := list(a.s)
	a.saved = fastest(g, predict, a.of, cyclicLinks(g, math.MaxFloat64), pinned)
	return nil
}

// list is the graph of a structure, without the names of its nodes. Its links are in the structure's order, whatever
// the order in which the scenario lists them: sums of floats depend on it, and partitions on the sums.
func list(s *node.Structure) *node.Graph {
	g := &node.Graph{Simprocs: s.Simprocs(), Meshes: s.Meshes(), Epochs: s.Epochs(),
		Nodes: make([]node.Node, s.NumNodes()), Links: make([]node.Link, 0, s.NumLinks())}
	for n := range g.Nodes {
		g.Nodes[n] = node.Node{Work: s.Work(n), Shared: s.Shared(n)}
	}
	for id := range node.SimprocID(s.NumSimprocs()) {
		first, end := s.LinksOf(id)
		for k := first; k < end; k++ {
			g.Links = append(g.Links, node.Link{From: s.Endpoint(id), To: s.Endpoint(s.To(k)),
				Lookahead: s.Lookahead(k), Rate: s.Rate(k)})
		}
	}
	return g
}
