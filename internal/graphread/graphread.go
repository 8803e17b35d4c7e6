// SPDX-License-Identifier: Apache-2.0

// Package graphread reads from a database what a scenario's graph: section asks for.
//
// Guarantee: an answer is of one moment, whatever others write meanwhile, and depends on what the database holds and
// not on the order in which it gives rows; a value that no answer may have is an error which says where it is, what
// was found and what is wanted.
//
//	bytes, err := graphread.Read(ctx, "sqlite:network.db", 30*time.Second, request)
package graphread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/graphdata"
)

// Read answers a request, both in the form of package graphdata. A database that doesn't answer in a time is given up.
func Read(ctx context.Context, url string, timeout time.Duration, request []byte) ([]byte, error) {
	asked, err := graphdata.OpenRequest(request)
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it didn't answer within %v", timeout))
	defer cancel()
	db, err := sqldb.OpenExisting(opening, url)
	switch {
	case errors.Is(err, sqldb.ErrNoTables):
		return nil, fmt.Errorf("%w: `disco-run graph init` makes them", err)
	case err != nil && opening.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("%w (%w)", err, context.Cause(opening))
	case err != nil:
		return nil, err
	}
	r := &reader{ctx: ctx, db: db, asked: asked, data: graphdata.Data{Asked: request}}
	err = db.Reading(ctx, r.read)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	answer, err := r.data.Append(nil)
	if err == nil && len(answer) > graphdata.BytesMax {
		err = fmt.Errorf("scenario %q: found %d bytes of data for this section, want at most %d: choose fewer "+
			"vertices "+
			"or columns", asked.Scenario, len(answer), graphdata.BytesMax)
	}
	return answer, err
}

// reader answers one request.
type reader struct {
	ctx      context.Context
	db       *sqldb.DB
	asked    *graphdata.Request
	data     graphdata.Data
	scenario int64
	labels   *graph.Graph // without layers
	vertices []sqldb.Vertex
	nodes    *nodes
	bytes    int // of all columns so far
}

func (r *reader) read() error {
	s, err := r.db.Find(r.ctx, r.asked.Scenario)
	if err != nil {
		return err
	}
	r.scenario = s.ID
	if r.labels, err = r.db.LoadLabels(r.ctx, s.ID); err != nil {
		return err
	}
	if r.vertices, err = r.db.Vertices(r.ctx, s.ID, nil); err != nil {
		return err
	}
	for _, types := range [][]string{r.asked.Distinct, r.asked.Same, {r.asked.Together}} {
		for _, t := range types {
			if err := r.knowType(t); t != "" && err != nil {
				return err
			}
		}
	}
	if r.nodes, err = r.group(); err != nil {
		return err
	}
	for i := range r.asked.Fills {
		rows, err := r.fill(&r.asked.Fills[i])
		if err != nil {
			return fmt.Errorf("scenario %q: %w", r.asked.Scenario, err)
		}
		r.data.Fills = append(r.data.Fills, *rows)
	}
	return r.together()
}

// knowType refuses a type of labels that there isn't.
func (r *reader) knowType(t string) error {
	if have := r.labels.LabelTypes(); !slices.Contains(have, t) {
		return fmt.Errorf("scenario %q: found no labels of the type %q, want one of %q", r.asked.Scenario, t, have)
	}
	return nil
}

// mask is the vertices that have a label of each choice; nil: all.
func (r *reader) mask(all []graphdata.Choice) (m *graph.Mask, err error) {
	for _, choice := range all {
		if err := r.knowType(choice.Type); err != nil {
			return nil, err
		}
		have := graph.NewMask(r.labels.Vertices())
		for _, value := range choice.Values {
			k, ok := r.labels.FindLabel(graph.Label{Type: choice.Type, Value: value})
			if !ok {
				return nil, fmt.Errorf("found no label %q of the type %q, want one of %s", value, choice.Type,
					r.some(choice.Type))
			}
			have.Or(r.labels.MaskOfLabel(k))
		}
		if m == nil {
			m = have
		} else {
			m.And(have)
		}
	}
	return m, nil
}

// some lists labels of a type, at most ten.
func (r *reader) some(t string) string {
	var values []string
	for _, k := range r.labels.LabelsOfType(t) {
		values = append(values, fmt.Sprintf("%q", r.labels.Labels()[k].Value))
	}
	const most = 10
	if len(values) > most {
		values = append(values[:most], "…")
	}
	return strings.Join(values, ", ")
}

// fill makes the rows of one fill.
func (r *reader) fill(f *graphdata.Fill) (*graphdata.Rows, error) {
	from, err := r.mask(f.Vertices)
	if err != nil {
		return nil, err
	}
	to, err := r.mask(f.Targets)
	if err != nil {
		return nil, err
	}
	t := &table{rows: &graphdata.Rows{}}
	switch {
	case f.Of == graphdata.Nodes:
		r.nodeRows(t, from)
	case f.Of == graphdata.Vertices && f.Table.Name == "":
		r.vertexRows(t, from)
	case f.Of == graphdata.Vertices:
		err = r.vertexTable(t, f, from)
	case f.Of == graphdata.Edges:
		err = r.edgeRows(t, f, from, to)
	default:
		err = fmt.Errorf("a request for rows of %q", f.Of)
	}
	if err != nil {
		return nil, err
	}
	t.sort()
	if t.rows.Len = len(t.rows.First); t.rows.Len > graphdata.RowsMax {
		return nil, fmt.Errorf("found %d %s, want at most %d: choose some by labels", t.rows.Len, f.Of,
			graphdata.RowsMax)
	}
	for _, c := range f.Columns {
		v, err := r.column(t, f, c)
		if err != nil {
			return nil, err
		}
		if r.bytes += v.Bytes(); r.bytes > graphdata.BytesMax {
			return nil, fmt.Errorf("found more than %d bytes for this section, want at most so many: choose fewer "+
				"vertices or columns", graphdata.BytesMax)
		}
		t.rows.Columns = append(t.rows.Columns, v)
	}
	return t.rows, nil
}

// vertexRows has a row for each vertex.
func (r *reader) vertexRows(t *table, m *graph.Mask) {
	for v := range r.labels.Vertices() {
		if m == nil || m.Has(v) {
			t.rows.First = append(t.rows.First, uint32(v))
		}
	}
}

// edgeRows has a row for each edge of a layer, or for each row of a user's table about these.
func (r *reader) edgeRows(t *table, f *graphdata.Fill, from, to *graph.Mask) error {
	layer, err := r.db.Out(r.ctx, r.scenario, f.Layer, from)
	if err != nil {
		return err
	}
	if f.Table.Name != "" {
		return r.edgeTable(t, f, layer, from, to)
	}
	for v := range layer.Vertices() {
		row := layer.Out(v)
		for i, w := range row.Vertex {
			if to == nil || to.Has(int(w)) {
				t.rows.First, t.rows.Second = append(t.rows.First, uint32(v)), append(t.rows.Second, w)
				t.weight = append(t.weight, row.Weight[i])
			}
		}
	}
	return nil
}

// column makes one column of rows that are in their order.
func (r *reader) column(t *table, f *graphdata.Fill, c graphdata.Column) (v graphdata.Values, err error) {
	what, ends := c.What, t.rows.First
	if f.Of == graphdata.Edges {
		if rest, ok := strings.CutPrefix(what, "target"); ok {
			what, ends = rest, t.rows.Second
		} else {
			what = strings.TrimPrefix(what, "source")
		}
		what = map[string]string{"": "name", "_index": "index", "_node": "node", "_label": "label"}[what]
		if what == "" {
			what = c.What // that of the edge itself
		}
	}
	switch what {
	case "column":
		return t.column(c.Of), nil
	case "weight":
		v.Kind = graphdata.Float
		for _, w := range t.weight {
			v.AddFloat(w)
		}
		return v, nil
	case "index":
		v.Kind = graphdata.Int
		for _, x := range ends {
			v.AddInt(int64(x))
		}
		return v, nil
	case "size":
		v.Kind = graphdata.Int
		for _, x := range ends {
			v.AddInt(int64(r.nodes.size[x]))
		}
		return v, nil
	case "edge":
		return r.edgeNames(t, f.Layer)
	case "label":
		return r.labelColumn(ends, f.Of == graphdata.Nodes, c.Of)
	}
	texts := map[string]func(x uint32) string{"name": func(x uint32) string { return r.vertices[x].Name },
		"entity": func(x uint32) string { return r.vertices[x].Entity },
		"node":   func(x uint32) string { return r.nodes.name(x) }}[what]
	if texts == nil {
		return v, fmt.Errorf("a request for the column %v of %s", c, f.Of)
	}
	for _, x := range ends {
		if text := texts(x); text != "" {
			v.AddText(text)
		} else {
			v.AddNone()
		}
	}
	return v, nil
}

// labelColumn is the label of a type that each vertex has, or each node, whose vertices ends has the least ones of.
func (r *reader) labelColumn(ends []uint32, ofNodes bool, t string) (v graphdata.Values, err error) {
	if err := r.knowType(t); err != nil {
		return v, err
	}
	const none, several = -1, -2
	value := make([]int, r.labels.Vertices())
	for i := range value {
		value[i] = none
	}
	for _, k := range r.labels.LabelsOfType(t) {
		for _, x := range r.labels.VerticesWith(int(k)) {
			if ofNodes {
				x = r.nodes.of[x]
			}
			switch value[x] {
			case none, int(k):
				value[x] = int(k)
			default:
				value[x] = several
			}
		}
	}
	for _, x := range ends {
		switch k := value[x]; k {
		case none:
			v.AddNone()
		case several:
			what := fmt.Sprintf("vertex %q", r.vertices[x].Name)
			if ofNodes {
				what = fmt.Sprintf("node %q", r.nodes.name(x))
			}
			return v, fmt.Errorf("%s: found several labels of the type %q, want at most one", what, t)
		default:
			v.AddText(r.labels.Labels()[k].Value)
		}
	}
	return v, nil
}

// edgeNames is what edges are called.
func (r *reader) edgeNames(t *table, layer int) (v graphdata.Values, err error) {
	type pair struct{ source, target uint32 }
	names := map[pair]string{}
	err = r.db.EdgeNames(r.ctx, r.scenario, func(l int, source, target uint32, name string) error {
		if l == layer {
			names[pair{source, target}] = name
		}
		return nil
	})
	for i, x := range t.rows.First {
		name, ok := names[pair{x, t.rows.Second[i]}]
		if !ok { // as the database has it
			name = fmt.Sprintf("%d>%d", x, t.rows.Second[i])
		}
		v.AddText(name)
	}
	return v, err
}
