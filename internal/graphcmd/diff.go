// SPDX-License-Identifier: Apache-2.0

package graphcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/graphfile"
	"github.com/disco-sim/disco/internal/printable"
)

// errDiffer ends a diff of scenarios that aren't the same, with status 1.
var errDiffer = errors.New("the scenarios differ")

// layerDiff is how the edges of a layer differ. Lists have the first ones.
type layerDiff struct {
	Layer   int        `json:"layer"`
	Added   int        `json:"added"`
	Removed int        `json:"removed"`
	Changed int        `json:"changed"` // another weight
	Same    int        `json:"same"`
	Edges   []edgeDiff `json:"edges"`
	listed  [3]int     // of each kind
}

// edgeDiff is an edge that isn't the same in both; before or after is null where it isn't there.
type edgeDiff struct {
	Source string   `json:"source"`
	Target string   `json:"target"`
	Before *float64 `json:"before"`
	After  *float64 `json:"after"`
}

// setDiff is what only one of both has.
type setDiff struct {
	Added       int      `json:"added"`
	Removed     int      `json:"removed"`
	AddedList   []string `json:"added_first"`
	RemovedList []string `json:"removed_first"`
}

func (s *setDiff) add(text string, most int) {
	if s.Added++; s.Added <= most {
		s.AddedList = append(s.AddedList, text)
	}
}

func (s *setDiff) remove(text string, most int) {
	if s.Removed++; s.Removed <= most {
		s.RemovedList = append(s.RemovedList, text)
	}
}

// nameDiff is which vertices of the same number have other names.
type nameDiff struct {
	Changed int          `json:"changed"`
	First   []nameChange `json:"changed_first"`
}

type nameChange struct {
	Vertex int    `json:"vertex"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// graphDiff is how two scenarios differ.
type graphDiff struct {
	ByName   bool        `json:"vertices_by_name"` // false: by number, since names don't tell them apart
	Vertices setDiff     `json:"vertices"`
	Names    nameDiff    `json:"names"` // of vertices that go by number
	Layers   []layerDiff `json:"layers"`
	Labels   setDiff     `json:"labels"` // of vertices
	most     int
	names    []string // of all vertices of both
}

func diff(ctx context.Context, c *call) error {
	var a, b *graphfile.Data
	err := c.db.Reading(ctx, func() (err error) {
		if _, a, err = c.load(ctx, c.args[0]); err == nil {
			_, b, err = c.load(ctx, c.args[1])
		}
		return err
	})
	if err != nil {
		return err
	}
	d, err := unlessEnded(ctx, func() (*graphDiff, error) { return compare(a, b, c.Int("most")) })
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = c.writeJSON(d)
	} else {
		_, err = fmt.Fprint(c.Stdout, d.text())
	}
	if err == nil && d.differ() {
		err = errDiffer
	}
	return err
}

// compare finds what b has and a hasn't, and the other way round.
func compare(a, b *graphfile.Data, most int) (*graphDiff, error) {
	d := &graphDiff{Layers: []layerDiff{}, most: most}
	index, ok := byName(a.Vertices)
	_, other := byName(b.Vertices)
	d.ByName = ok && other
	for _, v := range a.Vertices {
		d.names = append(d.names, v.Name)
	}
	to := make([]uint32, len(b.Vertices)) // of b's vertices: their numbers among all
	found := make([]bool, len(a.Vertices))
	for i, v := range b.Vertices {
		n, known := index[v.Name]
		if !d.ByName {
			n, known = uint32(i), i < len(found)
		}
		if known {
			to[i], found[n] = n, true
			d.rename(i, d.names[n], v.Name)
			continue
		}
		to[i] = uint32(len(d.names))
		d.names = append(d.names, v.Name)
		d.Vertices.add(v.Name, most)
	}
	for i, is := range found {
		if !is {
			d.Vertices.remove(d.names[i], most)
		}
	}
	d.labels(a.Graph, b.Graph, to)
	ids := map[int]bool{}
	for _, id := range append(slices.Clone(a.Graph.Layers()), b.Graph.Layers()...) {
		ids[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if err := d.layer(id, a.Graph.Layer(id), b.Graph.Layer(id), to); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// rename takes the names of a vertex that is in both.
func (d *graphDiff) rename(i int, before, after string) {
	if before == after {
		return
	}
	if d.Names.Changed++; d.Names.Changed <= d.most {
		d.Names.First = append(d.Names.First, nameChange{i, before, after})
	}
}

// byName is the numbers of vertices by their names, and whether these tell them apart.
func byName(list []sqldb.Vertex) (map[string]uint32, bool) {
	index := make(map[string]uint32, len(list))
	for i, v := range list {
		if _, twice := index[v.Name]; twice || v.Name == "" {
			return nil, false
		}
		index[v.Name] = uint32(i)
	}
	return index, true
}

// layer compares the edges of a layer, which one of both graphs may lack.
func (d *graphDiff) layer(id int, a, b *graph.Layer, to []uint32) error {
	var before, after graph.Edges
	if a != nil {
		before = a.Columns()
	}
	if b != nil {
		after = b.Columns()
		after.Target = slices.Clone(after.Target)
		for i := range after.Source {
			after.Source[i], after.Target[i] = to[after.Source[i]], to[after.Target[i]]
		}
	}
	x, err := graph.New(len(d.names), map[int]graph.Edges{0: before})
	if err != nil {
		return err
	}
	y, err := graph.New(len(d.names), map[int]graph.Edges{0: after})
	if err != nil {
		return err
	}
	l := layerDiff{Layer: id, Edges: []edgeDiff{}}
	for v := range d.names {
		d.rows(&l, v, x.Layer(0).Out(v), y.Layer(0).Out(v))
	}
	d.Layers = append(d.Layers, l)
	return nil
}

// rows compares the edges that begin at one vertex.
func (d *graphDiff) rows(l *layerDiff, v int, a, b graph.Row) {
	i, j := 0, 0
	for i < a.Len() || j < b.Len() {
		switch {
		case j == b.Len() || i < a.Len() && a.Vertex[i] < b.Vertex[j]:
			l.Removed++
			d.list(l, 1, v, a.Vertex[i], &a.Weight[i], nil)
			i++
		case i == a.Len() || b.Vertex[j] < a.Vertex[i]:
			l.Added++
			d.list(l, 0, v, b.Vertex[j], nil, &b.Weight[j])
			j++
		default:
			if a.Weight[i] == b.Weight[j] {
				l.Same++
			} else {
				l.Changed++
				d.list(l, 2, v, a.Vertex[i], &a.Weight[i], &b.Weight[j])
			}
			i, j = i+1, j+1
		}
	}
}

// list lists an edge, unless as many of its kind are listed already.
func (d *graphDiff) list(l *layerDiff, kind, source int, target uint32, before, after *float64) {
	if l.listed[kind] == d.most {
		return
	}
	l.listed[kind]++
	l.Edges = append(l.Edges, edgeDiff{d.names[source], d.names[target], before, after})
}

// labels compares which vertices have which labels.
func (d *graphDiff) labels(a, b *graph.Graph, to []uint32) {
	from := make([]int, len(d.names)) // 1 + the number in b
	for i, n := range to {
		from[n] = i + 1
	}
	of := func(g *graph.Graph, v int) (set []graph.Label) {
		if v >= 0 && v < g.Vertices() {
			for _, label := range g.LabelsOf(v) {
				set = append(set, g.Labels()[label])
			}
		}
		return set
	}
	for v, name := range d.names {
		x, y := of(a, v), of(b, from[v]-1)
		for _, label := range y {
			if !slices.Contains(x, label) {
				d.Labels.add(name+" "+label.String(), d.most)
			}
		}
		for _, label := range x {
			if !slices.Contains(y, label) {
				d.Labels.remove(name+" "+label.String(), d.most)
			}
		}
	}
}

func (d *graphDiff) differ() bool {
	n := d.Vertices.Added + d.Vertices.Removed + d.Names.Changed + d.Labels.Added + d.Labels.Removed
	for _, l := range d.Layers {
		n += l.Added + l.Removed + l.Changed
	}
	return n > 0
}

// text is the difference for people.
func (d *graphDiff) text() string {
	var b strings.Builder
	how := "by name"
	if !d.ByName {
		how = "by number"
	}
	d.Vertices.text(&b, "vertices, "+how)
	if n := d.Names; n.Changed > 0 {
		fmt.Fprintf(&b, "names of vertices: %d changed\n", n.Changed)
		for _, c := range n.First {
			fmt.Fprintf(&b, "  ~ %d: %q, now %q\n", c.Vertex, c.Before, c.After)
		}
		if more := n.Changed - len(n.First); more > 0 {
			fmt.Fprintf(&b, "  … (%d more)\n", more)
		}
	}
	for _, l := range d.Layers {
		fmt.Fprintf(&b, "layer %d: %s added, %d removed, %d of another weight, %d the same\n", l.Layer,
			plural(l.Added, "edge", "edges"), l.Removed, l.Changed, l.Same)
		for _, e := range l.Edges {
			e.Source, e.Target = printable.Text(e.Source), printable.Text(e.Target)
			switch {
			case e.Before == nil:
				fmt.Fprintf(&b, "  + %s → %s  %v\n", e.Source, e.Target, *e.After)
			case e.After == nil:
				fmt.Fprintf(&b, "  - %s → %s  %v\n", e.Source, e.Target, *e.Before)
			default:
				fmt.Fprintf(&b, "  ~ %s → %s  %v, now %v\n", e.Source, e.Target, *e.Before, *e.After)
			}
		}
		if more := l.Added + l.Removed + l.Changed - len(l.Edges); more > 0 {
			fmt.Fprintf(&b, "  … (%d more)\n", more)
		}
	}
	d.Labels.text(&b, "labels of vertices")
	return b.String()
}

func (s *setDiff) text(b *strings.Builder, name string) {
	fmt.Fprintf(b, "%s: %d added, %d removed\n", name, s.Added, s.Removed)
	for _, text := range s.AddedList {
		fmt.Fprintf(b, "  + %s\n", printable.Text(text))
	}
	for _, text := range s.RemovedList {
		fmt.Fprintf(b, "  - %s\n", printable.Text(text))
	}
	if more := s.Added + s.Removed - len(s.AddedList) - len(s.RemovedList); more > 0 {
		fmt.Fprintf(b, "  … (%d more)\n", more)
	}
}
