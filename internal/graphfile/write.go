// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/disco-sim/disco/graph/frame/parquetfile"
	"github.com/disco-sim/disco/internal/outfile"
)

// Write writes a graph; of several files all appear, or, unless the last step fails, none. Layers without edges aren't
// in any file, and labels without vertices neither.
func Write(f Files, d *Data) error {
	if err := f.Check(); err != nil {
		return err
	}
	var files []output
	switch format(f.Graph) {
	case "graphml":
		files = []output{{f.Graph, func(w io.Writer) error { return writeGraphML(w, d) }}}
	case "gml":
		files = []output{{f.Graph, func(w io.Writer) error { return writeGML(w, d) }}}
	default:
		t, err := tablesOf(d, f.ByID)
		if err != nil {
			return err
		}
		files = []output{
			{f.Vertices, func(w io.Writer) error { return t.writeVertices(w, format(f.Vertices)) }},
			{f.Labels, func(w io.Writer) error { return t.writeLabels(w, format(f.Labels)) }},
			{f.Edges, func(w io.Writer) error { return t.writeEdges(w, format(f.Edges)) }},
		}
	}
	return writeAll(files)
}

type output struct {
	path  string
	write func(io.Writer) error
}

func writeAll(files []output) (err error) {
	var open []*outfile.File
	defer func() {
		for _, f := range open {
			f.Abort()
		}
	}()
	for _, o := range files {
		if o.path == "" {
			continue
		}
		f, err := outfile.Create(o.path)
		if err != nil {
			return err
		}
		open = append(open, f)
		w := bufio.NewWriterSize(f, 1<<16)
		if err := errors.Join(o.write(w), w.Flush()); err != nil {
			return outfile.Error(o.path, err)
		}
	}
	for len(open) > 0 {
		f := open[0]
		open = open[1:]
		if err := f.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// tables is a graph as tables.
type tables struct {
	*Data
	byID bool
}

// tablesOf refuses names that don't tell vertices apart.
func tablesOf(d *Data, byID bool) (*tables, error) {
	if !byID {
		first := make(map[string]int, len(d.Vertices))
		for i, v := range d.Vertices {
			if other, twice := first[v.Name]; twice {
				return nil, fmt.Errorf("vertices %d and %d are both called %s: tables can have their numbers instead, "+
					"with --by-id", other, i, quote(v.Name))
			}
			if v.Name == "" {
				return nil, fmt.Errorf("vertex %d has no name: tables can have numbers instead, with --by-id", i)
			}
			first[v.Name] = i
		}
	}
	return &tables{d, byID}, nil
}

// chunk is how many rows are written at once.
const chunk = 1 << 14

// sink takes the records of a table.
type sink interface {
	Write(arrow.RecordBatch) error
	Close() error
}

// table writes a table of columns. fill calls its argument for each row, when the values of the row are in the builder.
func table(w io.Writer, format string, fields []arrow.Field,
	fill func(b *array.RecordBuilder, row func() error) error) (err error) {
	schema := arrow.NewSchema(fields, nil)
	var to sink
	if format == "csv" {
		to, err = newCSVWriter(w, fields)
	} else {
		to, err = parquetfile.NewWriter(w, schema)
	}
	if err != nil {
		return err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	rows := 0
	err = fill(b, func() error {
		if rows++; rows < chunk {
			return nil
		}
		rows = 0
		return to.Write(b.NewRecordBatch())
	})
	if err == nil && rows > 0 {
		err = to.Write(b.NewRecordBatch())
	}
	if err != nil {
		return err
	}
	return to.Close()
}

// vertexField is the column of a vertex, by name or by number.
func (t *tables) vertexField(name string) arrow.Field {
	if t.byID {
		return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64}
	}
	return arrow.Field{Name: name, Type: arrow.BinaryTypes.String}
}

func (t *tables) appendVertex(b array.Builder, v int) {
	if t.byID {
		b.(*array.Int64Builder).Append(int64(v))
	} else {
		b.(*array.StringBuilder).Append(t.Vertices[v].Name)
	}
}

// appendText appends text, and none where it is empty.
func appendText(b array.Builder, text string) {
	if text == "" {
		b.AppendNull()
	} else {
		b.(*array.StringBuilder).Append(text)
	}
}

func (t *tables) writeVertices(w io.Writer, format string) error {
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "entity", Type: arrow.BinaryTypes.String, Nullable: true}}
	return table(w, format, fields, func(b *array.RecordBuilder, row func() error) error {
		for i, v := range t.Vertices {
			b.Field(0).(*array.Int64Builder).Append(int64(i))
			appendText(b.Field(1), v.Name)
			appendText(b.Field(2), v.Entity)
			if err := row(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tables) writeLabels(w io.Writer, format string) error {
	fields := []arrow.Field{t.vertexField("vertex"), {Name: "type", Type: arrow.BinaryTypes.String},
		{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true}}
	list := t.Graph.Labels()
	return table(w, format, fields, func(b *array.RecordBuilder, row func() error) error {
		for v := range t.Graph.Vertices() {
			for _, a := range t.Graph.LabelsOf(v) {
				t.appendVertex(b.Field(0), v)
				b.Field(1).(*array.StringBuilder).Append(list[a].Type)
				appendText(b.Field(2), list[a].Value)
				if err := row(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// writeEdges writes names only where some edge has one.
func (t *tables) writeEdges(w io.Writer, format string) error {
	fields := []arrow.Field{t.vertexField("source"), t.vertexField("target"),
		{Name: "weight", Type: arrow.PrimitiveTypes.Float64}, {Name: "layer", Type: arrow.PrimitiveTypes.Int64}}
	if t.EdgeName != nil {
		fields = append(fields, arrow.Field{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true})
	}
	return table(w, format, fields, func(b *array.RecordBuilder, row func() error) error {
		weights, layers := b.Field(2).(*array.Float64Builder), b.Field(3).(*array.Int64Builder)
		for _, id := range t.Graph.Layers() {
			l := t.Graph.Layer(id)
			for v := range l.Vertices() {
				out := l.Out(v)
				for i, target := range out.Vertex {
					t.appendVertex(b.Field(0), v)
					t.appendVertex(b.Field(1), int(target))
					weights.Append(out.Weight[i])
					layers.Append(int64(id))
					if t.EdgeName != nil {
						appendText(b.Field(4), t.EdgeName(id, l.FirstOut(v)+i))
					}
					if err := row(); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// csvWriter writes records as CSV (RFC 4180, with lines that end as on Unix).
type csvWriter struct {
	w   io.Writer
	buf []byte
}

func newCSVWriter(w io.Writer, fields []arrow.Field) (*csvWriter, error) {
	c := &csvWriter{w: w}
	for i, f := range fields {
		if i > 0 {
			c.buf = append(c.buf, ',')
		}
		c.buf = append(c.buf, f.Name...)
	}
	c.buf = append(c.buf, '\n')
	_, err := w.Write(c.buf)
	return c, err
}

// Write appends a record.
func (c *csvWriter) Write(r arrow.RecordBatch) error {
	for row := range int(r.NumRows()) {
		c.buf = c.buf[:0]
		for i, a := range r.Columns() {
			if i > 0 {
				c.buf = append(c.buf, ',')
			}
			if a.IsNull(row) {
				continue
			}
			switch a := a.(type) {
			case *array.Int64:
				c.buf = strconv.AppendInt(c.buf, a.Value(row), 10)
			case *array.Float64:
				c.buf = strconv.AppendFloat(c.buf, a.Value(row), 'g', -1, 64)
			case *array.String:
				from := a.ValueOffset(row) - a.ValueOffset(0)
				c.field(a.ValueBytes()[from : from+a.ValueLen(row)])
			}
		}
		c.buf = append(c.buf, '\n')
		if _, err := c.w.Write(c.buf); err != nil {
			return err
		}
	}
	return nil
}

// field appends text, in quotes where it needs them.
func (c *csvWriter) field(text []byte) {
	if !bytes.ContainsAny(text, "\",\r\n") {
		c.buf = append(c.buf, text...)
		return
	}
	c.buf = append(c.buf, '"')
	for _, b := range text {
		if b == '"' {
			c.buf = append(c.buf, '"')
		}
		c.buf = append(c.buf, b)
	}
	c.buf = append(c.buf, '"')
}

// Close has nothing to do: a table without rows is a line of names.
func (c *csvWriter) Close() error { return nil }
