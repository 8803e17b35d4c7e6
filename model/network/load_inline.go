// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"

	"github.com/disco-sim/disco/internal/gml"
	"github.com/disco-sim/disco/scenario"
)

// readInline reads a topology that stands in the scenario itself, or comes of a database, as a GML file would have it.
func (l *loader) readInline(v scenario.Value) *gml.Graph {
	s := v.Section("directed", "nodes", "edges")
	g := &gml.Graph{Directed: s.Field("directed").BoolOr(false)}
	before, index := l.r.Refusals(), map[string]int{}
	nodes := s.Field("nodes")
	items := nodes.List()
	if nodes.IsList() && len(items) == 0 {
		nodes.Refuse("an empty list", "one node or more", "")
	}
	for _, item := range items {
		n := item.Section("id", "latitude", "longitude", "junction", "numbers")
		id := n.Field("id").ID(idMax)
		if _, twice := index[id]; twice && id != "" {
			n.Field("id").Refuse(fmt.Sprintf("the id %q a second time", id), "every id once", "")
		}
		index[id] = len(g.Nodes)
		g.Nodes = append(g.Nodes, inlineNode(n, id, int64(len(g.Nodes))))
	}
	for _, item := range s.Field("edges").List() {
		e := item.Section("source", "target", "rate_bps")
		edge := gml.Edge{Line: item.Line(), Rate: e.Field("rate_bps").OrNull().FloatOr(0,
			scenario.MoreThan(0).AtMost(linkRateMax))}
		for field, end := range map[string]*int{"source": &edge.Source, "target": &edge.Target} {
			name := e.Field(field).Text()
			at, ok := index[name]
			if !ok && name != "" {
				e.Field(field).Refuse(fmt.Sprintf("the unknown node %q", name), "the id of one of nodes", "")
			}
			*end = at
		}
		g.Edges = append(g.Edges, edge)
	}
	if l.r.Refusals() > before {
		return nil
	}
	return g
}

func inlineNode(n scenario.Section, id string, number int64) gml.Node {
	latitude, longitude := n.Field("latitude").OrNull(), n.Field("longitude").OrNull()
	node := gml.Node{ID: number, Label: id, Labelled: true, Line: n.At().Line(),
		Placed: latitude.Present() && longitude.Present()}
	if latitude.Present() != longitude.Present() {
		n.At().Refuse("one of latitude and longitude", "both, or neither", "")
	}
	if node.Placed {
		node.Latitude, node.Longitude = latitude.Float(scenario.Between(-90, 90)),
			longitude.Float(scenario.Between(-360, 360))
	}
	give := func(key string, x float64) {
		node.Attributes = append(node.Attributes, gml.Pair{Key: key, Value: gml.Value{Kind: gml.Real, Float: x},
			Line: node.Line})
	}
	if n.Field("junction").BoolOr(false) {
		give("hyperedge", 1)
	}
	if numbers := n.Field("numbers").OrNull(); numbers.Present() {
		for _, e := range numbers.Entries() {
			give(e.Name, e.Value.Float(scenario.AnyNumber()))
		}
	}
	return node
}
