// SPDX-License-Identifier: Apache-2.0

package gml

import (
	"fmt"

	"github.com/disco-sim/disco/scenario"
)

// Graph is a network as a file describes it. It isn't changed after reading.
type Graph struct {
	Label      string // "" where the file has none
	Directed   bool   // edges lead from Source to Target only
	Nodes      []Node // in the order of the file; at least one
	Edges      []Edge // in the order of the file
	Attributes []Pair // what else the file says about the whole
}

// Node is one node.
type Node struct {
	ID    int64  // unique
	Label string // "" where the file has none; several nodes may have the same

	Labelled bool // the file has a label, which may be ""

	// Placed reports whether the file has a place for the node: then Latitude lies
	// within ±90 and Longitude within ±360 degrees, north and east positive.
	Placed              bool
	Latitude, Longitude float64

	Attributes   []Pair // what else the file says about the node
	Line, Column int
}

// Edge is one edge. Several edges may join the same two nodes, and one may join a node
// with itself.
type Edge struct {
	ID             string  // "" where the file has none; not necessarily unique
	Source, Target int     // indices in Graph.Nodes
	Rate           float64 // LinkSpeedRaw, bits per second, > 0; 0: the file has none
	Attributes     []Pair  // what else the file says about the edge
	Line, Column   int
}

// Number finds a numeric attribute; of several with the key, the first.
func (n *Node) Number(key string) (float64, bool) {
	for i := range n.Attributes {
		if n.Attributes[i].Key == key {
			return n.Attributes[i].Value.Number()
		}
	}
	return 0, false
}

// Parse reads a network; name stands for it in messages. It keeps nothing of text. The error is a scenario.Problems.
func Parse(name string, text []byte) (*Graph, error) {
	if len(text) > FileBytesMax {
		return nil, scenario.Problems{{File: name, Found: "more than 64 MiB",
			Want: fmt.Sprintf("at most %d bytes", FileBytesMax)}}
	}
	tree, err := parseTree(name, text)
	if err != nil {
		return nil, err
	}
	b := &builder{file: name, graph: &Graph{}, index: make(map[int64]int)}
	b.build(tree)
	if len(b.problems) > 0 {
		b.problems.Sort()
		return nil, b.problems
	}
	return b.graph, nil
}

// rateMax is beyond every link that there is, bits per second.
const rateMax = 1e18

// problemsMax bounds how many problems of one file are listed.
const problemsMax = 100

// builder makes a Graph of a tree, and collects all that is wrong with it.
type builder struct {
	file     string
	graph    *Graph
	index    map[int64]int // by id: index in graph.Nodes
	ends     [][2]end      // by edge
	nameless bool          // a node has no good id, so an unknown id may be that one
	problems scenario.Problems
}

// end is one end of an edge before its node is known.
type end struct {
	id   int64
	pair *Pair // nil: left out
	good bool
}

func (b *builder) refuse(p *Pair, field, found, want, todo string) {
	if len(b.problems) < problemsMax {
		b.problems = append(b.problems, scenario.Problem{File: b.file, Line: p.Line, Column: p.Column, Field: field,
			Found: found, Want: want, ToDo: todo})
	}
}

func (b *builder) build(tree []Pair) {
	var graph *Pair
	for i := range tree {
		p := &tree[i]
		if p.Key != "graph" {
			continue // Creator, Version, comment
		}
		if p.Value.Kind != List {
			b.refuse(p, "graph", "one value", "a list: graph [ … ]", "")
			return
		}
		if graph != nil {
			b.refuse(p, "graph", fmt.Sprintf("a second graph (the first begins on line %d)", graph.Line),
				"one graph a file", "split the file")
			return
		}
		graph = p
	}
	if graph == nil {
		b.problems = append(b.problems, scenario.Problem{File: b.file, Found: "no graph",
			Want: "graph [ node [ … ] … edge [ … ] … ]"})
		return
	}
	b.graphFields(graph.Value.List)
	if len(b.graph.Nodes) == 0 && len(b.problems) == 0 {
		b.refuse(graph, "graph", "no node", "at least one: node [ id 0 … ]", "")
	}
	b.connect()
}

func (b *builder) graphFields(pairs []Pair) {
	for i := range pairs {
		p := &pairs[i]
		switch p.Key {
		case "node":
			b.node(p)
		case "edge":
			b.edge(p)
		case "label":
			b.graph.Label = p.Value.Text
		case "directed":
			if p.Value.Kind != Integer || p.Value.Whole != 0 && p.Value.Whole != 1 {
				b.refuse(p, "graph.directed", p.Value.describe(), "0 or 1", "")
			}
			b.graph.Directed = p.Value.Whole == 1
		default:
			b.graph.Attributes = append(b.graph.Attributes, *p)
		}
	}
}

func (b *builder) node(at *Pair) {
	n := Node{Line: at.Line, Column: at.Column}
	if at.Value.Kind != List {
		b.refuse(at, "node", at.Value.describe(), "a list: node [ id 0 … ]", "")
		return
	}
	var id, latitude, longitude *Pair
	for i := range at.Value.List {
		p := &at.Value.List[i]
		switch p.Key {
		case "id":
			id = b.once(p, id, "node.id")
		case "label":
			n.Label, n.Labelled = p.Value.Text, p.Value.Kind == Text
		case "Latitude":
			latitude = b.once(p, latitude, "node.Latitude")
			n.Latitude = b.number(p, "node.Latitude", -90, 90)
		case "Longitude":
			longitude = b.once(p, longitude, "node.Longitude")
			n.Longitude = b.number(p, "node.Longitude", -360, 360)
		default:
			if n.Attributes == nil {
				n.Attributes = make([]Pair, 0, len(at.Value.List)-i)
			}
			n.Attributes = append(n.Attributes, *p)
		}
	}
	switch {
	case latitude != nil && longitude == nil:
		b.refuse(latitude, "node.Latitude", "a Latitude without a Longitude", "both or neither", "")
	case longitude != nil && latitude == nil:
		b.refuse(longitude, "node.Longitude", "a Longitude without a Latitude", "both or neither", "")
	}
	n.Placed = latitude != nil && longitude != nil
	b.identify(at, id, &n)
}

// identify files a node under its id.
func (b *builder) identify(at, id *Pair, n *Node) {
	b.nameless = b.nameless || id == nil || id.Value.Kind != Integer
	switch {
	case id == nil:
		b.refuse(at, "node", "a node without an id", "node [ id 0 … ]", "")
		return
	case id.Value.Kind != Integer:
		b.refuse(id, "node.id", id.Value.describe(), "a whole number", "")
		return
	}
	n.ID = id.Value.Whole
	if first, ok := b.index[n.ID]; ok {
		b.refuse(id, "node.id", fmt.Sprintf("the id %d a second time (the first node with it begins on line %d)", n.ID,
			b.graph.Nodes[first].Line), "ids that are unique", "")
		return
	}
	b.index[n.ID] = len(b.graph.Nodes)
	b.graph.Nodes = append(b.graph.Nodes, *n)
}

func (b *builder) edge(at *Pair) {
	e := Edge{Line: at.Line, Column: at.Column}
	if at.Value.Kind != List {
		b.refuse(at, "edge", at.Value.describe(), "a list: edge [ source 0 target 1 … ]", "")
		return
	}
	var source, target, speed *Pair
	for i := range at.Value.List {
		p := &at.Value.List[i]
		switch p.Key {
		case "source":
			source = b.once(p, source, "edge.source")
		case "target":
			target = b.once(p, target, "edge.target")
		case "id":
			e.ID = p.Value.Text
		case "LinkSpeedRaw":
			speed = b.once(p, speed, "edge.LinkSpeedRaw")
			if e.Rate = b.number(p, "edge.LinkSpeedRaw", 0, rateMax); e.Rate == 0 {
				b.refuse(p, "edge.LinkSpeedRaw", "0", "a number > 0, or no LinkSpeedRaw", "")
			}
		default:
			if e.Attributes == nil {
				e.Attributes = make([]Pair, 0, len(at.Value.List)-i)
			}
			e.Attributes = append(e.Attributes, *p)
		}
	}
	b.graph.Edges = append(b.graph.Edges, e)
	b.ends = append(b.ends, [2]end{b.end(at, source, "edge.source"), b.end(at, target, "edge.target")})
}

// end reads the id at one end of an edge.
func (b *builder) end(at, p *Pair, field string) end {
	switch {
	case p == nil:
		b.refuse(at, field, "nothing", "the id of a node", "")
		return end{}
	case p.Value.Kind != Integer:
		b.refuse(p, field, p.Value.describe(), "the id of a node: a whole number", "")
		return end{}
	}
	return end{id: p.Value.Whole, pair: p, good: true}
}

// connect finds the nodes at the ends of the edges; a node may stand behind its edges.
func (b *builder) connect() {
	for i := range b.graph.Edges {
		e := &b.graph.Edges[i]
		for side, index := range []*int{&e.Source, &e.Target} {
			at := &b.ends[i][side]
			if !at.good {
				continue
			}
			n, ok := b.index[at.id]
			if !ok && !b.nameless {
				b.refuse(at.pair, "edge."+at.pair.Key, fmt.Sprintf("the id %d, which no node has", at.id),
					"the id of a node", "")
			}
			*index = n
		}
	}
}

// once refuses a key that stands there twice.
func (b *builder) once(p, first *Pair, field string) *Pair {
	if first != nil {
		b.refuse(p, field, fmt.Sprintf("%s a second time (the first is on line %d)", p.Key, first.Line), "it once", "")
		return first
	}
	return p
}

// number reads a number in a range; the parser has seen to it that it is finite.
func (b *builder) number(p *Pair, field string, low, high float64) float64 {
	x, ok := p.Value.Number()
	if !ok || x < low || x > high {
		b.refuse(p, field, p.Value.describe(), fmt.Sprintf("a number from %v to %v", low, high), "")
		return low + 1 // any number in the range, so that one mistake is one problem
	}
	return x
}
