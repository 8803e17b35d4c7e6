// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/disco-sim/disco/graph"
)

// memory has the rows of graphs in memory.
func memory(_ context.Context, w *world) ([]job, func(), error) {
	build := func(layers map[int]graph.Edges) func(context.Context) error {
		return func(context.Context) error {
			g, err := graph.New(w.vertices, layers)
			if err != nil {
				return err
			}
			return counted(g.Edges(), w.edges)
		}
	}
	// Both directions, as ours has them, each in one step.
	bare := func(layers map[int]graph.Edges) func(context.Context) error {
		return func(context.Context) error {
			n := 0
			for _, e := range layers {
				out := bareRows(w.vertices, e.Source, e.Target, e.Weight)
				in := bareRows(w.vertices, e.Target, e.Source, e.Weight)
				n += min(len(out.vertex), len(in.vertex))
			}
			return counted(n, w.edges)
		}
	}
	l, m, wanted := w.g.Layer(0), w.masks["10"], 0
	for v := range m.All() {
		wanted += l.Out(v).Len()
	}
	return []job{
		{name: "csr-sorted", ours: timed(build(w.layers)), bare: timed(bare(w.layers))},
		{name: "csr-shuffled", ours: timed(build(w.shuffled)), bare: timed(bare(w.shuffled))},
		{name: "bytes", goal: goal{bytes: 30}, bytes: func() float64 {
			return float64(w.g.Bytes()) / float64(w.edges)
		}},
		{name: "select-10", ours: timed(func(context.Context) error {
			part, err := l.Select(m, nil)
			if err != nil {
				return err
			}
			return counted(part.Edges(), wanted)
		}), bare: timed(func(context.Context) error {
			var e graph.Edges
			for v := range m.All() {
				row := l.Out(v)
				e.Target, e.Weight = append(e.Target, row.Vertex...), append(e.Weight, row.Weight...)
			}
			return counted(len(e.Target), wanted)
		})},
	}, func() {}, nil
}

// rows are compressed rows of one direction.
type rows struct {
	start  []uint32
	vertex []uint32
	weight []float64
}

// bareRows makes rows in one step: nothing is checked, and vertices of a row don't rise.
func bareRows(vertices int, own, other []uint32, weight []float64) rows {
	r := rows{make([]uint32, vertices+1), make([]uint32, len(own)), make([]float64, len(own))}
	for _, v := range own {
		r.start[v+1]++
	}
	for v := range vertices {
		r.start[v+1] += r.start[v]
	}
	next := append([]uint32(nil), r.start...)
	for i, v := range own {
		at := next[v]
		next[v] = at + 1
		r.vertex[at], r.weight[at] = other[i], weight[i]
	}
	return r
}
