// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

// flow is the way that bounds take through a placement: a graph of simprocs, of the lanes between workers, and of the
// meshes of each worker. Its edges aren't kept: they are as many as the scenario has links, and more.
type flow struct {
	s               *node.Structure
	of              []int32
	workers, layers int
	simprocs        int    // vertices below are simprocs, numbered by their ids
	hubs, lanes     int    // the first of each; lanes are the last vertices
	merged          []bool // by worker: its simprocs are one vertex; nil: none
	has             []bool // by worker: it has nodes
	used            int    // how many of them have
	*flowSpace
}

// flowSpace is memory that one flow after the other uses.
type flowSpace struct {
	adjacency
	search componentSearch
	size   []int32 // by component
	lane   []int32 // by sender × workers + receiver: its number + 1; 0: there is no lane
	pairs  []int32 // by lane: sender × workers + receiver
}

// newFlow makes the graph in which each simproc is a vertex of its own. Those of a worker that has too many classes for
// the engine share one bound there, and are one vertex once merged is set. Each graph of its edges is made in
// space, as are the lanes: the flow is valid until the next one.
func newFlow(s *node.Structure, of []int32, workers int, space *flowSpace) *flow {
	f := &flow{s: s, of: of, workers: workers, layers: len(s.Simprocs()), simprocs: s.NumSimprocs(), flowSpace: space,
		has: make([]bool, workers)}
	f.hubs = f.simprocs + workers // behind one vertex for each worker, which stands for all of its simprocs
	f.lanes = f.hubs + 2*workers*len(s.Meshes())
	for _, w := range of {
		if !f.has[w] {
			f.has[w], f.used = true, f.used+1
		}
	}
	f.lane, f.pairs = zeros(f.lane, workers*workers), f.pairs[:0]
	eachLink(s, func(_ node.SimprocID, _, n, to int) { f.open(of[n], of[to]) })
	for from := range f.has {
		for to := range f.has {
			if len(s.Meshes()) > 0 && f.has[from] && f.has[to] {
				f.open(int32(from), int32(to))
			}
		}
	}
	return f
}

// open makes the lane between two workers, unless it is there. Most of many workers have none between them, and what
// isn't there costs a search nothing.
func (f *flow) open(from, to int32) {
	pair := from*int32(f.workers) + to
	if from != to && f.lane[pair] == 0 {
		f.pairs = append(f.pairs, pair)
		f.lane[pair] = int32(len(f.pairs))
	}
}

func (f *flow) vertices() int { return f.lanes + len(f.pairs) }

// vertex is that of a simproc of a node.
func (f *flow) vertex(id node.SimprocID, n int) int32 {
	if w := f.of[n]; f.merged != nil && f.merged[w] {
		return int32(f.simprocs) + w
	}
	return int32(id)
}

// laneOf is the vertex of a lane.
func (f *flow) laneOf(from, to int32) int32 {
	return int32(f.lanes) + f.lane[int(from)*f.workers+int(to)] - 1
}

// hub is where all that a worker sends into a mesh comes together, or, with 1 as side, all that it gets out of it.
func (f *flow) hub(worker int32, mesh, side int) int32 {
	return int32(f.hubs + 2*(int(worker)*len(f.s.Meshes())+mesh) + side)
}

// edges visits all edges, some of which lead from a vertex to itself. A lane's bound is the least of all its links, and
// holds all that they lead to.
func (f *flow) edges(visit func(from, to int32, lookahead float64)) {
	for n := range len(f.of) {
		for rank := 1; rank < f.layers; rank++ {
			id := node.SimprocID(n*f.layers + rank)
			before, after := f.vertex(id-1, n), f.vertex(id, n)
			visit(before, after, 0)
			if f.s.Shared(n) {
				visit(after, before, 0)
			}
		}
	}
	eachLink(f.s, func(id node.SimprocID, k, n, m int) {
		x, y := f.vertex(id, n), f.vertex(f.s.To(k), m)
		from, to := f.of[n], f.of[m]
		if from == to {
			visit(x, y, f.s.Lookahead(k))
			return
		}
		lane := f.laneOf(from, to)
		visit(x, lane, f.s.Lookahead(k))
		visit(lane, y, 0)
	})
	f.meshEdges(visit)
}

// meshEdges makes each mesh two hubs in each worker, with lanes between all workers that have nodes.
func (f *flow) meshEdges(visit func(from, to int32, lookahead float64)) {
	for m, mesh := range f.s.Meshes() {
		for n, w := range f.of {
			first := node.SimprocID(n * f.layers)
			visit(f.vertex(first+node.SimprocID(mesh.From), n), f.hub(w, m, 0), mesh.Lookahead)
			visit(f.hub(w, m, 1), f.vertex(first+node.SimprocID(mesh.To), n), 0)
		}
		for from := range int32(f.workers) {
			for to := range int32(f.workers) {
				if !f.has[from] || !f.has[to] {
					continue
				}
				if from == to {
					visit(f.hub(from, m, 0), f.hub(to, m, 1), 0)
					continue
				}
				lane := f.laneOf(from, to)
				visit(f.hub(from, m, 0), lane, 0)
				visit(lane, f.hub(to, m, 1), 0)
			}
		}
	}
}

// graph is the graph of the edges with a lookahead of at most most, or the one with all of these turned round.
// It visits the edges twice, to count and to fill in. The result is valid until the next call.
func (f *flow) graph(most float64, turned bool) *adjacency {
	g := &f.adjacency
	g.start = slices.Grow(g.start[:0], f.vertices()+2)[:f.vertices()+2]
	clear(g.start)
	each := func(visit func(from, to int32)) {
		f.edges(func(from, to int32, lookahead float64) {
			if turned {
				from, to = to, from
			}
			if from != to && lookahead <= most {
				visit(from, to)
			}
		})
	}
	each(func(from, _ int32) { g.start[from+2]++ })
	for v := 2; v < len(g.start); v++ {
		g.start[v] += g.start[v-1]
	}
	all := int(g.start[len(g.start)-1])
	if cap(g.to) < all {
		g.to = nil // for the collector, before there is a longer one
		g.to = make([]int32, all)
	}
	g.to = g.to[:all]
	each(func(from, to int32) { // start[from+1] is where its next edge belongs, and in the end where the last one ends
		g.to[g.start[from+1]] = to
		g.start[from+1]++
	})
	g.start = g.start[:len(g.start)-1]
	return g
}

// tooManyClasses says which workers have more classes of simprocs than the engine tells apart: sets that the same
// lanes reach and that reach the same lanes. nil: none has.
func (f *flow) tooManyClasses() (merged []bool) {
	if f.workers <= 3 {
		return nil // 2 peers, reached and reaching or not: 16 classes at the most
	}
	_, _, merged = f.classes()
	return merged
}

// classes gives each simproc the number of its class among so many of all workers, and says which workers have too many
// of them: the numbers there mean nothing.
func (f *flow) classes() (of []int32, count int32, merged []bool) {
	in := f.marks(f.graph(math.Inf(1), false), func(pair int) int { return pair / f.workers })
	out := f.marks(f.graph(math.Inf(1), true), func(pair int) int { return pair % f.workers })
	words := (f.workers + 63) / 64
	of = make([]int32, f.simprocs)
	numbers := make([]map[string]int32, f.workers)
	var name []byte
	for v := range f.simprocs {
		w := f.of[v/f.layers]
		if numbers[w] == nil {
			numbers[w] = map[string]int32{}
		}
		if len(numbers[w]) > node.ClassesMax {
			continue
		}
		name = name[:0]
		for k := v * words; k < (v+1)*words; k++ {
			name = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(name, in[k]), out[k])
		}
		number, ok := numbers[w][string(name)]
		if !ok {
			number, count = count, count+1
			numbers[w][string(name)] = number
		}
		if of[v] = number; len(numbers[w]) > node.ClassesMax {
			if merged == nil {
				merged = make([]bool, f.workers)
			}
			merged[w] = true
		}
	}
	return of, count, merged
}

// marks is the set of peers whose lanes reach a vertex of g without another lane between, a bit for each peer.
func (f *flow) marks(g *adjacency, peer func(pair int) int) []uint64 {
	words := (f.workers + 63) / 64
	marks := make([]uint64, f.lanes*words)
	todo, waits := []int32(nil), make([]bool, f.lanes)
	mark := func(to int32, k int, bits uint64) {
		at := int(to)*words + k
		if bits&^marks[at] == 0 {
			return
		}
		if marks[at] |= bits; !waits[to] {
			todo, waits[to] = append(todo, to), true
		}
	}
	for v := f.lanes; v < f.vertices(); v++ {
		p := peer(int(f.pairs[v-f.lanes]))
		for _, to := range g.to[g.start[v]:g.start[v+1]] {
			mark(to, p/64, 1<<(p%64))
		}
	}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo, waits[v] = todo[:len(todo)-1], false
		for _, to := range g.to[g.start[v]:g.start[v+1]] {
			for k := 0; int(to) < f.lanes && k < words; k++ {
				mark(to, k, marks[int(v)*words+k])
			}
		}
	}
	return marks
}

// closes tells whether there is a cycle over a lane of edges with a lookahead of at most most: whether a lane is in a
// component with another vertex.
func (f *flow) closes(most float64) bool {
	of, _ := f.search.components(f.graph(most, false), func() error { return nil }) // which never fails
	f.size = zeros(f.size, int(f.search.count))
	for _, c := range of {
		f.size[^c]++
	}
	return slices.ContainsFunc(of[f.lanes:], func(c int32) bool { return f.size[^c] > 1 })
}
