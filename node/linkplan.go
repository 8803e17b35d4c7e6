// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// LinksMax bounds the links between workers whose promises are sent one by one: each is
// looked at in every pass of its sender's duty cycle, and its promises are records of 48
// bytes. 2^16 of them are some 0.3 ms for a pass, and 3 MB where all have risen.
const LinksMax = 1 << 16

// linkPlan is what one worker has to know to promise link by link. Places are the worker's
// simprocs by rising id, as in Plan.local, and behind them one hub for each mesh.
type linkPlan struct {
	edges edges         // by place: steps within the worker
	in    [][]crossing  // by place: links from simprocs of other workers
	out   [][]crossing  // by place: links to simprocs of other workers, by rising id
	byOut [][]placeLink // by peer: the links of out
}

// crossing is all declared links from one simproc to another one on another worker.
type crossing struct {
	far       SimprocID // the simproc on the other worker
	peer      int       // that worker
	lookahead float64   // the least of all
	mesh      bool      // one of them belongs to a mesh
}

// placeLink is out[place][index] of a linkPlan.
type placeLink struct{ place, index int }

// CountLinks is the number of links between simprocs on different workers, several between
// the same two counted once for each declaration.
func (p *Placed) CountLinks() int {
	n := len(p.crossing)
	for w := range p.workers {
		k := p.numOn(w)
		n += len(p.meshes) * k * (p.nodes - k)
	}
	return n
}

// CheckLinks refuses a scenario and a placement with more links between workers than can
// be promised one by one.
func (p *Placed) CheckLinks() error {
	if n := p.CountLinks(); n > LinksMax {
		return fmt.Errorf("node: %d links lead from one worker to another, at most %d can have promises of their "+
			"own: use --sync lane", n, LinksMax)
	}
	return nil
}

// PromiseByLink makes workers promise link by link, after Chandy, Misra and Bryant, instead
// of by one bound for everything that goes from one worker to another. It must be called
// for the plans of all workers or of none, before an Engine is made of them.
func (p *Plan) PromiseByLink() error {
	if err := p.CheckLinks(); err != nil {
		return err
	}
	w := newWiring(p.Placed, p.self, p.Local(), nil)
	l := &linkPlan{edges: w.edges, in: make([][]crossing, len(w.local)), out: make([][]crossing, len(w.local)),
		byOut: make([][]placeLink, p.workers)}
	for peer := range p.workers {
		for _, k := range p.lane(p.self, peer) {
			place := p.placeOf(SimprocID(k.from))
			l.out[place] = append(l.out[place], crossing{SimprocID(p.linkTo[k.link]), peer, p.lookahead[k.link], false})
		}
		for _, k := range p.lane(peer, p.self) {
			place := p.placeOf(SimprocID(p.linkTo[k.link]))
			l.in[place] = append(l.in[place], crossing{SimprocID(k.from), peer, p.lookahead[k.link], false})
		}
		l.addMeshes(p, peer)
	}
	for place := range l.out {
		l.in[place], l.out[place] = merge(l.in[place]), merge(l.out[place])
		for i, c := range l.out[place] {
			l.byOut[c.peer] = append(l.byOut[c.peer], placeLink{place, i})
		}
	}
	p.links = l
	return nil
}

// addMeshes files the links of all meshes: between each node here and each on a peer.
func (l *linkPlan) addMeshes(p *Plan, peer int) {
	if peer == p.self {
		return
	}
	for _, far := range p.nodesOn(peer) {
		for i := 0; i < p.count; i += len(p.layers) {
			for _, m := range p.meshes {
				out, in := &l.out[i+m.From], &l.in[i+m.To]
				*out = append(*out, crossing{p.ID(Endpoint{int(far), m.To}), peer, m.Lookahead, true})
				*in = append(*in, crossing{p.ID(Endpoint{int(far), m.From}), peer, m.Lookahead, true})
			}
		}
	}
}

// merge sorts crossings by their far ends and joins those with the same one.
func merge(all []crossing) []crossing {
	slices.SortFunc(all, func(a, b crossing) int { return cmp.Compare(a.far, b.far) })
	joined := all[:0]
	for _, c := range all {
		if n := len(joined); n > 0 && joined[n-1].far == c.far {
			joined[n-1].lookahead = min(joined[n-1].lookahead, c.lookahead)
			joined[n-1].mesh = joined[n-1].mesh || c.mesh
			continue
		}
		joined = append(joined, c)
	}
	return joined
}

// from is what mark at at one place means at the end of an edge that leaves it; hub says
// that the place is a mesh's.
func (e *edge) from(at mark, hub bool) mark {
	switch {
	case e.zero || hub:
		return at
	case e.dist == 0: // back to an earlier rank of a node whose simprocs share state
		return at.after()
	}
	return at.ahead(e.dist)
}

// spread lowers the marks of all places to what can be caused there from other places, link
// by link: a shortest-path search (Dijkstra 1959) from all of them at once. origins follow
// along. todo has a leaf for each place.
func (l *linkPlan) spread(at []mark, origins []int32, todo tournament) {
	for i, m := range at {
		todo.leaves()[i] = uint64(m)
	}
	todo.build()
	for todo.least() < uint64(markNever) {
		i := todo.first()
		todo.set(i, math.MaxUint64)
		hub := i >= len(l.out)
		for _, e := range l.edges.of(int32(i)) {
			if m := e.from(at[i], hub); m < at[e.to] {
				at[e.to], origins[e.to] = m, origins[i]
				todo.set(int(e.to), uint64(m))
			}
		}
	}
}
