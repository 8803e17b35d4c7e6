// SPDX-License-Identifier: Apache-2.0

package graphread

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/internal/graphdata"
)

// nodes is which vertices are one node.
type nodes struct {
	of    []uint32 // by vertex: the least one of its node
	size  []uint32 // by least vertex: how many there are
	names map[uint32]string
	r     *reader
}

// name is that of the node of a vertex.
func (n *nodes) name(v uint32) string {
	if name, ok := n.names[n.of[v]]; ok {
		return name
	}
	return n.r.vertices[n.of[v]].Name
}

// group makes nodes of vertices: those with the same labels of the distinct types together, or those that share a label
// of one of the same types; without either, each vertex is one.
func (r *reader) group() (*nodes, error) {
	n := &nodes{of: make([]uint32, r.labels.Vertices()), size: make([]uint32, r.labels.Vertices()),
		names: map[uint32]string{}, r: r}
	for v := range n.of {
		n.of[v] = uint32(v)
	}
	if len(r.asked.Same) > 0 {
		n.join()
	}
	if len(r.asked.Distinct) > 0 {
		if err := n.separate(len(r.asked.Same) == 0); err != nil {
			return nil, err
		}
	}
	for v := range n.of {
		n.of[v] = n.root(uint32(v))
		n.size[n.of[v]]++
	}
	return n, n.call()
}

// root is the least vertex of a node, while nodes are joined.
func (n *nodes) root(v uint32) uint32 {
	for n.of[v] != v {
		n.of[v] = n.of[n.of[v]]
		v = n.of[v]
	}
	return v
}

// merge makes one node of two.
func (n *nodes) merge(a, b uint32) {
	a, b = n.root(a), n.root(b)
	n.of[max(a, b)] = min(a, b)
}

// join merges those that share a label of one of the types that are to be on the same node.
func (n *nodes) join() {
	for _, t := range n.r.asked.Same {
		for _, k := range n.r.labels.LabelsOfType(t) {
			with := n.r.labels.VerticesWith(int(k))
			for _, v := range with {
				n.merge(with[0], v)
			}
		}
	}
}

// separate merges, if it is to, those with the same labels of the types by which nodes differ, and refuses nodes with
// different ones.
func (n *nodes) separate(merges bool) error {
	group := make([]uint32, len(n.of)) // the first vertex of each one's
	for labels, vertices := range n.r.labels.Distinct(n.r.asked.Distinct...) {
		for _, v := range vertices {
			group[v] = vertices[0]
			if merges && len(labels) > 0 {
				n.merge(vertices[0], v)
			}
		}
	}
	for v := range n.of {
		if root := n.root(uint32(v)); group[root] != group[v] {
			return fmt.Errorf("found vertices %q and %q on one node, since they share a label of the types %q, want "+
				"them on different ones, since their labels of the types %q differ", n.r.vertices[root].Name,
				n.r.vertices[v].Name, n.r.asked.Same, n.r.asked.Distinct)
		}
	}
	return nil
}

// call gives nodes with labels of the types their names: these, with - between them.
func (n *nodes) call() error {
	var types []string
	for _, t := range slices.Concat(n.r.asked.Distinct, n.r.asked.Same) {
		if !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	taken := map[string]uint32{}
	for v := range uint32(len(n.of)) {
		if n.of[v] != v {
			continue
		}
		var values []string
		for _, t := range types {
			for _, k := range n.r.labels.LabelsOf(int(v)) {
				if l := n.r.labels.Labels()[k]; l.Type == t {
					values = append(values, l.Value)
				}
			}
		}
		if len(values) > 0 {
			n.names[v] = strings.Join(values, "-")
		}
		name := n.name(v)
		if first, twice := taken[name]; twice && len(types) > 0 {
			return fmt.Errorf("found two nodes that would be called %q, those of the vertices %q and %q, want "+
				"different "+
				"names: rename a label or a vertex", name, n.r.vertices[first].Name, n.r.vertices[v].Name)
		}
		taken[name] = v
	}
	return nil
}

// nodeRows has a row for each node with a vertex of m.
func (r *reader) nodeRows(t *table, m *graph.Mask) {
	chosen := graph.NewMask(len(r.nodes.of))
	for v, root := range r.nodes.of {
		if m == nil || m.Has(v) {
			chosen.Set(int(root))
		}
	}
	t.rows.First = chosen.Vertices()
}

// together is which nodes are to be on one worker.
func (r *reader) together() error {
	of := r.asked.Together
	if of == "" {
		return nil
	}
	group := map[uint32]uint32{} // by node
	number := uint32(0)
	for _, k := range r.labels.LabelsOfType(of) {
		for _, v := range r.labels.VerticesWith(int(k)) {
			node := r.nodes.of[v]
			if was, twice := group[node]; twice && was != number {
				return fmt.Errorf("node %q: found several labels of the type %q, by which nodes go to workers, "+
					"want one",
					r.nodes.name(node), of)
			}
			group[node] = number
		}
		number++
	}
	for v, root := range r.nodes.of {
		if g, ok := group[root]; ok && uint32(v) == root {
			r.data.Together.Names.AddText(r.nodes.name(root))
			r.data.Together.Groups = append(r.data.Together.Groups, g)
		}
	}
	return nil
}

// vertexTable has a row for each row of a user's table about vertices.
func (r *reader) vertexTable(t *table, f *graphdata.Fill, m *graph.Mask) error {
	columns := t.wanted(f, "vertex_index")
	err := r.db.VertexRecords(r.ctx, r.scenario, sqldbTable(f.Table), columns, m, t.add)
	if err == nil && m != nil {
		err = r.noStray(f, "vertex_index")
	}
	if err != nil {
		return err
	}
	first, err := r.ends(t, f, "vertex_index")
	t.rows.First = first
	return err
}

// edgeTable has a row for each row of a user's table about edges of a layer.
func (r *reader) edgeTable(t *table, f *graphdata.Fill, layer *graph.Layer, from, to *graph.Mask) error {
	columns := t.wanted(f, "source_idx", "target_idx")
	err := r.db.OutRecords(r.ctx, r.scenario, sqldbTable(f.Table), columns, f.Layer, from, t.add)
	if err == nil && from != nil {
		err = r.noStray(f, "source_idx")
	}
	if err != nil {
		return err
	}
	first, err := r.ends(t, f, "source_idx")
	if err != nil {
		return err
	}
	second, err := r.ends(t, f, "target_idx")
	if err != nil {
		return err
	}
	weights := layer.Columns().Weight
	var keep []int
	for i := range first {
		edge, ok := layer.Find(int(first[i]), int(second[i]))
		if !ok {
			return fmt.Errorf("table %v: found a row for the edge from vertex %d to vertex %d, want one that layer %d "+
				"has", sqldbTable(f.Table), first[i], second[i], f.Layer)
		}
		if to != nil && !to.Has(int(second[i])) {
			continue
		}
		keep = append(keep, i)
		t.rows.First, t.rows.Second = append(t.rows.First, first[i]), append(t.rows.Second, second[i])
		t.weight = append(t.weight, weights[edge])
	}
	if len(keep) < len(first) {
		for name, v := range t.columns {
			picked := v.In(keep)
			t.columns[name] = &picked
		}
	}
	return nil
}

// noStray refuses a row of a user's table about a vertex that there isn't. Where labels choose vertices such rows are
// not among those that are read.
func (r *reader) noStray(f *graphdata.Fill, column string) error {
	found, ok, err := r.db.Stray(r.ctx, r.scenario, sqldbTable(f.Table), column, r.labels.Vertices())
	if err == nil && ok {
		err = r.notVertex(f, column, found)
	}
	return err
}

// notVertex says that a column of vertices has something else.
func (r *reader) notVertex(f *graphdata.Fill, column, found string) error {
	return fmt.Errorf("table %v, column %q: found %s, want a vertex of the scenario, 0 to %d", sqldbTable(f.Table),
		column, found, r.labels.Vertices()-1)
}

// ends are the vertices that a column of a user's table has, and takes the column away, unless the fill asks for it.
func (r *reader) ends(t *table, f *graphdata.Fill, name string) ([]uint32, error) {
	v := t.columns[name]
	if !slices.Contains(t.names, name) {
		delete(t.columns, name)
	}
	if v == nil {
		return nil, nil // no rows
	}
	if v.Kind != graphdata.Int {
		return nil, fmt.Errorf("table %v: found a column %q that isn't declared as whole numbers, want numbers of "+
			"vertices", sqldbTable(f.Table), name)
	}
	all := make([]uint32, v.Len())
	for i := range all {
		x := v.Int(i)
		if !v.Has(i) || x < 0 || x >= int64(r.labels.Vertices()) {
			found := "NULL"
			if v.Has(i) {
				found = fmt.Sprint(x)
			}
			return nil, r.notVertex(f, name, found)
		}
		all[i] = uint32(x)
	}
	return all, nil
}
