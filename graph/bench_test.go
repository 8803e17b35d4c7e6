// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// large is 10^6 vertices and 10^7 edges, in order or shuffled.
func large(shuffled bool) Edges {
	const vertices, edges = 1_000_000, 10_000_000
	rng := rand.New(rand.NewPCG(1, 2))
	keys := make([]uint64, edges)
	for i := range keys {
		keys[i] = uint64(rng.Uint32N(vertices))<<32 | uint64(rng.Uint32N(vertices))
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if shuffled {
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	}
	e := Edges{make([]uint32, len(keys)), make([]uint32, len(keys)), make([]float64, len(keys))}
	for i, k := range keys {
		e.Source[i], e.Target[i], e.Weight[i] = uint32(k>>32), uint32(k), float64(i)
	}
	return e
}

func BenchmarkNew(b *testing.B) {
	for _, shuffled := range []bool{false, true} {
		e := large(shuffled)
		b.Run(map[bool]string{false: "sorted", true: "shuffled"}[shuffled], func(b *testing.B) {
			for b.Loop() {
				if _, err := New(1_000_000, map[int]Edges{0: e}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("bare", func(b *testing.B) { // one direction, unsorted rows, nothing checked
			for b.Loop() {
				bare(1_000_000, e)
			}
		})
	}
}

func BenchmarkLayer(b *testing.B) {
	g, err := New(1_000_000, map[int]Edges{0: large(false)})
	if err != nil {
		b.Fatal(err)
	}
	l, m := g.Layer(0), NewMask(1_000_000)
	for v := 0; v < m.Len(); v += 10 {
		m.Set(v)
	}
	b.Run("transpose", func(b *testing.B) {
		for b.Loop() {
			l.out.transposed()
		}
	})
	c := l.Columns()
	turned := Edges{c.Target, c.Source, c.Weight}
	b.Run("transpose bare", func(b *testing.B) {
		for b.Loop() {
			bare(1_000_000, turned)
		}
	})
	b.Run("select", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.Select(m, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("components", func(b *testing.B) {
		for b.Loop() {
			l.Components()
		}
	})
	b.Run("strong", func(b *testing.B) {
		for b.Loop() {
			l.Strong()
		}
	})
	b.Logf("%d bytes an edge", g.Bytes()/g.Edges())
}

// bare is compressed rows in one direction, in one step.
func bare(vertices int, e Edges) rows {
	r := rows{start: counted(vertices, e.Source), vertex: make([]uint32, len(e.Source)),
		weight: make([]float64, len(e.Source))}
	next := slices.Clone(r.start)
	for i, v := range e.Source {
		at := next[v]
		next[v] = at + 1
		r.vertex[at], r.weight[at] = e.Target[i], e.Weight[i]
	}
	return r
}
