// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/disco-sim/disco/graph"
)

// RecordRows is how many rows a record of users' data has, at most.
const RecordRows = 1 << 16

// VertexRecords is VertexData as Arrow records of at most RecordRows rows. A column is int64, float64 or utf8, as the
// table's is; NULL stays null. Where SQLite holds a value of another kind in a column the error names row and column.
// Records are the caller's, in Go's own memory: nothing has to be released.
func (db *DB) VertexRecords(ctx context.Context, scenario int64, t Table, columns []string, m *graph.Mask,
	each func(arrow.RecordBatch) error) error {
	return db.records(ctx, scenario, t, columns, chosenBy{column: "vertex_index", mask: m}, each)
}

// OutRecords is OutData as VertexRecords has vertices' data.
func (db *DB) OutRecords(ctx context.Context, scenario int64, t Table, columns []string, layer int, m *graph.Mask,
	each func(arrow.RecordBatch) error) error {
	return db.records(ctx, scenario, t, columns, chosenBy{"source_idx", "target_idx", &layer, m}, each)
}

// InRecords is InData as VertexRecords has vertices' data.
func (db *DB) InRecords(ctx context.Context, scenario int64, t Table, columns []string, layer int, m *graph.Mask,
	each func(arrow.RecordBatch) error) error {
	return db.records(ctx, scenario, t, columns, chosenBy{"target_idx", "source_idx", &layer, m}, each)
}

func (db *DB) records(ctx context.Context, scenario int64, t Table, columns []string, by chosenBy,
	each func(arrow.RecordBatch) error) error {
	chosen, err := db.choose(ctx, t, columns, by)
	if err != nil {
		return db.wrap(err)
	}
	b := newRecords(t, chosen)
	err = db.rows(ctx, scenario, t, chosen, by, func(r Row) error {
		if err := b.add(r); err != nil || b.rows%RecordRows != 0 {
			return err
		}
		return each(b.NewRecordBatch())
	})
	if err == nil && b.rows%RecordRows != 0 {
		err = each(b.NewRecordBatch())
	}
	return db.wrap(err)
}

// records makes records of rows.
type records struct {
	*array.RecordBuilder
	table   Table
	columns []Column
	rows    int
	ints    []*array.Int64Builder // by column, and nil for one of another kind
	floats  []*array.Float64Builder
	texts   []*array.StringBuilder
}

func newRecords(t Table, columns []Column) *records {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		types := [...]arrow.DataType{Text: arrow.BinaryTypes.String, Int: arrow.PrimitiveTypes.Int64,
			Float: arrow.PrimitiveTypes.Float64}
		fields[i] = arrow.Field{Name: c.Name, Type: types[c.Kind], Nullable: true}
	}
	b := &records{RecordBuilder: array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil)),
		table: t, columns: columns, ints: make([]*array.Int64Builder, len(columns)),
		floats: make([]*array.Float64Builder, len(columns)), texts: make([]*array.StringBuilder, len(columns))}
	for i, field := range b.Fields() {
		switch f := field.(type) {
		case *array.Int64Builder:
			b.ints[i] = f
		case *array.Float64Builder:
			b.floats[i] = f
		case *array.StringBuilder:
			b.texts[i] = f
		}
	}
	return b
}

func (b *records) add(r Row) error {
	for i, c := range b.columns {
		kind := r.Kind(i)
		switch {
		case r.Null(i):
			b.Field(i).AppendNull()
		case c.Kind == Text:
			b.texts[i].Append(r.Text(i))
		case c.Kind == Int && kind == Int:
			b.ints[i].Append(r.Int(i))
		case c.Kind == Float && kind != Text:
			b.floats[i].Append(r.Float(i))
		default:
			return fmt.Errorf("table %v, row %d of those chosen, column %q: found %v, want %v, as the column is "+
				"declared", b.table, b.rows+1, c.Name, kind, c.Kind)
		}
	}
	b.rows++
	return nil
}
