// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
)

// TestGMLAllocations: what the reader allocates grows with nodes, which have names, and by two for an edge, its lists.
func TestGMLAllocations(t *testing.T) {
	const nodes, edges = 100, 10_000
	var e graph.Edges
	for i := range uint32(edges) {
		e.Source, e.Target = append(e.Source, i%nodes), append(e.Target, i/nodes)
		e.Weight = append(e.Weight, float64(i)*1.1)
	}
	g, err := graph.New(nodes, map[int]graph.Edges{0: e})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeGML(&b, &Data{Graph: g, Vertices: make([]sqldb.Vertex, nodes)}); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d, err := parseGML("g.gml", b.Bytes())
	runtime.ReadMemStats(&after)
	if err != nil || d.Graph.Edges() != edges {
		t.Fatal(d, err)
	}
	if each := (float64(after.Mallocs-before.Mallocs) - 10*nodes) / edges; each > 2 {
		t.Errorf("%.2f allocations for each edge, want 2 at most", each)
	}
}
