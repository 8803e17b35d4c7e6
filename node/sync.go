// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/heap"
)

// Conservative synchronisation between workers, after Chandy and Misra
// (Distributed simulation, IEEE TSE 5(5), 1979) and Bryant (1977), with levels so
// that links of lookahead 0 can cross workers. docs/sync.md has the derivation.

// Bound says: nothing earlier than (Epoch, Level) will come. Bounds are ordered
// by epoch, then level.
type Bound struct {
	Epoch float64
	Level uint32
}

// LevelMax is above the level of every simproc: (e, LevelMax) means that
// everything at epoch e has been sent.
const LevelMax = math.MaxUint32

// Never is the bound of those who will send nothing any more.
var Never = Bound{math.Inf(1), LevelMax}

// Before reports whether b is earlier than c.
func (b Bound) Before(c Bound) bool {
	return b.Epoch < c.Epoch || b.Epoch == c.Epoch && b.Level < c.Level
}

// String is stable: golden scripts compare it.
func (b Bound) String() string {
	switch {
	case math.IsInf(b.Epoch, 1):
		return "never"
	case b.Level == LevelMax:
		return fmt.Sprintf("after %v", b.Epoch)
	}
	return fmt.Sprintf("(%v, %d)", b.Epoch, b.Level)
}

func least(a, b Bound) Bound {
	if b.Before(a) {
		return b
	}
	return a
}

// shift maps a bound on what happens at one place to a bound on what that can cause
// at another: the least over all ways between them.
type shift struct {
	kind      shiftKind
	step      uint32  // zero: levels that the way rises at the least
	low, high uint32  // zero: least and highest level at its end
	lookahead float64 // ahead: least sum of lookaheads, > 0
	slack     float64 // ahead: what rounding can take from epoch + lookahead, as a share of it
}

type shiftKind uint8

const (
	shiftNone  shiftKind = iota // no way at all
	shiftAhead                  // every way has lookahead
	shiftAfter                  // some way takes no time, but is strictly later
	shiftZero                   // some way stays within the epoch, on rising levels
)

func (h shift) apply(b Bound) Bound {
	if math.IsInf(b.Epoch, 1) {
		return Never
	}
	switch h.kind {
	case shiftNone:
		return Never
	case shiftAhead:
		// A lookahead too small to change the sum still means strictly later: Send
		// refuses an epoch that isn't. One below the normal numbers changes the sum next to
		// 0 alone, where workers would raise each other's bounds by it for ever.
		e := b.Epoch + h.lookahead
		if h.slack > 0 {
			e -= e * h.slack
		}
		if e > b.Epoch && h.lookahead >= 0x1p-1022 {
			return Bound{e, 0}
		}
	case shiftZero:
		if b.Level <= h.high && b.Level+h.step <= h.high {
			return Bound{b.Epoch, max(b.Level+h.step, h.low)}
		}
	}
	return Bound{b.Epoch, LevelMax}
}

// join is the shift over the ways of both.
func (h shift) join(k shift) shift {
	if h.kind != k.kind {
		if h.kind > k.kind {
			return h
		}
		return k
	}
	h.step = min(h.step, k.step)
	h.low = min(h.low, k.low)
	h.high = max(h.high, k.high)
	h.lookahead = min(h.lookahead, k.lookahead)
	h.slack = max(h.slack, k.slack)
	return h
}

// aheadBy is the shift over ways whose lookaheads sum up to at least sum.
//
// An event's epoch comes about link by link, and each addition rounds: over links with
// lookaheads a and b it is (e + a) + b, which may be less than e + (a + b). A bound
// must not be above it. Each addition is off by at most half a unit in the last place
// (ulp) of its result, and so of the last one, which is the largest; the sum of the
// lookaheads was rounded as often. Over k links that is k ulp at the most, and one more
// for the addition in apply. A longer way that sums up to more has more of these, but
// also at least one whole lookahead more each, which is more than an ulp, or time would
// stand still on it. So k is how many of the least lookaheads fit into the sum, and at the
// most as many as there are simprocs here, each of which is left once.
//
// Over a single link e + lookahead is what Send checks the event's epoch against, and so
// exact.
func (w *wiring) aheadBy(sum float64) shift {
	h := shift{kind: shiftAhead, lookahead: sum}
	links := min(math.Floor(sum/w.least*(1+0x1p-30)), float64(len(w.local)))
	if links > 1 {
		h.slack = (links + 2) * 0x1p-52
	}
	return h
}

// reach is what can be caused from a set of simprocs within one worker.
type reach struct {
	dist []float64 // least sum of lookaheads, by local index; +Inf: unreachable
	zero []bool    // reachable over zero-lookahead steps of rising level alone
}

// wiring is a worker's view of the scenario while the shifts are computed.
type wiring struct {
	g      *Graph
	levels []uint32
	local  []SimprocID       // simprocs of this worker
	index  map[SimprocID]int // their local indices
	edges  [][]edge          // by local index: steps within the worker
	lanes  []laneLinks       // by peer
	least  float64           // of the lookaheads > 0 of all links
}

type edge struct {
	to   int
	dist float64
	zero bool // rises in level within the epoch
}

// laneLinks are the links that cross between this worker and one peer; meshes cross
// to every peer that hosts nodes.
type laneLinks struct {
	out, in []*Link
	mesh    bool
}

func newWiring(g *Graph, levels []uint32, placement []int32, self int, workers int) *wiring {
	w := &wiring{g: g, levels: levels, index: make(map[SimprocID]int), lanes: make([]laneLinks, workers),
		least: math.Inf(1)}
	for i := range g.Links {
		if l := g.Links[i].Lookahead; l > 0 {
			w.least = min(w.least, l)
		}
	}
	for i := range g.Meshes {
		w.least = min(w.least, g.Meshes[i].Lookahead)
	}
	layers := len(g.Simprocs)
	for n := range g.Nodes {
		if int(placement[n]) != self {
			continue
		}
		for r := 0; r < layers; r++ {
			id := SimprocID(n*layers + r)
			w.index[id] = len(w.local)
			w.local = append(w.local, id)
		}
	}
	// A mesh is a hub behind the local simprocs: into it over the lookahead, and out of
	// it at once.
	w.edges = make([][]edge, len(w.local)+len(g.Meshes))
	for i := 0; i < len(w.local); i += layers {
		w.nodeEdges(i, layers)
		for m := range g.Meshes {
			hub := len(w.local) + m
			from, to := i+g.Meshes[m].From, i+g.Meshes[m].To
			w.edges[from] = append(w.edges[from], edge{hub, g.Meshes[m].Lookahead, false})
			w.edges[hub] = append(w.edges[hub], edge{to, 0, false})
		}
	}
	for n := range g.Nodes {
		if peer := int(placement[n]); peer != self {
			w.lanes[peer].mesh = len(w.local) > 0
		}
	}
	for i := range g.Links {
		l := &g.Links[i]
		from, to := int(placement[l.From.Node]), int(placement[l.To.Node])
		switch {
		case from == self && to == self:
			f := w.index[g.ID(l.From)]
			w.edges[f] = append(w.edges[f], edge{w.index[g.ID(l.To)], l.Lookahead, l.Lookahead == 0})
		case from == self:
			w.lanes[to].out = append(w.lanes[to].out, l)
		case to == self:
			w.lanes[from].in = append(w.lanes[from].in, l)
		}
	}
	return w
}

// nodeEdges adds the steps inside one node: down the ranks within an epoch, and
// back up, strictly later, where the simprocs share state.
func (w *wiring) nodeEdges(first, layers int) {
	for r := 1; r < layers; r++ {
		w.edges[first+r-1] = append(w.edges[first+r-1], edge{first + r, 0, true})
		if w.g.Nodes[w.g.Endpoint(w.local[first]).Node].Shared {
			w.edges[first+r] = append(w.edges[first+r], edge{first + r - 1, 0, false})
		}
	}
}

// spread computes what from can reach (Dijkstra 1959; wiring time only).
func (w *wiring) spread(from []int) reach {
	r := reach{dist: make([]float64, len(w.edges)), zero: make([]bool, len(w.edges))}
	for i := range r.dist {
		r.dist[i] = math.Inf(1)
	}
	h := heap.New[int](nil)
	todo := make([]int, 0, len(from))
	for _, f := range from {
		if !r.zero[f] {
			r.zero[f], r.dist[f] = true, 0
			todo = append(todo, f)
			h.Push(0, f)
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range w.edges[at] {
			if e.zero && !r.zero[e.to] {
				r.zero[e.to] = true
				todo = append(todo, e.to)
			}
		}
	}
	for h.Len() > 0 {
		dist, at := h.Pop()
		if dist > r.dist[at] {
			continue
		}
		for _, e := range w.edges[at] {
			if d := dist + e.dist; d < r.dist[e.to] {
				r.dist[e.to] = d
				h.Push(d, e.to)
			}
		}
	}
	return r
}

// to is the shift from r's origin to the simprocs of a set (an activation there); step
// is 0 where the origin is an event at a simproc of the set, 1 where the way has at
// least one step.
func (w *wiring) to(r reach, members []int, step uint32) shift {
	h := shift{}
	for _, m := range members {
		level := w.levels[w.local[m]]
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
func (w *wiring) targets(lane *laneLinks) []int {
	var t []int
	if lane.mesh {
		for _, m := range w.g.Meshes {
			for i := m.To; i < len(w.local); i += len(w.g.Simprocs) {
				t = append(t, i)
			}
		}
	}
	for _, l := range lane.in {
		t = append(t, w.index[w.g.ID(l.To)])
	}
	return t
}

// origins lists the local simprocs that send to one peer.
func (w *wiring) origins(lane *laneLinks) []int {
	var o []int
	if lane.mesh {
		for _, m := range w.g.Meshes {
			for i := m.From; i < len(w.local); i += len(w.g.Simprocs) {
				o = append(o, i)
			}
		}
	}
	for _, l := range lane.out {
		o = append(o, w.index[w.g.ID(l.From)])
	}
	return o
}

// over is the shift from r's origin over the links to one peer (an event there).
func (w *wiring) over(r reach, lane *laneLinks) shift {
	h := shift{}
	if lane.mesh {
		for m := range w.g.Meshes {
			if d := r.dist[len(w.local)+m]; !math.IsInf(d, 1) {
				h = h.join(w.aheadBy(d))
			}
		}
	}
	for _, l := range lane.out {
		from, ok := w.index[w.g.ID(l.From)]
		if !ok || math.IsInf(r.dist[from], 1) {
			continue
		}
		switch d := r.dist[from] + l.Lookahead; {
		case r.zero[from] && l.Lookahead == 0:
			level := w.levels[w.g.ID(l.To)]
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
func (w *wiring) across(lane *laneLinks) shift {
	h := shift{}
	if lane.mesh {
		for _, m := range w.g.Meshes {
			h = h.join(shift{kind: shiftAhead, lookahead: m.Lookahead})
		}
	}
	for _, l := range lane.in {
		if l.Lookahead == 0 {
			level := w.levels[w.g.ID(l.To)]
			h = h.join(shift{kind: shiftZero, step: 1, low: level, high: level})
		} else {
			h = h.join(shift{kind: shiftAhead, lookahead: l.Lookahead})
		}
	}
	return h
}
