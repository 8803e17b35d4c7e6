// SPDX-License-Identifier: Apache-2.0

// Package frame has what a graph is, and what is computed from it, as Apache Arrow records, for people's own tools:
// data frames, files that other languages read, and columns that they compute with.
//
// Guarantee: numbers aren't copied. A record shares the memory of what it is made of, is valid as long as somebody has
// it, and needn't be released; it may not be changed. Nothing is allocated for each row; text is copied once.
//
//	edges := frame.Edges(g.Layer(0)) // source, target, weight
//	err := frame.Write(file, edges) // an Arrow file
//
// Users' own tables are Arrow records in package sqldb (VertexRecords and so on), and Parquet files are written and
// read by package parquetfile.
package frame

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/disco-sim/disco/graph"
)

// Column is one column of a record: []uint32, []int32, []int64, []float64, []bool or []string.
type Column struct {
	Name   string
	Values any
}

// Record is a record of these columns. An error names a column that isn't one of the types, or not as long as the
// first. Cost: constant for numbers, the length for others.
func Record(columns ...Column) (arrow.RecordBatch, error) {
	fields, arrays := make([]arrow.Field, len(columns)), make([]arrow.Array, len(columns))
	rows := 0
	for i, c := range columns {
		a := arrayOf(c.Values)
		if a == nil {
			return nil, fmt.Errorf("frame: column %q: found a %T, want a []uint32, []int32, []int64, []float64, "+
				"[]bool or []string", c.Name, c.Values)
		}
		if i == 0 {
			rows = a.Len()
		}
		if a.Len() != rows {
			return nil, fmt.Errorf("frame: column %q: found %d values, want %d, as column %q has", c.Name, a.Len(),
				rows, columns[0].Name)
		}
		fields[i], arrays[i] = arrow.Field{Name: c.Name, Type: a.DataType()}, a
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(rows)), nil
}

// record is Record of columns that are as they must be.
func record(columns ...Column) arrow.RecordBatch {
	r, err := Record(columns...)
	if err != nil {
		panic(err)
	}
	return r
}

func arrayOf(values any) arrow.Array {
	switch v := values.(type) {
	case []uint32:
		return shared(arrow.PrimitiveTypes.Uint32, v)
	case []int32:
		return shared(arrow.PrimitiveTypes.Int32, v)
	case []int64:
		return shared(arrow.PrimitiveTypes.Int64, v)
	case []float64:
		return shared(arrow.PrimitiveTypes.Float64, v)
	case []bool:
		b := array.NewBooleanBuilder(memory.DefaultAllocator)
		b.AppendValues(v, nil)
		return b.NewArray()
	case []string:
		b := array.NewStringBuilder(memory.DefaultAllocator)
		b.AppendValues(v, nil)
		return b.NewArray()
	}
	return nil
}

// shared is an array in the memory of a slice.
func shared[T uint32 | int32 | int64 | float64](of arrow.DataType, values []T) arrow.Array {
	bytes := memory.NewBufferBytes(arrow.GetBytes(values))
	return array.MakeFromData(array.NewData(of, len(values), []*memory.Buffer{nil, bytes}, nil, 0, 0))
}

// Edges is all edges of a layer, by source and target: source, target and weight. Cost: m for the sources; targets and
// weights are those of the layer.
func Edges(l *graph.Layer) arrow.RecordBatch {
	e := l.Columns()
	return record(Column{"source", e.Source}, Column{"target", e.Target}, Column{"weight", e.Weight})
}

// Degrees has for each vertex how many edges begin and how many end at it: vertex, out and in. Cost: n.
func Degrees(l *graph.Layer) arrow.RecordBatch {
	out, in := make([]uint32, l.Vertices()), make([]uint32, l.Vertices())
	for v := range out {
		out[v], in[v] = uint32(l.Out(v).Len()), uint32(l.In(v).Len())
	}
	return record(Column{"vertex", upTo(l.Vertices())}, Column{"out", out}, Column{"in", in})
}

// Labels is all labels by number: label, type and value. Cost: l.
func Labels(g *graph.Graph) arrow.RecordBatch {
	list := g.Labels()
	types, values := make([]string, len(list)), make([]string, len(list))
	for i, l := range list {
		types[i], values[i] = l.Type, l.Value
	}
	return record(Column{"label", upTo(len(list))}, Column{"type", types}, Column{"value", values})
}

// Labelled is which vertex has which label: vertex and label, rising. Cost: the number of assignments.
func Labelled(g *graph.Graph) arrow.RecordBatch {
	n := 0
	for v := range g.Vertices() {
		n += len(g.LabelsOf(v))
	}
	vertex, label := make([]uint32, 0, n), make([]uint32, 0, n)
	for v := range g.Vertices() {
		for _, a := range g.LabelsOf(v) {
			vertex, label = append(vertex, uint32(v)), append(label, a)
		}
	}
	return record(Column{"vertex", vertex}, Column{"label", label})
}

// Mask is the vertices in m: vertex, rising. Cost: n/64, and one for each.
func Mask(m *graph.Mask) arrow.RecordBatch { return record(Column{"vertex", m.Vertices()}) }

// Vertices is columns of what is known of each vertex, such as its component, behind their numbers: vertex and these.
// An error names a column that isn't as long.
func Vertices(n int, columns ...Column) (arrow.RecordBatch, error) {
	return Record(append([]Column{{"vertex", upTo(n)}}, columns...)...)
}

// Path is the vertices of a path in their order, and what is weighed up to each of them: vertex and weight. l is the
// layer that it leads through. An error names an edge that there isn't.
func Path(l *graph.Layer, p graph.Path) (arrow.RecordBatch, error) {
	weight := make([]float64, len(p.Vertices))
	for i := 1; i < len(p.Vertices); i++ {
		from, to := int(p.Vertices[i-1]), int(p.Vertices[i])
		at, ok := 0, false
		if from < l.Vertices() && to < l.Vertices() {
			at, ok = l.Find(from, to)
		}
		if !ok {
			return nil, fmt.Errorf("frame: the layer has no edge from vertex %d to vertex %d of the path", from, to)
		}
		weight[i] = weight[i-1] + l.Out(from).Weight[at-l.FirstOut(from)]
	}
	return Record(Column{"vertex", p.Vertices}, Column{"weight", weight})
}

func upTo(n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = uint32(i)
	}
	return list
}

// Write writes records of one schema as an Arrow IPC file ("Feather", version 2), which programs can map and use as it
// is.
func Write(w io.Writer, records ...arrow.RecordBatch) error {
	if len(records) == 0 {
		return fmt.Errorf("frame: found no records to be written, want one at least, perhaps without rows")
	}
	schema := records[0].Schema()
	f, err := ipc.NewFileWriter(w, ipc.WithSchema(schema))
	if err != nil {
		return err
	}
	for i, r := range records {
		if !r.Schema().Equal(schema) {
			return fmt.Errorf("frame: record %d has the columns %v, want %v, as the first has", i, r.Schema(), schema)
		}
		if err := f.Write(r); err != nil {
			return err
		}
	}
	return f.Close()
}
