// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"math"
	"slices"
)

// Layer is edges between the vertices of a graph, by source and by target. At most one leads from a vertex to another,
// or to itself.
type Layer struct {
	out, in rows
}

// rows are compressed sparse rows: row v is [start[v], start[v+1]) of the columns, by rising vertex.
type rows struct {
	start  []uint32
	vertex []uint32
	weight []float64
}

// Row is the edges of one vertex in one direction: the vertices at their other ends, rising, and their weights. It is
// a part of the graph, and may not be changed.
type Row struct {
	Vertex []uint32
	Weight []float64
}

// Len is how many edges there are.
func (r Row) Len() int { return len(r.Vertex) }

func (r Row) rest() Row { return Row{r.Vertex[1:], r.Weight[1:]} }

func newRows(vertices, room int) rows {
	return rows{make([]uint32, vertices+1), make([]uint32, 0, room), make([]float64, 0, room)}
}

func (r *rows) add(v uint32, weight float64) {
	r.vertex, r.weight = append(r.vertex, v), append(r.weight, weight)
}

func (r *rows) row(v int) Row {
	from, to := r.start[v], r.start[v+1]
	return Row{r.vertex[from:to:to], r.weight[from:to:to]}
}

// Vertices is how many vertices the graph has.
func (l *Layer) Vertices() int { return len(l.out.start) - 1 }

// Edges is how many edges there are.
func (l *Layer) Edges() int { return len(l.out.vertex) }

// Out is the edges that begin at v; their vertices are targets. Cost: constant.
func (l *Layer) Out(v int) Row { return l.out.row(v) }

// In is the edges that end at v; their vertices are sources. Cost: constant.
func (l *Layer) In(v int) Row { return l.in.row(v) }

// FirstOut is the number of the first edge of Out(v), where edges are numbered from 0 in the order (source, target),
// as columns of what is known of them have them. FirstOut(Vertices()) is Edges().
func (l *Layer) FirstOut(v int) int { return int(l.out.start[v]) }

// Find is the number of the edge between two vertices, and whether there is one. Cost: the logarithm of a row's
// length.
func (l *Layer) Find(source, target int) (edge int, ok bool) {
	i, ok := slices.BinarySearch(l.Out(source).Vertex, uint32(target))
	return l.FirstOut(source) + i, ok
}

// Columns is all edges in the order (source, target). Target and Weight are parts of the layer, and may not be
// changed. Cost: m for the sources.
func (l *Layer) Columns() Edges {
	source := make([]uint32, l.Edges())
	for v := range l.Vertices() {
		for i := l.out.start[v]; i < l.out.start[v+1]; i++ {
			source[i] = uint32(v)
		}
	}
	return Edges{source, l.out.vertex, l.out.weight}
}

// Transposed is the layer with all edges turned round. It has the memory of l. Cost: constant.
func (l *Layer) Transposed() *Layer { return &Layer{out: l.in, in: l.out} }

// Select is the edges that begin in sources and end in targets; nil: anywhere. Cost: n + the edges of the chosen
// vertices of one side, that with the fewest.
func (l *Layer) Select(sources, targets *Mask) (*Layer, error) {
	for _, m := range []*Mask{sources, targets} {
		if err := l.checkMask(m); err != nil {
			return nil, err
		}
	}
	if l.count(&l.in, targets) < l.count(&l.out, sources) {
		s := &Layer{in: l.in.selected(targets, sources)}
		s.out = s.in.transposed()
		return s, nil
	}
	s := &Layer{out: l.out.selected(sources, targets)}
	s.in = s.out.transposed()
	return s, nil
}

// checkMask refuses a mask of another size.
func (l *Layer) checkMask(m *Mask) error {
	if m != nil && m.Len() != l.Vertices() {
		return fmt.Errorf("graph: found a mask of %d vertices, want %d", m.Len(), l.Vertices())
	}
	return nil
}

// count is how many edges the vertices of m have.
func (l *Layer) count(r *rows, m *Mask) (n int) {
	if m == nil {
		return l.Edges()
	}
	for v := range m.All() {
		n += r.row(v).Len()
	}
	return n
}

// selected is the edges of the vertices in own whose other ends are in other.
func (r *rows) selected(own, other *Mask) rows {
	vertices := len(r.start) - 1
	s := rows{start: make([]uint32, vertices+1)}
	done := 0 // rows before it have their ends
	take := func(v int) {
		for ; done < v; done++ {
			s.start[done+1] = uint32(len(s.vertex))
		}
		row := r.row(v)
		if other == nil {
			s.vertex, s.weight = append(s.vertex, row.Vertex...), append(s.weight, row.Weight...)
			return
		}
		for i, w := range row.Vertex {
			if other.has(w) {
				s.add(w, row.Weight[i])
			}
		}
	}
	if own == nil {
		for v := range vertices {
			take(v)
		}
	} else {
		for v := range own.All() {
			take(v)
		}
	}
	for ; done < vertices; done++ {
		s.start[done+1] = uint32(len(s.vertex))
	}
	return s
}

func (l *Layer) bytes() int { return l.out.bytes() + l.in.bytes() }

func (r *rows) bytes() int { return 4*cap(r.start) + 4*cap(r.vertex) + 8*cap(r.weight) }

// newLayer sorts edges by counting: by target, then, which keeps that order, by source; and that by target again, so
// that sources rise as well. Edges that come in order need only the last one.
func newLayer(vertices int, e Edges) (*Layer, error) {
	sorted, err := checkEdges(vertices, &e)
	if err != nil {
		return nil, err
	}
	l := &Layer{}
	if sorted {
		l.out = inOrder(vertices, &e)
	} else {
		byTarget := scattered(vertices, e.Target, e.Source, e.Weight)
		l.out = byTarget.transposed()
		if err := l.out.twice(); err != nil {
			return nil, err
		}
	}
	l.in = l.out.transposed()
	return l, nil
}

// checkEdges refuses what no graph may have, but for edges that are there twice, and reports whether all are in order:
// then none is.
func checkEdges(vertices int, e *Edges) (sorted bool, err error) {
	n := len(e.Source)
	switch {
	case len(e.Target) != n || e.Weight != nil && len(e.Weight) != n:
		return false, fmt.Errorf("found %d sources, %d targets and %d weights, want as many of each", n, len(e.Target),
			len(e.Weight))
	case n > EdgesMax:
		return false, fmt.Errorf("found %d edges, want at most %d", n, EdgesMax)
	}
	wrong := func(i int, reason string) error {
		return &EdgeError{Source: e.Source[i], Target: e.Target[i], Index: i, Reason: reason}
	}
	sorted = true
	before := uint64(0)
	for i, s := range e.Source {
		t := e.Target[i]
		if uint64(s) >= uint64(vertices) || uint64(t) >= uint64(vertices) {
			return false, wrong(i, fmt.Sprintf("want vertices below %d", vertices))
		}
		key := uint64(s)<<32 | uint64(t)
		sorted = sorted && (i == 0 || key > before)
		before = key
	}
	for i, w := range e.Weight {
		if math.Abs(w) <= math.MaxFloat64 {
			continue
		}
		return false, wrong(i, fmt.Sprintf("its weight is %v, want a finite number", w))
	}
	return sorted, nil
}

// inOrder is rows of edges in the order (source, target).
func inOrder(vertices int, e *Edges) rows {
	r := rows{start: counted(vertices, e.Source), vertex: slices.Clone(e.Target)}
	if e.Weight == nil {
		r.weight = ones(len(e.Source))
	} else {
		r.weight = slices.Clone(e.Weight)
	}
	return r
}

func ones(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

// counted is where the edges of each vertex begin among all, sorted by it.
func counted(vertices int, of []uint32) []uint32 {
	start := make([]uint32, vertices+1)
	for _, v := range of {
		start[v+1]++
	}
	for v := range vertices {
		start[v+1] += start[v]
	}
	return start
}

// scattered sorts edges by own: rows of the vertices in own, in each the others in the order in which they came.
func scattered(vertices int, own, other []uint32, weight []float64) rows {
	p := newPartition(vertices, own)
	for i, v := range own {
		w := 1.0
		if weight != nil {
			w = weight[i]
		}
		p.put(v, other[i], w)
	}
	return p.rows()
}

// transposed is the rows of the other direction; their vertices rise.
func (r *rows) transposed() rows {
	p := newPartition(len(r.start)-1, r.vertex)
	for v := range len(r.start) - 1 {
		for i := r.start[v]; i < r.start[v+1]; i++ {
			p.put(r.vertex[i], uint32(v), r.weight[i])
		}
	}
	return p.rows()
}

// partition sorts edges by a vertex in two steps, each of which writes to places that the caches have: into some
// hundred parts of neighbouring vertices, then within each part. In one step, 10^7 edges of 10^6 vertices took 1.7
// times as long.
type partition struct {
	start []uint32 // of each vertex's edges, among all
	shift uint     // of a vertex: its part
	next  []uint32 // of each part: where the next edge goes
	edges []edge
}

type edge struct {
	own, other uint32
	weight     float64
}

// parts is how many parts there are, at most.
const parts = 256

func newPartition(vertices int, own []uint32) *partition {
	p := &partition{start: counted(vertices, own), edges: make([]edge, len(own))}
	for vertices>>p.shift >= parts {
		p.shift++
	}
	for v := 0; v < vertices; v += 1 << p.shift {
		p.next = append(p.next, p.start[v])
	}
	return p
}

func (p *partition) put(own, other uint32, weight float64) {
	at := &p.next[own>>p.shift]
	p.edges[*at] = edge{own, other, weight}
	*at++
}

// rows is what was put, by vertex, in the order in which it came.
func (p *partition) rows() rows {
	r := rows{start: p.start, vertex: make([]uint32, len(p.edges)), weight: make([]float64, len(p.edges))}
	next := slices.Clone(p.start)
	for i := range p.edges {
		e := &p.edges[i]
		at := next[e.own]
		next[e.own] = at + 1
		r.vertex[at], r.weight[at] = e.other, e.weight
	}
	return r
}

// twice returns an error about the first edge that is there twice.
func (r *rows) twice() error {
	for v := range len(r.start) - 1 {
		row := r.row(v).Vertex
		for i := 1; i < len(row); i++ {
			if row[i] == row[i-1] {
				return &EdgeError{Source: uint32(v), Target: row[i], Index: -1,
					Reason: "it is there twice, want it once"}
			}
		}
	}
	return nil
}
