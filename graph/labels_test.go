// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

// drawLabels gives a graph random labels, and the sets that they make, by label.
func drawLabels(t *testing.T, rng *rand.Rand, g *Graph) (*Graph, []map[uint32]bool) {
	t.Helper()
	var list []Label
	for i := range rng.IntN(20) {
		list = append(list, Label{fmt.Sprint("type", rng.IntN(3)), fmt.Sprint("value", i)})
	}
	sets := make([]map[uint32]bool, len(list))
	var vertex, label []uint32
	for a := range list {
		sets[a] = map[uint32]bool{}
		for range rng.IntN(1 + g.Vertices()) {
			v := rng.Uint32N(uint32(g.Vertices()))
			sets[a][v] = true
			vertex, label = append(vertex, v), append(label, uint32(a))
		}
	}
	rng.Shuffle(len(vertex), func(i, j int) {
		vertex[i], vertex[j] = vertex[j], vertex[i]
		label[i], label[j] = label[j], label[i]
	})
	l, err := g.WithLabels(list, vertex, label)
	if err != nil {
		t.Fatal(err)
	}
	return l, sets
}

// TestLabels compares labels with sets, also of a part of the graph.
func TestLabels(t *testing.T) {
	rng := seed.Rand(t)
	for range 100 {
		vertices := rng.IntN(100)
		_, e := draw(rng, vertices, rng.IntN(200))
		g, err := New(vertices, map[int]Edges{0: e})
		if err != nil {
			t.Fatal(err)
		}
		g, sets := drawLabels(t, rng, g)
		checkLabels(t, g, sets)

		m := drawMask(rng, vertices)
		if m == nil {
			m = NewMask(vertices)
		}
		c, err := g.Compress(m)
		if err != nil {
			t.Fatal(err)
		}
		checkCompressed(t, g, c, m)
		parts := make([]map[uint32]bool, len(sets))
		for a, set := range sets {
			parts[a] = map[uint32]bool{}
			for i, v := range c.Vertex {
				if set[v] {
					parts[a][uint32(i)] = true
				}
			}
		}
		checkLabels(t, c.Graph, parts)
	}
}

func checkLabels(t *testing.T, g *Graph, sets []map[uint32]bool) {
	t.Helper()
	byType := map[string]*Mask{}
	for a, set := range sets {
		m := g.MaskOfLabel(a)
		if m.Count() != len(set) || !slices.Equal(m.Vertices(), g.VerticesWith(a)) {
			t.Fatalf("label %d: found %v and %v, want %v", a, m.Vertices(), g.VerticesWith(a), set)
		}
		for v := range set {
			if !m.has(v) {
				t.Fatalf("label %d: found no vertex %d", a, v)
			}
		}
		name := g.Labels()[a].Type
		if byType[name] == nil {
			byType[name] = NewMask(g.Vertices())
		}
		byType[name].Or(m)
		if at, ok := g.FindLabel(g.Labels()[a]); !ok || at != a || !slices.Contains(g.LabelsOfType(name), uint32(a)) {
			t.Fatalf("label %d is found at %d, %v", a, at, ok)
		}
	}
	if len(byType) != len(g.LabelTypes()) {
		t.Fatalf("found types %v, want %d", g.LabelTypes(), len(byType))
	}
	for _, name := range g.LabelTypes() {
		if !g.MaskOfType(name).Equal(byType[name]) {
			t.Fatalf("type %s: found %v, want %v", name, g.MaskOfType(name).Vertices(), byType[name].Vertices())
		}
	}
	for v := range g.Vertices() {
		var want []uint32
		for a, set := range sets {
			if set[uint32(v)] {
				want = append(want, uint32(a))
			}
		}
		if !slices.Equal(g.LabelsOf(v), want) {
			t.Fatalf("vertex %d: found labels %v, want %v", v, g.LabelsOf(v), want)
		}
	}
	checkDistinct(t, g, g.LabelTypes())
	checkDistinct(t, g, []string{"type1"})
	checkDistinct(t, g, nil)
}

// checkDistinct holds that vertices are together exactly when they have the same labels.
func checkDistinct(t *testing.T, g *Graph, types []string) {
	t.Helper()
	key := func(v uint32) string {
		var has []uint32
		for _, a := range g.LabelsOf(int(v)) {
			if slices.Contains(types, g.Labels()[a].Type) {
				has = append(has, a)
			}
		}
		return fmt.Sprint(has)
	}
	seen := NewMask(g.Vertices())
	keys := map[string]bool{}
	first := -1
	for labels, vertices := range g.Distinct(types...) {
		k := fmt.Sprint(labels)
		if keys[k] || int(vertices[0]) <= first {
			t.Fatalf("group %v comes again, or too late", labels)
		}
		keys[k], first = true, int(vertices[0])
		for i, v := range vertices {
			if key(v) != k || seen.has(v) || i > 0 && vertices[i-1] >= v {
				t.Fatalf("vertex %d has labels %s and is among %v of %s", v, key(v), vertices, k)
			}
			seen.Set(int(v))
		}
	}
	if seen.Count() != g.Vertices() {
		t.Fatalf("found %d of %d vertices in groups", seen.Count(), g.Vertices())
	}
}

// checkCompressed compares a part of a graph with a view of it.
func checkCompressed(t *testing.T, g *Graph, c *Compressed, m *Mask) {
	t.Helper()
	l := g.Layer(0)
	view, err := l.View(m)
	if err != nil {
		t.Fatal(err)
	}
	want := model{}
	index := map[uint32]uint32{}
	for i, v := range c.Vertex {
		index[v] = uint32(i)
	}
	in := 0
	for v := range g.Vertices() {
		for w, weight := range view.Out(v) {
			want[pair{index[uint32(v)], index[w]}] = weight
		}
		for range view.In(v) {
			in++
		}
	}
	if view.Edges() != len(want) || in != len(want) {
		t.Fatalf("found %d and %d edges in a view, want %d", view.Edges(), in, len(want))
	}
	check(t, c.Layer(0), len(c.Vertex), want)
	values := make([]int, g.Vertices())
	for v := range values {
		values[v] = v + 1
	}
	for v, x := range Unpick(c, Pick(c, values), g.Vertices(), 0) {
		if m.Has(v) && x != v+1 || !m.Has(v) && x != 0 {
			t.Fatalf("vertex %d has %d behind Pick and Unpick", v, x)
		}
	}
}

func TestLabelsRefused(t *testing.T) {
	g, err := New(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := Label{"type", "a"}
	for _, c := range []struct {
		list          []Label
		vertex, label []uint32
		want          string
	}{
		{[]Label{a}, []uint32{0}, nil, "found 1 vertices with labels and 0 labels"},
		{[]Label{{"", "x"}}, nil, nil, `label 0, "x", has no type`},
		{[]Label{a, a}, nil, nil, "labels 0 and 1 are both type=a"},
		{[]Label{a}, []uint32{2}, []uint32{0}, "assignment 0: found label 0 of vertex 2"},
		{[]Label{a}, []uint32{1, 1}, []uint32{0, 1}, "assignment 1: found label 1 of vertex 1"},
	} {
		if _, err := g.WithLabels(c.list, c.vertex, c.label); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("found %v, want %q", err, c.want)
		}
	}
	if g.LabelsOfType("none") != nil || g.MaskOfType("none").Count() != 0 {
		t.Error("a type that isn't there has labels")
	}
	l := layerOf(t, 3, Edges{})
	if _, err := l.Select(NewMask(2), nil); err == nil {
		t.Error("a mask of another size is taken")
	}
	if _, err := l.View(NewMask(4)); err == nil {
		t.Error("a mask of another size is taken")
	}
	if _, err := g.Compress(NewMask(3)); err == nil {
		t.Error("a mask of another size is taken")
	}
}
