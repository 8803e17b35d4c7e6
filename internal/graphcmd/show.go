// SPDX-License-Identifier: Apache-2.0

package graphcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/graphfile"
	"github.com/disco-sim/disco/internal/printable"
)

// scenarioRow is a scenario in lists.
type scenarioRow struct {
	Name        string    `json:"name"`
	Created     time.Time `json:"created"`
	Base        string    `json:"base"` // "": none
	Description string    `json:"description"`
}

func rowsOf(all []sqldb.Scenario) []scenarioRow {
	names := map[int64]string{}
	for _, s := range all {
		names[s.ID] = s.Name
	}
	rows := make([]scenarioRow, len(all))
	for i, s := range all {
		rows[i] = scenarioRow{s.Name, s.Created, names[s.Base], s.Description}
	}
	return rows
}

// String is a scenario in one line.
func (r scenarioRow) String() string {
	text := printable.Text(r.Name) + ", made " + r.Created.Format("2006-01-02 15:04:05 UTC")
	if r.Base != "" {
		text += ", based on " + printable.Text(r.Base)
	}
	if r.Description != "" {
		text += ": " + printable.Text(r.Description)
	}
	return text
}

func list(ctx context.Context, c *call) error {
	all, err := c.db.Scenarios(ctx)
	if err != nil {
		return err
	}
	rows := rowsOf(all)
	if c.Bool("json") {
		return c.writeJSON(rows)
	}
	for _, r := range rows {
		if _, err := fmt.Fprintln(c.Stdout, r); err != nil {
			return err
		}
	}
	return nil
}

// plural is a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// size is how large a graph is, for people.
func size(g *graph.Graph) string {
	return fmt.Sprintf("%s, %s in %s, %s", plural(g.Vertices(), "vertex", "vertices"),
		plural(g.Edges(), "edge", "edges"), plural(len(g.Layers()), "layer", "layers"),
		plural(len(g.Labels()), "label", "labels"))
}

// degrees is the least, mean and greatest number of edges of a vertex.
type degrees struct {
	Least int     `json:"least"`
	Mean  float64 `json:"mean"`
	Most  int     `json:"most"`
	At    string  `json:"most_at"` // the first vertex with the most
}

// layerView is what show says of a layer.
type layerView struct {
	Layer      int      `json:"layer"`
	Edges      int      `json:"edges"`
	Out        degrees  `json:"out"`
	In         degrees  `json:"in"`
	Components int      `json:"components"` // of edges in whatever direction
	Cycles     int      `json:"parts_with_cycles"`
	Cycle      []string `json:"first_cycle"`     // from its least vertex; null: none
	Path       []string `json:"critical_path"`   // null where there are cycles
	PathWeight number   `json:"critical_weight"` // null where it is too large for a float64
}

// number is a number that JSON may not have.
type number float64

// MarshalJSON is null for what isn't finite.
func (n number) MarshalJSON() ([]byte, error) {
	if x := float64(n); !math.IsInf(x, 0) && !math.IsNaN(x) {
		return json.Marshal(x)
	}
	return []byte("null"), nil
}

// typeView is what show says of the labels of a type.
type typeView struct {
	Type     string      `json:"type"`
	Vertices int         `json:"vertices"` // with any of them
	Labels   []labelView `json:"labels"`   // most vertices first
}

type labelView struct {
	Value    string `json:"value"`
	Vertices int    `json:"vertices"`
}

type graphView struct {
	scenarioRow
	Vertices int         `json:"vertices"`
	Bytes    int         `json:"bytes_in_memory"`
	Layers   []layerView `json:"layers"`
	Types    []typeView  `json:"label_types"`
}

func show(ctx context.Context, c *call) error {
	var s sqldb.Scenario
	var d *graphfile.Data
	var all []sqldb.Scenario
	err := c.db.Reading(ctx, func() (err error) {
		if s, d, err = c.load(ctx, c.args[0]); err == nil {
			all, err = c.db.Scenarios(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	g := d.Graph
	view := graphView{Vertices: g.Vertices(), Bytes: g.Bytes(), Layers: []layerView{}, Types: []typeView{}}
	for i, r := range rowsOf(all) {
		if all[i].ID == s.ID {
			view.scenarioRow = r
		}
	}
	for _, id := range g.Layers() {
		layer, err := unlessEnded(ctx, func() (layerView, error) { return viewLayer(id, d), nil })
		if err != nil {
			return err
		}
		view.Layers = append(view.Layers, layer)
	}
	for _, t := range g.LabelTypes() {
		view.Types = append(view.Types, viewType(g, t))
	}
	if c.Bool("json") {
		return c.writeJSON(view)
	}
	_, err = fmt.Fprint(c.Stdout, view.text(g, c.Int("most")))
	return err
}

func viewLayer(id int, d *graphfile.Data) layerView {
	l := d.Graph.Layer(id)
	v := layerView{Layer: id, Edges: l.Edges()}
	v.Out = degreesOf(d, func(i int) int { return l.Out(i).Len() })
	v.In = degreesOf(d, func(i int) int { return l.In(i).Len() })
	_, v.Components = l.Components()
	if cycles := l.Cycles(); len(cycles) > 0 {
		v.Cycles, v.Cycle = len(cycles), names(d, cycles[0])
		return v
	}
	if p, err := l.Longest(); err == nil {
		v.Path, v.PathWeight = names(d, p.Vertices), number(p.Weight)
	}
	return v
}

func degreesOf(d *graphfile.Data, of func(int) int) (s degrees) {
	sum := 0
	for v := range d.Vertices {
		n := of(v)
		if v == 0 || n < s.Least {
			s.Least = n
		}
		if v == 0 || n > s.Most {
			s.Most, s.At = n, d.Vertices[v].Name
		}
		sum += n
	}
	s.Mean = float64(sum) / float64(max(1, len(d.Vertices)))
	return s
}

func names(d *graphfile.Data, list []uint32) []string {
	text := make([]string, len(list))
	for i, v := range list {
		text[i] = d.Vertices[v].Name
	}
	return text
}

func viewType(g *graph.Graph, name string) typeView {
	t := typeView{Type: name, Vertices: g.MaskOfType(name).Count()}
	for _, label := range g.LabelsOfType(name) {
		t.Labels = append(t.Labels, labelView{g.Labels()[label].Value, len(g.VerticesWith(int(label)))})
	}
	slices.SortFunc(t.Labels, func(a, b labelView) int {
		return cmp.Or(cmp.Compare(b.Vertices, a.Vertices), cmp.Compare(a.Value, b.Value))
	})
	return t
}

// text is the view for people, with at most so many names in a list.
func (v *graphView) text(g *graph.Graph, most int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n%s, %d bytes in memory\n", v.scenarioRow, size(g), v.Bytes)
	for _, l := range v.Layers {
		fmt.Fprintf(&b, "layer %d: %s, %s\n", l.Layer, plural(l.Edges, "edge", "edges"),
			plural(l.Components, "component", "components"))
		for _, side := range []struct {
			name string
			of   degrees
		}{{"out", l.Out}, {"in", l.In}} {
			fmt.Fprintf(&b, "  edges %-3s of a vertex: %d to %d (%s), mean %.4g\n", side.name, side.of.Least,
				side.of.Most, printable.Text(side.of.At), side.of.Mean)
		}
		if l.Cycles > 0 {
			fmt.Fprintf(&b, "  cycles in %s%s\n", plural(l.Cycles, "part", "parts"),
				joined(", such as ", append(slices.Clone(l.Cycle), l.Cycle[0]), " → ", most))
			continue
		}
		fmt.Fprintf(&b, "  no cycles; critical path of weight %.6g%s\n", l.PathWeight,
			joined(": ", l.Path, " → ", most))
	}
	for _, t := range v.Types {
		var labels []string
		for _, l := range t.Labels {
			labels = append(labels, fmt.Sprintf("%s %d", l.Value, l.Vertices))
		}
		fmt.Fprintf(&b, "labels of type %s, %s%s\n", printable.Text(t.Type),
			plural(t.Vertices, "vertex", "vertices"), joined(": ", labels, ", ", most))
	}
	return b.String()
}

// joined is the first names of a list in one line behind an introduction, and how many more there are; nothing where no
// names are wanted.
func joined(intro string, list []string, between string, most int) string {
	if most == 0 {
		return ""
	}
	more := len(list) - most
	list = slices.Clone(list[:min(most, len(list))])
	for i := range list {
		list[i] = printable.Text(list[i])
	}
	if more > 0 {
		list = append(list, fmt.Sprintf("… (%d more)", more))
	}
	return intro + strings.Join(list, between)
}
