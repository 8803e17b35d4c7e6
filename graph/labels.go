// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// Label is something that vertices have in common: a value of a type, such as region EMEA.
type Label struct{ Type, Value string }

// String is type and value.
func (l Label) String() string { return l.Type + "=" + l.Value }

// labels is a matrix of bits, vertices by labels, of which only those that are set are kept, in both directions: 8
// bytes each. A bit for each pair would take 125 GB where a million vertices have a million labels, one each.
type labels struct {
	list   []Label
	types  []string         // rising
	byType [][]uint32       // labels of each type, rising
	number map[Label]uint32 // of each label

	start, label []uint32 // by vertex: its labels, rising
	has, vertex  []uint32 // by label: its vertices, rising
}

func (l *labels) bytes() int {
	return 4*(cap(l.start)+cap(l.label)+cap(l.has)+cap(l.vertex)) + 80*len(l.list)
}

// WithLabels is a graph with the edges of g, which it shares, and with these labels, numbered as in list: vertex[i]
// has label[i]. That may come in any order, and more than once. An error names what isn't right. Cost: n + l + the
// number of assignments.
func (g *Graph) WithLabels(list []Label, vertex, label []uint32) (*Graph, error) {
	if len(vertex) != len(label) || len(vertex) > EdgesMax {
		return nil, fmt.Errorf("graph: found %d vertices with labels and %d labels of them, want as many, at most %d",
			len(vertex), len(label), EdgesMax)
	}
	n := labels{list: slices.Clone(list), number: make(map[Label]uint32, len(list))}
	for i, l := range list {
		if l.Type == "" {
			return nil, fmt.Errorf("graph: label %d, %q, has no type", i, l.Value)
		}
		if other, twice := n.number[l]; twice {
			return nil, fmt.Errorf("graph: labels %d and %d are both %v", other, i, l)
		}
		n.number[l] = uint32(i)
	}
	for i, v := range vertex {
		if uint64(v) >= uint64(g.vertices) || uint64(label[i]) >= uint64(len(list)) {
			return nil, fmt.Errorf("graph: assignment %d: found label %d of vertex %d, want labels below %d and "+
				"vertices below %d", i, label[i], v, len(list), g.vertices)
		}
	}
	n.group()
	n.assign(g.vertices, vertex, label)
	return &Graph{g.vertices, g.ids, g.layers, n}, nil
}

// group lists the labels of each type.
func (l *labels) group() {
	order := make([]uint32, len(l.list))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(l.list[a].Type, l.list[b].Type) })
	for _, i := range order {
		if last := len(l.types) - 1; last < 0 || l.types[last] != l.list[i].Type {
			l.types, l.byType = append(l.types, l.list[i].Type), append(l.byType, nil)
		}
		last := len(l.types) - 1
		l.byType[last] = append(l.byType[last], i)
	}
}

// assign sorts assignments both ways, by counting, and leaves out those that come again.
func (l *labels) assign(vertices int, vertex, label []uint32) {
	has := counted(len(l.list), label)
	next, byLabel := slices.Clone(has[:len(l.list)]), make([]uint32, len(label))
	for i, a := range label {
		byLabel[next[a]] = vertex[i]
		next[a]++
	}
	// By vertex, in the order of labels; then by label, in the order of vertices.
	last := make([]uint32, vertices) // 1 + the label that was counted last
	l.start = make([]uint32, vertices+1)
	each := func(yield func(v, a uint32)) {
		clear(last)
		for a := range l.list {
			for _, v := range byLabel[has[a]:has[a+1]] {
				if last[v] != uint32(a)+1 {
					last[v] = uint32(a) + 1
					yield(v, uint32(a))
				}
			}
		}
	}
	each(func(v, _ uint32) { l.start[v+1]++ })
	for v := range vertices {
		l.start[v+1] += l.start[v]
	}
	l.label = make([]uint32, l.start[vertices])
	at := slices.Clone(l.start[:vertices])
	each(func(v, a uint32) {
		l.label[at[v]] = a
		at[v]++
	})
	l.has = counted(len(l.list), l.label)
	l.vertex = make([]uint32, len(l.label))
	copy(next, l.has)
	for v := range vertices {
		for _, a := range l.label[l.start[v]:l.start[v+1]] {
			l.vertex[next[a]] = uint32(v)
			next[a]++
		}
	}
}

// Labels lists all labels, by number. It may not be changed.
func (g *Graph) Labels() []Label { return g.labels.list }

// LabelTypes lists the types of labels, in the order of their names. It may not be changed.
func (g *Graph) LabelTypes() []string { return g.labels.types }

// FindLabel is the number of a label, and whether there is one. Cost: constant.
func (g *Graph) FindLabel(l Label) (int, bool) {
	i, ok := g.labels.number[l]
	return int(i), ok
}

// LabelsOfType lists the labels of a type, rising; nil where there is no such type. It may not be changed.
func (g *Graph) LabelsOfType(name string) []uint32 {
	if i, ok := slices.BinarySearch(g.labels.types, name); ok {
		return g.labels.byType[i]
	}
	return nil
}

// LabelsOf lists the labels of a vertex, rising. It is a part of the graph, and may not be changed. Cost: constant.
func (g *Graph) LabelsOf(v int) []uint32 {
	l := &g.labels
	return l.label[l.start[v]:l.start[v+1]:l.start[v+1]]
}

// VerticesWith lists the vertices with a label, rising. It is a part of the graph, and may not be changed. Cost:
// constant.
func (g *Graph) VerticesWith(label int) []uint32 {
	l := &g.labels
	return l.vertex[l.has[label]:l.has[label+1]:l.has[label+1]]
}

// MaskOfLabel is the vertices with a label. Cost: n/64, and one for each.
func (g *Graph) MaskOfLabel(label int) *Mask {
	m := NewMask(g.vertices)
	for _, v := range g.VerticesWith(label) {
		m.Set(int(v))
	}
	return m
}

// MaskOfType is the vertices with any label of a type. Cost: n/64, and one for each of its labels and assignments.
func (g *Graph) MaskOfType(name string) *Mask {
	m := NewMask(g.vertices)
	for _, label := range g.LabelsOfType(name) {
		for _, v := range g.VerticesWith(int(label)) {
			m.Set(int(v))
		}
	}
	return m
}

// Distinct groups the vertices by which labels of these types they have: those with the same ones are yielded
// together, rising, with the labels, rising. Vertices without any are the group of no labels. Groups come in the order
// of their first vertices. Both slices are the caller's. Cost: n log n, and all assignments.
func (g *Graph) Distinct(types ...string) iter.Seq2[[]uint32, []uint32] {
	wanted := make([]bool, len(g.labels.list))
	for _, t := range types {
		for _, label := range g.LabelsOfType(t) {
			wanted[label] = true
		}
	}
	return func(yield func(labels, vertices []uint32) bool) {
		var start, labels []uint32 // of the wanted ones by vertex
		for v := range g.vertices {
			start = append(start, uint32(len(labels)))
			for _, label := range g.LabelsOf(v) {
				if wanted[label] {
					labels = append(labels, label)
				}
			}
		}
		start = append(start, uint32(len(labels)))
		of := func(v uint32) []uint32 { return labels[start[v]:start[v+1]] }
		for _, group := range grouped(g.vertices, of) {
			if !yield(slices.Clone(of(group[0])), group) {
				return
			}
		}
	}
}

// grouped is the vertices with the same labels together, in the order of their first ones.
func grouped(vertices int, of func(v uint32) []uint32) (groups [][]uint32) {
	order := make([]uint32, vertices)
	for v := range order {
		order[v] = uint32(v)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Or(slices.Compare(of(a), of(b)), cmp.Compare(a, b)) })
	for len(order) > 0 {
		n := 1
		for n < len(order) && slices.Equal(of(order[0]), of(order[n])) {
			n++
		}
		groups, order = append(groups, order[:n:n]), order[n:]
	}
	slices.SortFunc(groups, func(a, b []uint32) int { return cmp.Compare(a[0], b[0]) })
	return groups
}
