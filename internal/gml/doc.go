// SPDX-License-Identifier: Apache-2.0

// Package gml reads networks from files in the Graph Modelling Language (Himsolt,
// "GML: A portable Graph File Format", 1996), in the form that the Internet Topology
// Zoo uses: nodes with latitude and longitude where these are known, edges between
// them, some with a speed. Everything else that a file says about a node or an edge is
// kept as attributes.
//
// Guarantee: reading ends in time and memory proportional to the text, whatever the
// bytes are, and never panics. Either the error is nil, and then ids are unique, every
// edge leads between nodes that exist, and every number is finite and in its range; or
// it is a scenario.Problems that names file, line and column, what was found and what is wanted.
//
//	g, err := gml.Parse("backbone.gml", text)
//	for _, e := range g.Edges {
//		fmt.Println(g.Nodes[e.Source].Label, g.Nodes[e.Target].Label, e.Rate)
//	}
//
// Why an own reader: of the Go libraries that read graphs, gonum's knows DOT, GEXF,
// graph6, GraphQL and RDF, and none that is kept up knows GML with positions.
package gml
