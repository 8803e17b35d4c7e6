// SPDX-License-Identifier: Apache-2.0

package graphread

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/graphdata"
)

// table is the rows of a fill while they are made.
type table struct {
	rows    *graphdata.Rows
	weight  []float64 // of edges
	columns map[string]*graphdata.Values
	names   []string // of columns, in the order in which they were asked for
}

func sqldbTable(t graphdata.Table) sqldb.Table { return sqldb.Table{Schema: t.Schema, Name: t.Name} }

// wanted lists the columns of a user's table that are read: those of vertices, and those that a fill asks for, which
// may be among them.
func (t *table) wanted(f *graphdata.Fill, ofVertices ...string) []string {
	list := slices.Clone(ofVertices)
	for _, c := range f.Columns {
		if c.What != "column" {
			continue
		}
		t.names = append(t.names, c.Of)
		if !slices.Contains(list, c.Of) {
			list = append(list, c.Of)
		}
	}
	return list
}

// add takes a record of a user's table.
func (t *table) add(record arrow.RecordBatch) error {
	if t.columns == nil {
		t.columns = map[string]*graphdata.Values{}
	}
	for i, field := range record.Schema().Fields() {
		v := t.columns[field.Name]
		if v == nil {
			v = &graphdata.Values{Kind: map[arrow.Type]graphdata.Kind{arrow.INT64: graphdata.Int,
				arrow.FLOAT64: graphdata.Float}[field.Type.ID()]}
			t.columns[field.Name] = v
		}
		if err := addColumn(v, record.Column(i)); err != nil {
			return fmt.Errorf("column %q, row %d of those chosen: %w", field.Name, v.Len()+1, err)
		}
	}
	for _, v := range t.columns {
		if v.Len() > graphdata.RowsMax || v.Bytes() > graphdata.BytesMax {
			return fmt.Errorf("found more than %d rows or %d bytes in a column, want at most so many: choose fewer "+
				"vertices", graphdata.RowsMax, graphdata.BytesMax)
		}
	}
	return nil
}

// addColumn adds an array to a column.
func addColumn(v *graphdata.Values, from arrow.Array) error {
	for i := range from.Len() {
		if from.IsNull(i) {
			v.AddNone()
			continue
		}
		switch a := from.(type) {
		case *array.Int64:
			v.AddInt(a.Value(i))
		case *array.Float64:
			x := a.Value(i)
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("found %v, want a finite number", x)
			}
			v.AddFloat(x)
		case *array.String:
			v.AddText(a.Value(i))
		default:
			return fmt.Errorf("found values of type %v, want numbers or text", from.DataType())
		}
	}
	return nil
}

// column is one of a user's table, which is empty where the table has no rows.
func (t *table) column(name string) graphdata.Values {
	if v := t.columns[name]; v != nil {
		return *v
	}
	return graphdata.Values{}
}

// sort puts rows into an order that the database has no part in: by vertices, and those of the same ones by values.
func (t *table) sort() {
	if len(t.columns) == 0 {
		return // they come of a graph
	}
	n := len(t.rows.First)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	compare := func(a, b int) int {
		c := cmp.Compare(t.rows.First[a], t.rows.First[b])
		if c == 0 && t.rows.Second != nil {
			c = cmp.Compare(t.rows.Second[a], t.rows.Second[b])
		}
		for _, name := range t.names {
			if c != 0 {
				break
			}
			c = t.columns[name].Compare(a, b)
		}
		return c
	}
	slices.SortFunc(order, compare)
	if sort.IntsAreSorted(order) {
		return
	}
	t.rows.First, t.rows.Second = picked(t.rows.First, order), picked(t.rows.Second, order)
	t.weight = picked(t.weight, order)
	for name, v := range t.columns {
		sorted := v.In(order)
		t.columns[name] = &sorted
	}
}

func picked[T any](values []T, order []int) []T {
	if values == nil {
		return nil
	}
	to := make([]T, len(order))
	for i, k := range order {
		to[i] = values[k]
	}
	return to
}
