// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/graph"
)

// edges collects the edges of a file by layer.
type edges struct {
	file, unit string // of places: line or row
	layers     map[int]*layer
	id         int // of the last one
	last       *layer
}

// layer is the edges of one layer, in the order of the file.
type layer struct {
	graph.Edges
	at    []uint32 // line or row
	names []byte   // one behind the other
	end   []uint64 // of each edge's name; shorter than at where the last edges have none
}

// add adds an edge. Its name may be empty.
func (e *edges) add(id int, source, target uint32, weight float64, name []byte, at uint32) error {
	where := fmt.Sprintf
	if id < math.MinInt32 || id > math.MaxInt32 {
		return &Error{e.file, where("%s %d", e.unit, at), where("layer %d", id),
			where("one from %d to %d", math.MinInt32, math.MaxInt32)}
	}
	if e.last == nil || e.id != id {
		if e.layers == nil {
			e.layers = make(map[int]*layer)
		}
		if e.last = e.layers[id]; e.last == nil {
			e.last = &layer{}
			e.layers[id] = e.last
		}
		e.id = id
	}
	l := e.last
	if len(l.at) == graph.EdgesMax {
		return &Error{e.file, where("%s %d", e.unit, at), "more edges in one layer", where("%d", graph.EdgesMax)}
	}
	l.Source, l.Target, l.Weight = append(l.Source, source), append(l.Target, target), append(l.Weight, weight)
	if len(name) > 0 {
		for len(l.end) < len(l.at) {
			l.end = append(l.end, uint64(len(l.names)))
		}
		l.names = append(l.names, name...)
		l.end = append(l.end, uint64(len(l.names)))
	}
	l.at = append(l.at, at)
	return nil
}

// name is the name of the ith edge of the file.
func (l *layer) name(i int) []byte {
	switch {
	case i >= len(l.end):
		return nil
	case i == 0:
		return l.names[:l.end[0]]
	}
	return l.names[l.end[i-1]:l.end[i]]
}

// graph makes a graph of so many vertices. called is what a vertex is called.
func (e *edges) graph(vertices int, called func(uint32) string) (*graph.Graph, error) {
	layers := make(map[int]graph.Edges, len(e.layers))
	for id, l := range e.layers {
		layers[id] = l.Edges
	}
	g, err := graph.New(vertices, layers)
	var wrong *graph.EdgeError
	if !errors.As(err, &wrong) {
		return g, err
	}
	// What else may be wrong was refused when it was read.
	l := e.layers[wrong.Layer]
	first := -1
	for i, s := range l.Source {
		if s != wrong.Source || l.Target[i] != wrong.Target {
			continue
		}
		if first < 0 {
			first = i
			continue
		}
		return nil, &Error{e.file, fmt.Sprintf("%s %d", e.unit, l.at[i]),
			fmt.Sprintf("the edge from %s to %s in layer %d a second time (the first is in %s %d)",
				called(wrong.Source), called(wrong.Target), wrong.Layer, e.unit, l.at[first]), "it once in a layer"}
	}
	return nil, &Error{File: e.file, Found: err.Error()}
}

// edgeName is the name of an edge by its number in the graph, nil where there are none.
func (e *edges) edgeName(g *graph.Graph) (func(layer, edge int) string, error) {
	orders := map[int][]uint32{} // by layer and number: the edge of the file
	for id, l := range e.layers {
		if len(l.end) == 0 {
			continue
		}
		if err := e.twice(id, l); err != nil {
			return nil, err
		}
		order := make([]uint32, len(l.at))
		for i, s := range l.Source {
			number, _ := g.Layer(id).Find(int(s), int(l.Target[i]))
			order[number] = uint32(i)
		}
		orders[id] = order
	}
	if len(orders) == 0 {
		return nil, nil
	}
	return func(id, edge int) string {
		if order := orders[id]; order != nil {
			return string(e.layers[id].name(int(order[edge])))
		}
		return ""
	}, nil
}

// twice refuses a name that two edges of a layer have.
func (e *edges) twice(id int, l *layer) error {
	order := make([]uint32, len(l.end))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(bytes.Compare(l.name(int(a)), l.name(int(b))), cmp.Compare(a, b))
	})
	for i := 1; i < len(order); i++ {
		a, b := int(order[i-1]), int(order[i])
		if name := l.name(a); len(name) > 0 && bytes.Equal(name, l.name(b)) {
			return &Error{e.file, fmt.Sprintf("%s %d", e.unit, l.at[b]), fmt.Sprintf(
				"the name %s a second time in layer %d (the first is in %s %d)", quote(name), id, e.unit, l.at[a]),
				"a name of its own, or none"}
		}
	}
	return nil
}

// renumber has the vertices at the ends of all edges numbered anew.
func (e *edges) renumber(to []uint32) {
	for _, l := range e.layers {
		for i := range l.Source {
			l.Source[i], l.Target[i] = to[l.Source[i]], to[l.Target[i]]
		}
	}
}
