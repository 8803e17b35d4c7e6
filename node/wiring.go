// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"

	"github.com/disco-sim/disco/internal/heap"
)

// reach is what can be caused from a set of simprocs within one worker.
type reach struct {
	dist []float64 // least sum of lookaheads, by place; +Inf: unreachable
	zero []bool    // reachable over zero-lookahead steps of rising level alone
}

// wiring is a worker's view of the scenario while the shifts are computed.
type wiring struct {
	*Placed
	self    int
	local   []SimprocID // simprocs of this worker, by place
	most    int         // links that a way within the worker has at most
	edges   edges       // by place, and one for each mesh behind them: steps within the worker
	zeros   bool        // some of them rise in level within the epoch
	proceed func() error
	heap    heap.Heap[int32]
	todo    []int32   // scratch of spread
	leastTo []float64 // by peer: the least lookahead of the lane to it
}

// edges are steps between places, in two flat slices.
type edges struct {
	start []uint32
	all   []edge
}

type edge struct {
	to   int32
	zero bool // rises in level within the epoch
	dist float64
}

func (e *edges) of(place int32) []edge { return e.all[e.start[place]:e.start[place+1]] }

func (e *edges) len() int { return len(e.start) - 1 }

func newWiring(p *Placed, self int, local []SimprocID, proceed func() error) *wiring {
	if proceed == nil {
		proceed = func() error { return nil }
	}
	w := &wiring{Placed: p, self: self, local: local, most: len(local), proceed: proceed, heap: heap.New[int32](nil)}
	w.leastTo = make([]float64, p.workers)
	for peer := range w.leastTo {
		least := math.Inf(1)
		for _, l := range w.lane(self, peer) {
			least = min(least, w.lookahead[l.link])
		}
		w.leastTo[peer] = least
	}
	n := len(local) + len(p.meshes)
	count := make([]uint32, n+1)
	w.eachEdge(func(from int32, e edge) {
		count[from+1]++
		w.zeros = w.zeros || e.zero
	})
	for i := range n {
		count[i+1] += count[i]
	}
	w.edges = edges{start: count, all: make([]edge, count[n])}
	next := append([]uint32(nil), count...)
	w.eachEdge(func(from int32, e edge) {
		w.edges.all[next[from]] = e
		next[from]++
	})
	return w
}

// eachEdge visits all steps within the worker. A mesh is a hub behind the local simprocs:
// into it over the lookahead, and out of it at once.
func (w *wiring) eachEdge(visit func(from int32, e edge)) {
	layers := len(w.layers)
	for i := 0; i < len(w.local); i += layers {
		first := int32(i)
		w.nodeEdges(first, visit)
		for m := range w.meshes {
			hub := int32(len(w.local) + m)
			visit(first+int32(w.meshes[m].From), edge{hub, false, w.meshes[m].Lookahead})
			visit(hub, edge{first + int32(w.meshes[m].To), false, 0})
		}
	}
	for i, id := range w.local {
		first, end := w.LinksOf(id)
		for k := first; k < end; k++ {
			if to := SimprocID(w.linkTo[k]); w.workerOf(to) == w.self {
				visit(int32(i), edge{int32(w.placeOf(to)), w.lookahead[k] == 0, w.lookahead[k]})
			}
		}
	}
}

// nodeEdges visits the steps inside one node: down the ranks within an epoch, and
// back up, strictly later, where the simprocs share state.
func (w *wiring) nodeEdges(first int32, visit func(from int32, e edge)) {
	for r := int32(1); r < int32(len(w.layers)); r++ {
		visit(first+r-1, edge{first + r, true, 0})
		if w.Shared(w.Node(w.local[first])) {
			visit(first+r, edge{first + r - 1, false, 0})
		}
	}
}

// meshTo tells whether the meshes lead to a peer: it hosts nodes, and so does this worker.
func (w *wiring) meshTo(peer int) bool {
	return peer != w.self && len(w.meshes) > 0 && len(w.local) > 0 && w.numOn(peer) > 0
}

// reversed is the same steps backwards.
func (e *edges) reversed() *edges {
	back := &edges{start: make([]uint32, len(e.start)), all: make([]edge, len(e.all))}
	for i := range e.all {
		back.start[e.all[i].to+1]++
	}
	for i := range e.len() {
		back.start[i+1] += back.start[i]
	}
	next := append([]uint32(nil), back.start...)
	for from := range int32(e.len()) {
		for _, s := range e.of(from) {
			back.all[next[s.to]].to = from
			next[s.to]++
		}
	}
	return back
}

// reach marks the places that can be reached from the given ones.
func (e *edges) reach(from []int32) []bool {
	seen := make([]bool, e.len())
	var todo []int32
	for _, i := range from {
		if !seen[i] {
			seen[i] = true
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, s := range e.of(at) {
			if !seen[s.to] {
				seen[s.to] = true
				todo = append(todo, s.to)
			}
		}
	}
	return seen
}

func (w *wiring) newReach() *reach {
	n := w.edges.len()
	return &reach{dist: make([]float64, n), zero: make([]bool, n)}
}

// spread computes what from can reach (Dijkstra 1959; wiring time only), and calls shifts with it. Often it is enough
// to know what is reached within the epoch: shifts is called with that first, all else unreachable, and reports
// whether what it got can't change any more. Otherwise it is called once more.
func (w *wiring) spread(r *reach, from []int32, shifts func() (settled bool)) {
	w.atOnce(r, from)
	if !shifts() && len(from) > 0 {
		w.later(r)
		shifts()
	}
}

// atOnce computes what from reaches over zero-lookahead steps of rising level, which stays in todo.
func (w *wiring) atOnce(r *reach, from []int32) {
	for i := range r.dist {
		r.dist[i], r.zero[i] = math.Inf(1), false
	}
	w.todo = w.todo[:0]
	for _, f := range from {
		if !r.zero[f] {
			r.zero[f], r.dist[f] = true, 0
			w.todo = append(w.todo, f)
		}
	}
	for at := 0; w.zeros && at < len(w.todo); at++ {
		for _, e := range w.edges.of(w.todo[at]) {
			if e.zero && !r.zero[e.to] {
				r.zero[e.to], r.dist[e.to] = true, 0
				w.todo = append(w.todo, e.to)
			}
		}
	}
}

// later goes on from there to all that can be reached. What is 0 away doesn't go through the heap: often that is nearly
// everything.
func (w *wiring) later(r *reach) {
	todo := w.todo
	relax := func(at int32, dist float64) {
		for _, e := range w.edges.of(at) {
			if d := dist + e.dist; d < r.dist[e.to] {
				r.dist[e.to] = d
				if d == 0 {
					todo = append(todo, e.to)
				} else {
					w.heap.Push(d, e.to)
				}
			}
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		relax(at, 0)
	}
	for w.heap.Len() > 0 {
		if dist, at := w.heap.Pop(); dist <= r.dist[at] {
			relax(at, dist)
		}
	}
	w.todo = todo
}

// settled tells whether what over has found, with nothing but what r's origin reaches at once, can't change: either no
// link leads to the peer, or a way within the epoch has been found, whose levels all come from what is reached at once,
// or none can be shorter than what was found, because it is the lane's least lookahead.
func (w *wiring) settled(h shift, peer int) bool {
	if w.meshTo(peer) {
		return false
	}
	return len(w.lane(w.self, peer)) == 0 || h.kind == shiftZero ||
		h.kind == shiftAhead && h.lookahead == w.leastTo[peer]
}

// to is the shift from r's origin to the simprocs of a set (an activation there); step
// is 0 where the origin is an event at a simproc of the set, 1 where the way has at
// least one step.
func (w *wiring) to(r *reach, members []int32, step uint32) shift {
	h := shift{}
	for _, m := range members {
		level := w.Level(w.local[m])
		switch {
		case r.zero[m]:
			h = h.join(shift{kind: shiftZero, step: step, low: level, high: level})
		case r.dist[m] == 0:
			h = h.join(shift{kind: shiftAfter})
		case !math.IsInf(r.dist[m], 1):
			h = h.join(w.aheadBy(r.dist[m]))
		}
	}
	return h
}

// targets lists the local simprocs at which events from one peer arrive.
func (w *wiring) targets(peer int) []int32 {
	var t []int32
	if w.meshTo(peer) {
		for _, m := range w.meshes {
			for i := m.To; i < len(w.local); i += len(w.layers) {
				t = append(t, int32(i))
			}
		}
	}
	for _, l := range w.lane(peer, w.self) {
		t = append(t, int32(w.placeOf(SimprocID(w.linkTo[l.link]))))
	}
	return t
}

// sends tells whether some local simproc sends to a peer.
func (w *wiring) sends(peer int) bool { return w.meshTo(peer) || len(w.lane(w.self, peer)) > 0 }

// origins lists the local simprocs that send to one peer.
func (w *wiring) origins(peer int) []int32 {
	var o []int32
	if w.meshTo(peer) {
		for _, m := range w.meshes {
			for i := m.From; i < len(w.local); i += len(w.layers) {
				o = append(o, int32(i))
			}
		}
	}
	for _, l := range w.lane(w.self, peer) {
		o = append(o, int32(w.placeOf(SimprocID(l.from))))
	}
	return o
}

// over is the shift from r's origin over the links to one peer (an event there). Of links with lookahead, one that has
// no less than the shortest way found so far can't make a shorter one, and none is shorter than the lane's least
// lookahead: most links of a large lane aren't looked at, or not further than at their lookahead. They need no slack
// either: what comes over such a link at e or later is rounded once at the end, so that it isn't before e + lookahead,
// rounded, whatever was rounded on the way to the link.
func (w *wiring) over(r *reach, peer int) shift {
	h := shift{}
	if w.meshTo(peer) {
		for m := range w.meshes {
			if d := r.dist[len(w.local)+m]; !math.IsInf(d, 1) {
				h = h.join(w.aheadBy(d))
			}
		}
	}
	for _, l := range w.lane(w.self, peer) {
		lookahead := w.lookahead[l.link]
		if h.kind == shiftAhead && h.lookahead <= lookahead {
			if h.lookahead == w.leastTo[peer] {
				break
			}
			continue
		}
		from := w.placeOf(SimprocID(l.from))
		if math.IsInf(r.dist[from], 1) {
			continue
		}
		switch d := r.dist[from] + lookahead; {
		case r.zero[from] && lookahead == 0:
			level := w.Level(SimprocID(w.linkTo[l.link]))
			h = h.join(shift{kind: shiftZero, step: 1, low: level, high: level})
		case d == 0:
			h = h.join(shift{kind: shiftAfter})
		default:
			h = h.join(w.aheadBy(d))
		}
	}
	return h
}

// across is the shift from any activation at the far end to an event on links: what
// an idle jump allows.
func (w *wiring) across(peer int) shift {
	h := shift{}
	if w.meshTo(peer) {
		for _, m := range w.meshes {
			h = h.join(shift{kind: shiftAhead, lookahead: m.Lookahead})
		}
	}
	for _, l := range w.lane(peer, w.self) {
		if lookahead := w.lookahead[l.link]; lookahead == 0 {
			level := w.Level(SimprocID(w.linkTo[l.link]))
			h = h.join(shift{kind: shiftZero, step: 1, low: level, high: level})
		} else if h.kind != shiftAhead || lookahead < h.lookahead {
			h = h.join(shift{kind: shiftAhead, lookahead: lookahead})
		}
	}
	return h
}
