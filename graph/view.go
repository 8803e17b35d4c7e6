// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"iter"
)

// View is a layer of which only some vertices are looked at: edges with both ends among them. It copies nothing.
type View struct {
	layer *Layer
	mask  *Mask
}

// View looks at the vertices in a mask, which stays as it is while the View is used.
func (l *Layer) View(m *Mask) (View, error) { return View{l, m}, l.checkMask(m) }

// Out is targets and weights of the edges that begin at v, rising; none where v isn't looked at. Cost: all edges of v.
func (w View) Out(v int) iter.Seq2[uint32, float64] { return w.each(v, w.layer.Out(v)) }

// In is sources and weights of the edges that end at v.
func (w View) In(v int) iter.Seq2[uint32, float64] { return w.each(v, w.layer.In(v)) }

func (w View) each(v int, row Row) iter.Seq2[uint32, float64] {
	return func(yield func(uint32, float64) bool) {
		if !w.mask.Has(v) {
			return
		}
		for i, x := range row.Vertex {
			if w.mask.has(x) && !yield(x, row.Weight[i]) {
				return
			}
		}
	}
}

// Edges is how many edges are looked at. Cost: all edges of the vertices.
func (w View) Edges() (n int) {
	for v := range w.mask.All() {
		for range w.Out(v) {
			n++
		}
	}
	return n
}

// Compressed is a graph of some vertices of another one, numbered anew.
type Compressed struct {
	*Graph
	Vertex []uint32 // by number: its number in the other graph; rising
}

// Compress is the vertices of a mask, with the edges between them in all layers and with all labels, numbered as
// before. Cost: for each layer n and the edges of these vertices.
func (g *Graph) Compress(m *Mask) (*Compressed, error) {
	if m.Len() != g.vertices {
		return nil, fmt.Errorf("graph: found a mask of %d vertices, want %d", m.Len(), g.vertices)
	}
	c := &Compressed{Vertex: m.Vertices()}
	number := make([]uint32, g.vertices)
	for i, v := range c.Vertex {
		number[v] = uint32(i)
	}
	c.Graph = &Graph{vertices: len(c.Vertex), ids: g.ids}
	for _, l := range g.layers {
		out := rows{start: make([]uint32, 1, len(c.Vertex)+1)}
		for _, v := range c.Vertex {
			row := l.Out(int(v))
			for i, w := range row.Vertex {
				if m.has(w) {
					out.add(number[w], row.Weight[i])
				}
			}
			out.start = append(out.start, uint32(len(out.vertex)))
		}
		c.layers = append(c.layers, &Layer{out: out, in: out.transposed()})
	}
	var vertex, label []uint32
	for i, v := range c.Vertex {
		for _, a := range g.LabelsOf(int(v)) {
			vertex, label = append(vertex, uint32(i)), append(label, a)
		}
	}
	labelled, err := c.WithLabels(g.Labels(), vertex, label)
	if err != nil {
		return nil, err
	}
	c.Graph = labelled
	return c, nil
}

// Pick is what is known of the vertices of c, of what is known of all: values has one for each vertex of the other
// graph.
func Pick[T any](c *Compressed, values []T) []T {
	picked := make([]T, len(c.Vertex))
	for i, v := range c.Vertex {
		picked[i] = values[v]
	}
	return picked
}

// Unpick is Pick the other way: values has one for each vertex of c, and the result one for each of n vertices of the
// other graph, rest for those that aren't in c.
func Unpick[T any](c *Compressed, values []T, n int, rest T) []T {
	all := make([]T, n)
	for v := range all {
		all[v] = rest
	}
	for i, v := range c.Vertex {
		all[v] = values[i]
	}
	return all
}
