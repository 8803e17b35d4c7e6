// SPDX-License-Identifier: Apache-2.0

// Package graph is large directed graphs in memory: vertices that are numbered from 0, edges with weights in any
// number of layers, and labels of vertices. It has what models and tools need to choose parts of them, and to learn
// what they are made of: masks of vertices, views, orders, cycles, components and longest paths.
//
// Guarantee: a Graph, and whatever is computed from it, is a function of the sets that it is made of; the order in
// which edges and labels are given doesn't matter. Nothing allocates for each edge or vertex but the arrays of
// results. What is made isn't changed any more: any number of goroutines may use it. Only a Mask may be changed, by
// one at a time.
//
//	g, err := graph.New(3, map[int]graph.Edges{0: {Source: []uint32{0, 1}, Target: []uint32{1, 2}}})
//	order, err := g.Layer(0).Order() // of one layer, or of several, joined: g.Join(0, 1)
//
// An edge takes 24 bytes, 12 in each direction, and a vertex 8 in each layer. n, m and l are the numbers of vertices,
// of edges and of labels in what is said about costs.
package graph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// VerticesMax and EdgesMax bound a graph: vertices, and edges of a layer.
const (
	VerticesMax = math.MaxInt32
	EdgesMax    = math.MaxUint32 - 1
)

// Edges are edges as columns: edge i goes from Source[i] to Target[i]. Without Weight all weigh 1.
type Edges struct {
	Source, Target []uint32
	Weight         []float64
}

// Graph is vertices, layers of edges between them, and labels.
type Graph struct {
	vertices int
	ids      []int // of layers, rising
	layers   []*Layer
	labels   labels
}

// EdgeError is an edge that can't be in a graph.
type EdgeError struct {
	Layer          int
	Source, Target uint32
	Index          int // among those given; of two that are the same, unknown: -1
	Reason         string
}

// Error says which edge, and why.
func (e *EdgeError) Error() string {
	where := ""
	if e.Index >= 0 {
		where = fmt.Sprintf(", edge %d of those given", e.Index)
	}
	return fmt.Sprintf("graph: layer %d, from vertex %d to vertex %d%s: %s", e.Layer, e.Source, e.Target, where,
		e.Reason)
}

// New makes a graph of so many vertices, with a layer for each number in layers. Edges may come in any order; it keeps
// nothing of them. The error of an edge is an *EdgeError. Cost: n + m for each layer, of which as many are made at
// once as there are processors.
func New(vertices int, layers map[int]Edges) (*Graph, error) {
	if vertices < 0 || vertices > VerticesMax {
		return nil, fmt.Errorf("graph: found %d vertices, want 0 to %d", vertices, VerticesMax)
	}
	g := &Graph{vertices: vertices, ids: slices.Sorted(maps.Keys(layers))}
	g.labels.start = make([]uint32, vertices+1)
	g.layers = make([]*Layer, len(g.ids))
	errs := make([]error, len(g.ids))
	eachLayer(len(g.ids), func(i int) { g.layers[i], errs[i] = newLayer(vertices, layers[g.ids[i]]) })
	for i, err := range errs {
		var wrong *EdgeError
		if errors.As(err, &wrong) {
			wrong.Layer = g.ids[i]
			return nil, wrong
		}
		if err != nil {
			return nil, fmt.Errorf("graph: layer %d: %w", g.ids[i], err)
		}
	}
	return g, nil
}

// eachLayer calls do with the numbers below n, as many at once as there are processors.
func eachLayer(n int, do func(int)) {
	var wait sync.WaitGroup
	var next atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	wait.Wait()
}

// Vertices is how many vertices there are: they are numbered from 0.
func (g *Graph) Vertices() int { return g.vertices }

// Layers lists the numbers of all layers, rising. It may not be changed.
func (g *Graph) Layers() []int { return g.ids }

// Layer is the layer of a number, nil where there is none.
func (g *Graph) Layer(id int) *Layer {
	if i, ok := slices.BinarySearch(g.ids, id); ok {
		return g.layers[i]
	}
	return nil
}

// Edges is how many edges there are, in all layers.
func (g *Graph) Edges() (n int) {
	for _, l := range g.layers {
		n += l.Edges()
	}
	return n
}

// Bytes is the memory that the graph takes.
func (g *Graph) Bytes() (n int) {
	for _, l := range g.layers {
		n += l.bytes()
	}
	return n + g.labels.bytes()
}

// Join is one layer with the edges of several: where they have the same edge its weight is their sum, in the order of
// the list. An error names a layer that there isn't. Cost: k (n + m) for k layers.
func (g *Graph) Join(ids ...int) (*Layer, error) {
	var joined *Layer
	for _, id := range ids {
		l := g.Layer(id)
		if l == nil {
			return nil, fmt.Errorf("graph: found no layer %d, want one of %v", id, g.ids)
		}
		if joined == nil {
			joined = l
			continue
		}
		if joined.Edges()+l.Edges() > EdgesMax {
			return nil, fmt.Errorf("graph: layers %v have more than %d edges", ids, EdgesMax)
		}
		joined = join(joined, l)
	}
	if joined == nil {
		return newLayer(g.vertices, Edges{})
	}
	return joined, nil
}

// join adds two layers of a graph.
func join(a, b *Layer) *Layer {
	l := &Layer{out: newRows(a.Vertices(), a.Edges()+b.Edges())}
	for v := range a.Vertices() {
		x, y := a.Out(v), b.Out(v)
		for x.Len() > 0 || y.Len() > 0 {
			switch c := compareFirst(x, y); {
			case c < 0:
				l.out.add(x.Vertex[0], x.Weight[0])
				x = x.rest()
			case c > 0:
				l.out.add(y.Vertex[0], y.Weight[0])
				y = y.rest()
			default:
				l.out.add(x.Vertex[0], x.Weight[0]+y.Weight[0])
				x, y = x.rest(), y.rest()
			}
		}
		l.out.start[v+1] = uint32(len(l.out.vertex))
	}
	l.in = l.out.transposed()
	return l
}

func compareFirst(x, y Row) int {
	switch {
	case x.Len() == 0:
		return 1
	case y.Len() == 0:
		return -1
	}
	return cmp.Compare(x.Vertex[0], y.Vertex[0])
}
