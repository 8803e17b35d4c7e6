// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
)

// Columns of the tables.
var (
	vertexColumns = columnList{may: []string{"id", "name", "entity"}}
	labelColumns  = columnList{must: []string{"vertex", "type", "label"}}
	edgeColumns   = columnList{must: []string{"source", "target"}, may: []string{"weight", "layer", "name"}}
)

// vertices is what the vertices of tables are called.
type vertices struct {
	file  string // "": they are those that edges and labels name
	byID  bool
	list  []sqldb.Vertex
	index map[string]uint32 // by name
	most  int64             // the greatest id that was found where there is no file
	seen  int               // how often there was one
}

func newVertices(f Files) *vertices {
	return &vertices{file: f.Vertices, byID: f.ByID, index: make(map[string]uint32), most: -1}
}

// readTables reads a graph from its tables.
func readTables(f Files) (*Data, error) {
	v, e, l := newVertices(f), &edges{file: f.Edges, unit: unitOf(f.Edges)}, &labelling{}
	if v.file != "" {
		if err := v.read(); err != nil {
			return nil, err
		}
	}
	if err := readTable(f.Edges, edgeColumns, e.row(v)); err != nil {
		return nil, err
	}
	if f.Labels != "" {
		if err := readTable(f.Labels, labelColumns, l.row(f.Labels, v)); err != nil {
			return nil, err
		}
	}
	return v.finish(e, l)
}

// finish makes the graph when all tables are read.
func (v *vertices) finish(e *edges, l *labelling) (*Data, error) {
	if v.file == "" {
		if err := v.settle(e, l); err != nil {
			return nil, err
		}
	}
	return finish(e, l, v.list, v.called)
}

// finish makes the graph of what was read.
func finish(e *edges, l *labelling, list []sqldb.Vertex, called func(uint32) string) (*Data, error) {
	g, err := e.graph(len(list), called)
	if err != nil {
		return nil, err
	}
	name, err := e.edgeName(g)
	if err != nil {
		return nil, err
	}
	if g, err = l.with(g); err != nil {
		return nil, err
	}
	return &Data{Graph: g, Vertices: list, EdgeName: name}, nil
}

// called is a vertex as a message calls it.
func (v *vertices) called(i uint32) string {
	if v.byID {
		return fmt.Sprintf("vertex %d", i)
	}
	return "vertex " + quote(v.list[i].Name)
}

// read reads the table of vertices. Their order is that of ids, where there are some, or that of the table.
func (v *vertices) read() error {
	unit := unitOf(v.file)
	var ids []int64
	var places []uint32
	err := readTable(v.file, vertexColumns, func(r row) error {
		wrong := func(found, want string) error {
			return &Error{v.file, fmt.Sprintf("%s %d", unit, r.at()), found, want}
		}
		id, name, entity := r.text(0), r.text(1), r.text(2)
		n, ok := r.whole(0)
		switch {
		case len(v.list) == graph.VerticesMax:
			return wrong("more vertices", strconv.Itoa(graph.VerticesMax))
		case len(id) > 0 && (!ok || n < 0 || n >= graph.VerticesMax):
			return wrong("the id "+quote(id), fmt.Sprintf("a whole number from 0 to %d", graph.VerticesMax-1))
		case len(id) == 0 && (len(name) == 0 || ids != nil):
			return wrong("a vertex without an id", "an id, or for all vertices a name and no id")
		case len(id) > 0 && ids == nil && len(v.list) > 0:
			return wrong("an id, which the vertices before don't have", "ids of all vertices, or of none")
		}
		if len(id) > 0 {
			ids, places = append(ids, n), append(places, r.at())
			if len(name) == 0 && !(v.byID && r.has(1)) {
				name = strconv.AppendInt(nil, n, 10)
			}
		}
		for _, text := range [][]byte{name, entity} {
			if found := checkText(text); found != "" {
				return wrong(found, "UTF-8 of at most "+strconv.Itoa(textMax)+" bytes")
			}
		}
		v.list = append(v.list, sqldb.Vertex{Name: string(name), Entity: string(entity)})
		if v.byID {
			return nil
		}
		if _, twice := v.index[v.list[len(v.list)-1].Name]; twice {
			return wrong("the name "+quote(name)+" a second time", "a name of its own, or numbers of vertices "+
				"in all tables and --by-id")
		}
		v.index[v.list[len(v.list)-1].Name] = uint32(len(v.list) - 1)
		return nil
	})
	if err != nil || ids == nil {
		return err
	}
	return v.order(ids, places, unit)
}

// order puts the vertices into the order of their ids, which have to be 0 and the following ones.
func (v *vertices) order(ids []int64, places []uint32, unit string) error {
	list, from := make([]sqldb.Vertex, len(ids)), make([]uint32, len(ids)) // 1 + its row
	for i, id := range ids {
		where := fmt.Sprintf("%s %d", unit, places[i])
		if id >= int64(len(ids)) {
			return &Error{v.file, where, fmt.Sprintf("the id %d of %d vertices", id, len(ids)),
				fmt.Sprintf("ids from 0 to %d without gaps", len(ids)-1)}
		}
		if first := from[id]; first != 0 {
			return &Error{v.file, where, fmt.Sprintf("the id %d a second time (the first is in %s %d)", id, unit,
				places[first-1]), "an id of its own"}
		}
		from[id], list[id] = uint32(i)+1, v.list[i]
	}
	v.list = list
	for i := range list {
		if !v.byID {
			v.index[list[i].Name] = uint32(i)
		}
	}
	return nil
}

// find is the number of the vertex that a row names; found says what there is instead.
func (v *vertices) find(r row, column int) (i uint32, found, want string) {
	if !v.byID {
		text := r.text(column)
		i, ok := v.index[string(text)]
		switch {
		case ok:
			return i, "", ""
		case len(text) == 0:
			return 0, "no vertex", "the name of one"
		case v.file != "":
			return 0, "vertex " + quote(text) + ", which isn't there", "one of " + v.file
		}
		if found := checkText(text); found != "" {
			return 0, found, "UTF-8 of at most " + strconv.Itoa(textMax) + " bytes"
		}
		if len(v.list) == graph.VerticesMax {
			return 0, "more vertices", strconv.Itoa(graph.VerticesMax)
		}
		i = uint32(len(v.list))
		name := string(text)
		v.list, v.index[name] = append(v.list, sqldb.Vertex{Name: name}), i
		return i, "", ""
	}
	n, ok := r.whole(column)
	most := int64(graph.VerticesMax)
	if v.file != "" {
		most = int64(len(v.list))
	}
	if !ok || n < 0 || n >= most {
		return 0, "vertex " + quote(r.text(column)) + ", which isn't there",
			fmt.Sprintf("a number from 0 to %d", most-1)
	}
	v.most, v.seen = max(v.most, n), v.seen+1
	return uint32(n), "", ""
}

// settle ends the list of vertices that no table has: in the order of their names, or, where all are whole numbers, of
// these.
func (v *vertices) settle(e *edges, l *labelling) error {
	if v.byID {
		return v.settleIDs(e, l)
	}
	order := make([]uint32, len(v.list))
	values, whole := make([]int64, len(v.list)), true
	for i := range order {
		order[i] = uint32(i)
		n, err := strconv.ParseInt(v.list[i].Name, 10, 64)
		whole = whole && err == nil && strconv.FormatInt(n, 10) == v.list[i].Name
		values[i] = n
	}
	slices.SortFunc(order, func(a, b uint32) int {
		if whole {
			return cmp.Compare(values[a], values[b])
		}
		return cmp.Compare(v.list[a].Name, v.list[b].Name)
	})
	list, to := make([]sqldb.Vertex, len(order)), make([]uint32, len(order))
	for i, n := range order {
		list[i], to[n] = v.list[n], uint32(i)
	}
	v.list = list
	e.renumber(to)
	for i, n := range l.vertex {
		l.vertex[i] = to[n]
	}
	return nil
}

// settleIDs holds that each number up to the greatest one was found.
func (v *vertices) settleIDs(e *edges, l *labelling) error {
	gap := func(i int64) error {
		return &Error{e.file, "", fmt.Sprintf("no edge or label of vertex %d, but some of vertex %d", i, v.most),
			"each number from 0, or a table of vertices"}
	}
	n := v.most + 1
	if n > int64(v.seen) { // before memory is asked for that many
		n = int64(v.seen) + 1 // one of these isn't there
	}
	m := graph.NewMask(int(n))
	set := func(list []uint32) {
		for _, i := range list {
			if int64(i) < n {
				m.Set(int(i))
			}
		}
	}
	for _, layer := range e.layers {
		set(layer.Source)
		set(layer.Target)
	}
	set(l.vertex)
	for i := range n {
		if !m.Has(int(i)) {
			return gap(i)
		}
	}
	v.list = make([]sqldb.Vertex, n)
	for i := range v.list {
		v.list[i].Name = strconv.Itoa(i)
	}
	return nil
}

// row takes the rows of a table of edges.
func (e *edges) row(v *vertices) func(row) error {
	return func(r row) error {
		wrong := func(column, found, want string) error {
			return &Error{e.file, fmt.Sprintf("%s %d, column %s", e.unit, r.at(), column), found, want}
		}
		source, found, want := v.find(r, 0)
		if found != "" {
			return wrong("source", found, want)
		}
		target, found, want := v.find(r, 1)
		if found != "" {
			return wrong("target", found, want)
		}
		weight, layer := 1.0, int64(0)
		ok := true
		if !r.empty(2) {
			if weight, ok = r.number(2); !ok || math.IsNaN(weight) || math.IsInf(weight, 0) {
				return wrong("weight", quote(r.text(2)), "a finite number")
			}
		}
		if !r.empty(3) {
			if layer, ok = r.whole(3); !ok || layer < math.MinInt32 || layer > math.MaxInt32 {
				return wrong("layer", quote(r.text(3)), fmt.Sprintf("a whole number from %d to %d",
					math.MinInt32, math.MaxInt32))
			}
		}
		name := r.text(4)
		if found := checkText(name); found != "" {
			return wrong("name", found, "UTF-8 of at most "+strconv.Itoa(textMax)+" bytes")
		}
		return e.add(int(layer), source, target, weight, name, r.at())
	}
}

// row takes the rows of a table of labels.
func (l *labelling) row(file string, v *vertices) func(row) error {
	unit := unitOf(file)
	return func(r row) error {
		wrong := func(column, found, want string) error {
			return &Error{file, fmt.Sprintf("%s %d, column %s", unit, r.at(), column), found, want}
		}
		vertex, found, want := v.find(r, 0)
		switch {
		case found != "":
			return wrong("vertex", found, want)
		case len(r.text(1)) == 0:
			return wrong("type", "nothing", "the type of a label")
		}
		for i, column := range []string{"type", "label"} {
			if found := checkText(r.text(1 + i)); found != "" {
				return wrong(column, found, "UTF-8 of at most "+strconv.Itoa(textMax)+" bytes")
			}
		}
		l.add(vertex, r.text(1), r.text(2))
		return nil
	}
}
