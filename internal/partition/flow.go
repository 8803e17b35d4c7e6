// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"encoding/binary"
	"slices"

	"github.com/disco-sim/disco/node"
)

// flow is the way that bounds take through a placement: a graph of simprocs, of the lanes between workers, and of the
// meshes of each worker.
type flow struct {
	start []int32 // start[v] to start[v+1]: the edges that leave v
	edges []flowEdge
	lanes int32 // vertices from here on are lanes
}

type flowEdge struct {
	to        int32
	lookahead float64
}

// newFlow makes the graph. The simprocs of a worker that has too many classes for the engine are one vertex, because
// they share one bound there.
func newFlow(g *node.Graph, of []int32, workers int) *flow {
	b := &flowBuilder{g: g, of: of, workers: workers, layers: len(g.Simprocs), simprocs: g.NumSimprocs()}
	b.hubs = b.simprocs + workers // behind one vertex for each worker, which stands for all of its simprocs
	b.lanes = b.hubs + workers*len(g.Meshes)
	b.connect()
	if b.merged = b.tooManyClasses(); b.merged != nil {
		b.from, b.to, b.lookahead = b.from[:0], b.to[:0], b.lookahead[:0]
		b.connect()
	}
	return b.build(b.from, b.to)
}

// flowBuilder numbers the vertices, simprocs first, and collects the edges.
type flowBuilder struct {
	g               *node.Graph
	of              []int32
	workers, layers int
	simprocs        int     // how many
	hubs, lanes     int     // the first of each
	merged          []bool  // by worker: its simprocs are one vertex; nil: none
	from, to        []int32 // of each edge
	lookahead       []float64
}

func (b *flowBuilder) vertex(e node.Endpoint) int32 {
	if w := b.of[e.Node]; b.merged != nil && b.merged[w] {
		return int32(b.simprocs) + w
	}
	return int32(b.g.ID(e))
}

func (b *flowBuilder) lane(from, to int32) int32 {
	return int32(b.lanes + int(from)*b.workers + int(to))
}

func (b *flowBuilder) hub(worker int32, mesh int) int32 {
	return int32(b.hubs + int(worker)*len(b.g.Meshes) + mesh)
}

func (b *flowBuilder) add(from, to int32, lookahead float64) {
	if from != to {
		b.from, b.to, b.lookahead = append(b.from, from), append(b.to, to), append(b.lookahead, lookahead)
	}
}

// connect adds all edges. A lane's bound is the least of all its links, and holds all that they lead to.
func (b *flowBuilder) connect() {
	for n := range b.g.Nodes {
		for rank := 1; rank < b.layers; rank++ {
			before := b.vertex(node.Endpoint{Node: n, Simproc: rank - 1})
			after := b.vertex(node.Endpoint{Node: n, Simproc: rank})
			b.add(before, after, 0)
			if b.g.Nodes[n].Shared {
				b.add(after, before, 0)
			}
		}
	}
	for i := range b.g.Links {
		l := &b.g.Links[i]
		from, to := b.of[l.From.Node], b.of[l.To.Node]
		if from == to {
			b.add(b.vertex(l.From), b.vertex(l.To), l.Lookahead)
			continue
		}
		b.add(b.vertex(l.From), b.lane(from, to), l.Lookahead)
		b.add(b.lane(from, to), b.vertex(l.To), 0)
	}
	b.connectMeshes()
}

// connectMeshes makes each mesh a hub in each worker, with lanes between all workers that have nodes.
func (b *flowBuilder) connectMeshes() {
	has := make([]bool, b.workers)
	for _, w := range b.of {
		has[w] = true
	}
	for m, mesh := range b.g.Meshes {
		for n, w := range b.of {
			b.add(b.vertex(node.Endpoint{Node: n, Simproc: mesh.From}), b.hub(w, m), mesh.Lookahead)
			b.add(b.hub(w, m), b.vertex(node.Endpoint{Node: n, Simproc: mesh.To}), 0)
		}
		for from := range has {
			for to := range has {
				if from != to && has[from] && has[to] {
					lane := b.lane(int32(from), int32(to))
					b.add(b.hub(int32(from), m), lane, 0)
					b.add(lane, b.hub(int32(to), m), 0)
				}
			}
		}
	}
}

// build sorts the edges by the vertex that they leave.
func (b *flowBuilder) build(from, to []int32) *flow {
	f := &flow{start: make([]int32, b.lanes+b.workers*b.workers+1), edges: make([]flowEdge, len(from))}
	f.lanes = int32(b.lanes)
	for _, v := range from {
		f.start[v+1]++
	}
	for v := 1; v < len(f.start); v++ {
		f.start[v] += f.start[v-1]
	}
	next := slices.Clone(f.start)
	for i, v := range from {
		f.edges[next[v]] = flowEdge{to[i], b.lookahead[i]}
		next[v]++
	}
	return f
}

// tooManyClasses says which workers have more classes of simprocs than the engine tells apart: sets that the same
// lanes reach and that reach the same lanes. nil: none has.
func (b *flowBuilder) tooManyClasses() (merged []bool) {
	if b.workers <= 3 {
		return nil // 2 peers, reached and reaching or not: 16 classes at the most
	}
	peer := func(lane int) int { return lane / b.workers }
	in := b.build(b.from, b.to).marks(b.workers, peer)
	peer = func(lane int) int { return lane % b.workers }
	out := b.build(b.to, b.from).marks(b.workers, peer)
	classes := make([]map[string]bool, b.workers)
	words := (b.workers + 63) / 64
	for v := range b.simprocs {
		w := b.of[v/b.layers]
		if classes[w] == nil {
			classes[w] = map[string]bool{}
		}
		if len(classes[w]) > node.ClassesMax {
			continue
		}
		var name []byte
		for k := v * words; k < (v+1)*words; k++ {
			name = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(name, in[k]), out[k])
		}
		if classes[w][string(name)] = true; len(classes[w]) > node.ClassesMax {
			if merged == nil {
				merged = make([]bool, b.workers)
			}
			merged[w] = true
		}
	}
	return merged
}

// marks is the set of peers whose lanes reach a vertex without another lane between, a bit for each peer.
func (f *flow) marks(workers int, peer func(lane int) int) []uint64 {
	words := (workers + 63) / 64
	marks := make([]uint64, int(f.lanes)*words)
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
	for v := int(f.lanes); v < len(f.start)-1; v++ {
		p := peer(v - int(f.lanes))
		for _, e := range f.edges[f.start[v]:f.start[v+1]] {
			mark(e.to, p/64, 1<<(p%64))
		}
	}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo, waits[v] = todo[:len(todo)-1], false
		for _, e := range f.edges[f.start[v]:f.start[v+1]] {
			for k := 0; e.to < f.lanes && k < words; k++ {
				mark(e.to, k, marks[int(v)*words+k])
			}
		}
	}
	return marks
}

// closes tells whether there is a cycle over a lane of edges with a lookahead of at most most: whether a lane is in a
// component with another vertex.
func (f *flow) closes(most float64) bool {
	g := &adjacency{start: make([]uint32, len(f.start)), to: make([]int32, 0, len(f.edges))}
	for v := range len(f.start) - 1 {
		for _, e := range f.edges[f.start[v]:f.start[v+1]] {
			if e.lookahead <= most {
				g.to = append(g.to, e.to)
			}
		}
		g.start[v+1] = uint32(len(g.to))
	}
	of, _ := g.components(func() error { return nil })
	size := make([]int32, len(of)) // by component
	for _, c := range of {
		size[^c]++
	}
	return slices.ContainsFunc(of[f.lanes:], func(c int32) bool { return size[^c] > 1 })
}
