// SPDX-License-Identifier: Apache-2.0

package parquetfile

import (
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/parquet-go/parquet-go"
)

// groupRows is how many rows a group has: a writer keeps one of them in memory.
const groupRows = 1 << 20

// Writer writes one file. One goroutine uses it.
type Writer struct {
	file    *parquet.GenericWriter[any]
	schema  *arrow.Schema
	columns []*parquet.ColumnWriter
	values  []parquet.Value
	rows    int // of the group
}

// NewWriter begins a file of a schema. Columns may be int32, int64, uint32, float64, bool and utf8; an error names one
// that isn't.
func NewWriter(w io.Writer, schema *arrow.Schema) (*Writer, error) {
	root := ordered{Group: parquet.Group{}}
	for _, f := range schema.Fields() {
		node := nodeOf(f.Type)
		if node == nil {
			return nil, fmt.Errorf("parquetfile: column %q: found %v, want int32, int64, uint32, float64, bool or utf8",
				f.Name, f.Type)
		}
		if f.Nullable {
			node = parquet.Optional(node)
		}
		if _, twice := root.Group[f.Name]; twice {
			return nil, fmt.Errorf("parquetfile: found two columns %q, want one of a name", f.Name)
		}
		root.Group[f.Name] = node
		root.names = append(root.names, f.Name)
	}
	if len(root.names) == 0 {
		return nil, fmt.Errorf("parquetfile: found no columns, want one at least")
	}
	file := parquet.NewGenericWriter[any](w, parquet.NewSchema("table", root), parquet.Compression(&parquet.Snappy))
	return &Writer{file: file, schema: schema, columns: file.ColumnWriters(), values: make([]parquet.Value, 4096)}, nil
}

// ordered is a group whose fields are in the order of names; that of the library sorts them.
type ordered struct {
	parquet.Group
	names []string
}

// Fields lists the fields in their order.
func (o ordered) Fields() []parquet.Field {
	fields := o.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int {
		return slices.Index(o.names, a.Name()) - slices.Index(o.names, b.Name())
	})
	return fields
}

func nodeOf(t arrow.DataType) parquet.Node {
	switch t.ID() {
	case arrow.INT32:
		return parquet.Int(32)
	case arrow.INT64:
		return parquet.Int(64)
	case arrow.UINT32:
		return parquet.Uint(32)
	case arrow.FLOAT64:
		return parquet.Leaf(parquet.DoubleType)
	case arrow.BOOL:
		return parquet.Leaf(parquet.BooleanType)
	case arrow.STRING:
		return parquet.String()
	}
	return nil
}

// Write appends a record.
func (w *Writer) Write(r arrow.RecordBatch) error {
	if !r.Schema().Equal(w.schema) {
		return fmt.Errorf("parquetfile: found a record of %v, want %v, as the file has", r.Schema(), w.schema)
	}
	for from := 0; from < int(r.NumRows()); {
		to := min(from+groupRows-w.rows, int(r.NumRows()))
		for i, c := range w.columns {
			if err := w.column(i, c, r.Column(i), from, to); err != nil {
				return fmt.Errorf("parquetfile: column %q: %w", w.schema.Field(i).Name, err)
			}
		}
		w.rows += to - from
		if from = to; w.rows == groupRows {
			if err := w.file.Flush(); err != nil {
				return fmt.Errorf("parquetfile: %w", err)
			}
			w.rows = 0
		}
	}
	return nil
}

// column writes rows [from, to) of a column by its number.
func (w *Writer) column(number int, c *parquet.ColumnWriter, a arrow.Array, from, to int) error {
	level := 0
	if w.schema.Field(number).Nullable {
		level = 1
	}
	for from < to {
		n := min(len(w.values), to-from)
		for i := range n {
			if a.IsNull(from + i) {
				w.values[i] = parquet.NullValue().Level(0, 0, number)
				continue
			}
			w.values[i] = valueOf(a, from+i).Level(0, level, number)
		}
		if _, err := c.WriteRowValues(w.values[:n]); err != nil {
			return err
		}
		from += n
	}
	return nil
}

func valueOf(a arrow.Array, i int) parquet.Value {
	switch a := a.(type) {
	case *array.Int32:
		return parquet.Int32Value(a.Value(i))
	case *array.Int64:
		return parquet.Int64Value(a.Value(i))
	case *array.Uint32:
		return parquet.Int32Value(int32(a.Value(i))) // as the logical type uint32 has it
	case *array.Float64:
		return parquet.DoubleValue(a.Value(i))
	case *array.Boolean:
		return parquet.BooleanValue(a.Value(i))
	case *array.String:
		from := a.ValueOffset(i) - a.ValueOffset(0)
		return parquet.ByteArrayValue(a.ValueBytes()[from : from+a.ValueLen(i)])
	}
	panic(fmt.Sprintf("parquetfile: a column of %v", a.DataType())) // NewWriter has refused it
}

// Close ends the file, which isn't one before. It doesn't close what it is written to.
func (w *Writer) Close() error {
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("parquetfile: %w", err)
	}
	return nil
}
