// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/seed"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// pair is an edge of the dumb model: a map.
type pair struct{ from, to uint32 }

type model map[pair]float64

// draw makes random edges without a second one between the same two, in any order.
func draw(rng *rand.Rand, vertices, edges int) (model, Edges) {
	m, e := model{}, Edges{}
	for range edges {
		if vertices == 0 {
			break
		}
		p := pair{rng.Uint32N(uint32(vertices)), rng.Uint32N(uint32(vertices))}
		if _, twice := m[p]; twice {
			continue
		}
		m[p] = float64(rng.IntN(100)) / 8
		e.Source, e.Target, e.Weight = append(e.Source, p.from), append(e.Target, p.to), append(e.Weight, m[p])
	}
	return m, e
}

// acyclic turns edges so that they lead from lower to higher numbers of a random order.
func acyclic(rng *rand.Rand, vertices, edges int) (model, Edges) {
	rank := rng.Perm(max(vertices, 1))
	all, _ := draw(rng, vertices, edges)
	m, e := model{}, Edges{}
	for p, w := range all {
		if rank[p.from] > rank[p.to] {
			p.from, p.to = p.to, p.from
		}
		if _, twice := m[p]; twice || p.from == p.to {
			continue
		}
		m[p] = w
		e.Source, e.Target, e.Weight = append(e.Source, p.from), append(e.Target, p.to), append(e.Weight, w)
	}
	return m, e
}

func layerOf(t testing.TB, vertices int, e Edges) *Layer {
	t.Helper()
	g, err := New(vertices, map[int]Edges{3: e})
	if err != nil {
		t.Fatal(err)
	}
	return g.Layer(3)
}

// check compares a layer with the model, in both directions.
func check(t testing.TB, l *Layer, vertices int, want model) {
	t.Helper()
	if l.Vertices() != vertices || l.Edges() != len(want) {
		t.Fatalf("found %d vertices and %d edges, want %d and %d", l.Vertices(), l.Edges(), vertices, len(want))
	}
	for v := range vertices {
		for in, row := range []Row{l.Out(v), l.In(v)} {
			if !slices.IsSorted(row.Vertex) {
				t.Fatalf("row %d of %d isn't sorted: %v", in, v, row.Vertex)
			}
			for i, w := range row.Vertex {
				p := pair{uint32(v), w}
				if in == 1 {
					p = pair{w, uint32(v)}
				}
				if weight, ok := want[p]; !ok || weight != row.Weight[i] {
					t.Fatalf("found %v of weight %v, want %v, %v", p, row.Weight[i], weight, ok)
				}
			}
		}
	}
	edges := l.Columns()
	for i, s := range edges.Source {
		if at, ok := l.Find(int(s), int(edges.Target[i])); !ok || at != i {
			t.Fatalf("edge %d is found at %d, %v", i, at, ok)
		}
	}
}

// TestLayer compares layers, their order, and their selections with the model.
func TestLayer(t *testing.T) {
	rng := seed.Rand(t)
	for range 300 {
		vertices := rng.IntN(200)
		want, e := draw(rng, vertices, rng.IntN(600))
		l := layerOf(t, vertices, e)
		check(t, l, vertices, want)
		check(t, layerOf(t, vertices, l.Columns()), vertices, want) // in order
		turned := model{}
		for p, w := range want {
			turned[pair{p.to, p.from}] = w
		}
		check(t, l.Transposed(), vertices, turned)

		from, to := drawMask(rng, vertices), drawMask(rng, vertices)
		chosen := model{}
		for p, w := range want {
			if (from == nil || from.has(p.from)) && (to == nil || to.has(p.to)) {
				chosen[p] = w
			}
		}
		s, err := l.Select(from, to)
		if err != nil {
			t.Fatal(err)
		}
		check(t, s, vertices, chosen)
	}
}

// drawMask is a mask of few or many vertices, or none.
func drawMask(rng *rand.Rand, n int) *Mask {
	if rng.IntN(4) == 0 {
		return nil
	}
	m, share := NewMask(n), rng.Float64()
	for v := range n {
		if rng.Float64() < share {
			m.Set(v)
		}
	}
	return m
}

// TestNewRefuses has everything that no graph may have.
func TestNewRefuses(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		vertices int
		e        Edges
		want     string
	}{
		{-1, Edges{}, "found -1 vertices"},
		{VerticesMax + 1, Edges{}, "vertices, want 0 to"},
		{3, Edges{Source: []uint32{1}}, "found 1 sources, 0 targets"},
		{3, Edges{Source: []uint32{1}, Target: []uint32{1}, Weight: []float64{}}, "and 0 weights"},
		{3, Edges{Source: []uint32{0, 3}, Target: []uint32{1, 1}},
			"layer 3, from vertex 3 to vertex 1, edge 1 of those given: want vertices below 3"},
		{3, Edges{Source: []uint32{0}, Target: []uint32{1 << 31}}, "to vertex 2147483648, edge 0"},
		{0, Edges{Source: []uint32{0}, Target: []uint32{0}}, "want vertices below 0"},
		{3, Edges{Source: []uint32{0}, Target: []uint32{0}, Weight: []float64{nan}}, "its weight is NaN"},
		{3, Edges{Source: []uint32{0}, Target: []uint32{0}, Weight: []float64{math.Inf(-1)}}, "its weight is -Inf"},
		{3, Edges{Source: []uint32{0, 0}, Target: []uint32{2, 2}}, "from vertex 0 to vertex 2: it is there twice"},
		{3, Edges{Source: []uint32{2, 0, 2}, Target: []uint32{1, 0, 1}},
			"from vertex 2 to vertex 1: it is there twice"},
	} {
		_, err := New(c.vertices, map[int]Edges{3: c.e})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d, %v: found %v, want %q", c.vertices, c.e, err, c.want)
		}
	}
}

// TestMask compares masks with sets.
func TestMask(t *testing.T) {
	rng := seed.Rand(t)
	for range 200 {
		n := rng.IntN(300)
		a, b := NewMask(n), NewMask(n)
		for range n / 2 {
			a.Set(rng.IntN(n))
			b.Set(rng.IntN(n))
		}
		for _, op := range []struct {
			name string
			do   func(*Mask) *Mask
			want func(a, b bool) bool
		}{
			{"and", func(m *Mask) *Mask { return m.And(b) }, func(a, b bool) bool { return a && b }},
			{"or", func(m *Mask) *Mask { return m.Or(b) }, func(a, b bool) bool { return a || b }},
			{"and not", func(m *Mask) *Mask { return m.AndNot(b) }, func(a, b bool) bool { return a && !b }},
			{"xor", func(m *Mask) *Mask { return m.Xor(b) }, func(a, b bool) bool { return a != b }},
			{"not", (*Mask).Not, func(a, _ bool) bool { return !a }},
		} {
			got := op.do(a.Clone())
			var want []uint32
			for v := range n {
				if op.want(a.Has(v), b.Has(v)) {
					want = append(want, uint32(v))
				}
			}
			again, err := MaskOf(n, want...)
			if err != nil || !got.Equal(again) || got.Count() != len(want) || !slices.Equal(got.Vertices(), want) {
				t.Fatalf("%s of %d: found %v, want %v (%v)", op.name, n, got.Vertices(), want, err)
			}
		}
	}
	if _, err := MaskOf(3, 3); err == nil {
		t.Error("a vertex beyond the last is taken")
	}
}

// reach is which vertices lead to which others, by one edge or more.
func reach(vertices int, m model) [][]bool {
	r := make([][]bool, vertices)
	for v := range r {
		r[v] = make([]bool, vertices)
	}
	for p := range m {
		r[p.from][p.to] = true
	}
	for k := range vertices {
		for i := range vertices {
			for j := range vertices {
				r[i][j] = r[i][j] || r[i][k] && r[k][j]
			}
		}
	}
	return r
}

// TestParts compares components, cycles and orders with which vertices lead to which.
func TestParts(t *testing.T) {
	rng := seed.Rand(t)
	for range 200 {
		vertices := rng.IntN(40)
		m, e := draw(rng, vertices, rng.IntN(1+2*vertices))
		if rng.IntN(2) == 0 {
			m, e = acyclic(rng, vertices, rng.IntN(1+4*vertices))
		}
		l, r := layerOf(t, vertices, e), reach(vertices, m)
		part, count := l.Strong()
		checkParts(t, part, count, func(a, b int) bool { return a == b || r[a][b] && r[b][a] })

		both := model{}
		for p := range m {
			both[p], both[pair{p.to, p.from}] = 1, 1
		}
		joined := reach(vertices, both)
		part, count = l.Components()
		checkParts(t, part, count, func(a, b int) bool { return a == b || joined[a][b] })
		checkCycles(t, l, r)
		checkOrder(t, l, m, r)
	}
}

// checkParts holds that vertices are in one part exactly when same says so, and that parts are in order.
func checkParts(t *testing.T, part []uint32, count int, same func(a, b int) bool) {
	t.Helper()
	next := uint32(0)
	for a := range part {
		if next = max(next, part[a]); part[a] > next || int(part[a]) >= count {
			t.Fatalf("parts %v aren't in order", part)
		}
		if part[a] == next {
			next++
		}
		for b := range part {
			if (part[a] == part[b]) != same(a, b) {
				t.Fatalf("parts %v: %d and %d", part, a, b)
			}
		}
	}
	if int(next) != count {
		t.Fatalf("found %d parts, want %d", count, next)
	}
}

// checkCycles holds that each part that leads to itself has one cycle, from its least vertex.
func checkCycles(t *testing.T, l *Layer, r [][]bool) {
	t.Helper()
	covered := NewMask(l.Vertices())
	before := -1
	for _, c := range l.Cycles() {
		if int(c[0]) <= before {
			t.Fatalf("cycles aren't in order: %v", l.Cycles())
		}
		before = int(c[0])
		for i, v := range c {
			if _, ok := l.Find(int(v), int(c[(i+1)%len(c)])); !ok || v < c[0] && r[v][c[0]] && r[c[0]][v] {
				t.Fatalf("%v is no cycle from the least vertex", c)
			}
		}
		for v := range l.Vertices() {
			if r[v][c[0]] && r[c[0]][v] {
				covered.Set(v)
			}
		}
	}
	for v := range l.Vertices() {
		if r[v][v] != covered.Has(v) {
			t.Fatalf("vertex %d leads to itself: %v, and is in a part with a cycle: %v", v, r[v][v], covered.Has(v))
		}
	}
}

// checkOrder holds what an order must be, the longest path, and the reduction.
func checkOrder(t *testing.T, l *Layer, m model, r [][]bool) {
	t.Helper()
	order, err := l.Order()
	cyclic := slices.ContainsFunc(order, func(v uint32) bool { return r[v][v] }) || len(l.Cycles()) > 0
	var cycle *CycleError
	if cyclic != (err != nil) || err != nil && !errors.As(err, &cycle) {
		t.Fatalf("cyclic %v, but the order has %v", cyclic, err)
	}
	longest, err1 := l.Longest()
	reduced, err2 := l.Reduce()
	if cyclic {
		if err1 == nil || err2 == nil {
			t.Fatalf("found %v and %v, want errors", err1, err2)
		}
		return
	}
	place := make([]int, len(order))
	for i, v := range order {
		place[v] = i
	}
	for p := range m {
		if place[p.from] >= place[p.to] {
			t.Fatalf("order %v has %v the wrong way", order, p)
		}
	}
	checkLongest(t, l, m, order, longest)
	wanted := model{}
	for p, w := range m {
		shortcut := false
		for v := range l.Vertices() {
			shortcut = shortcut || r[p.from][v] && r[v][p.to]
		}
		if !shortcut {
			wanted[p] = w
		}
	}
	check(t, reduced, l.Vertices(), wanted)
}

// checkLongest compares a path with the weight of the longest one, computed forwards.
func checkLongest(t *testing.T, l *Layer, m model, order []uint32, got Path) {
	t.Helper()
	best := make([]float64, l.Vertices())
	most := 0.0
	for _, v := range order {
		for p, w := range m {
			if p.from == v {
				best[p.to] = max(best[p.to], best[v]+w)
				most = max(most, best[p.to])
			}
		}
	}
	sum := 0.0
	for i := 1; i < len(got.Vertices); i++ {
		w, ok := m[pair{got.Vertices[i-1], got.Vertices[i]}]
		if sum += w; !ok {
			t.Fatalf("%v is no path", got)
		}
	}
	if sum != got.Weight || sum != most {
		t.Fatalf("found %v of weight %v, want %v", got, sum, most)
	}
}

// TestJoin adds up layers.
func TestJoin(t *testing.T) {
	rng := seed.Rand(t)
	for range 100 {
		vertices := 1 + rng.IntN(30)
		layers, want := map[int]Edges{}, model{}
		var ids []int
		for id := range rng.IntN(4) {
			m, e := draw(rng, vertices, rng.IntN(100))
			layers[id], ids = e, append(ids, id)
			for p, w := range m {
				want[p] += w
			}
		}
		g, err := New(vertices, layers)
		if err != nil {
			t.Fatal(err)
		}
		l, err := g.Join(ids...)
		if err != nil {
			t.Fatal(err)
		}
		check(t, l, vertices, want)
		if _, err := g.Join(9); err == nil {
			t.Error("a layer that isn't there is joined")
		}
	}
}
