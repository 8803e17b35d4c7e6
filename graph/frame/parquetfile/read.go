// SPDX-License-Identifier: Apache-2.0

package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of a file: of what describes it, and of its columns.
const (
	footerMax  = 64 << 20
	columnsMax = 10_000
)

// recordRows is how many rows a record has that is read, at most.
const recordRows = 1 << 14

// Reader reads one file. One goroutine uses it.
type Reader struct {
	in      io.ReaderAt
	size    int64
	file    *parquet.File
	columns []string
	leaves  []parquet.LeafColumn
}

// Open reads what a file of this size says of itself.
func Open(r io.ReaderAt, size int64) (reader *Reader, err error) {
	defer damaged(&err)
	if err := checkFooter(r, size); err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("parquetfile: %w", err)
	}
	reader = &Reader{in: r, size: size, file: file}
	fields := file.Root().Columns()
	if len(fields) > columnsMax {
		return nil, fmt.Errorf("parquetfile: found %d columns, want at most %d", len(fields), columnsMax)
	}
	for _, c := range fields {
		leaf := parquet.LeafColumn{ColumnIndex: -1}
		if c.Leaf() && !c.Repeated() {
			leaf, _ = file.Schema().Lookup(c.Name())
		}
		reader.columns, reader.leaves = append(reader.columns, c.Name()), append(reader.leaves, leaf)
	}
	return reader, nil
}

// checkFooter holds that what describes the file lies in it, and is no larger than it may be: the library would ask for
// as much memory as the file says.
func checkFooter(r io.ReaderAt, size int64) error {
	const ends = 12 // the first four bytes and the last eight
	var tail [8]byte
	if size < ends {
		return fmt.Errorf("parquetfile: found %d bytes, want a Parquet file", size)
	}
	if _, err := r.ReadAt(tail[:], size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("parquetfile: %w", err)
	}
	if string(tail[4:]) != "PAR1" {
		return fmt.Errorf("parquetfile: the file doesn't end as a Parquet file does: is it cut short, or of another " +
			"format?")
	}
	if n := int64(binary.LittleEndian.Uint32(tail[:])); n > min(size-ends, footerMax) {
		return fmt.Errorf("parquetfile: found a footer of %d bytes, want at most %d: the file is damaged", n,
			min(size-ends, footerMax))
	}
	return nil
}

// damaged makes an error of a panic: the library has some for bytes that no writer makes.
func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("parquetfile: the file is damaged: %v", p)
	}
}

// Columns lists the names of all columns, in their order.
func (r *Reader) Columns() []string { return r.columns }

// Rows is how many rows there are.
func (r *Reader) Rows() int64 { return r.file.NumRows() }

// Read calls each for the rows of these columns, in records of some thousand rows, which are the caller's. Whole
// numbers are int64, numbers float64, text utf8, and yes or no bool. A column of another kind, such as a list, or one
// that there isn't, is an error that names it. An error of each ends it.
func (r *Reader) Read(columns []string, each func(arrow.RecordBatch) error) (err error) {
	var of error // of each: not of the file
	defer func() {
		if of == nil {
			damaged(&err)
		}
	}()
	fields, leaves := make([]arrow.Field, len(columns)), make([]parquet.LeafColumn, len(columns))
	for i, name := range columns {
		t, leaf, err := r.typeOf(name)
		if err != nil {
			return err
		}
		fields[i], leaves[i] = arrow.Field{Name: name, Type: t, Nullable: true}, leaf
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	row := int64(0)
	for i, group := range r.file.RowGroups() {
		for _, leaf := range leaves {
			if err := r.checkPages(&r.file.Metadata().RowGroups[i].Columns[leaf.ColumnIndex].MetaData); err != nil {
				return fmt.Errorf("parquetfile: behind row %d: column %q: %w", row, leaf.Path[0], err)
			}
		}
		n, err := readGroup(b, group, leaves, func(rec arrow.RecordBatch) error {
			of = each(rec)
			return of
		})
		if row += n; err != nil {
			if of != nil {
				return of
			}
			return fmt.Errorf("parquetfile: behind row %d: %w", row, err)
		}
	}
	return nil
}

// typeOf finds a column, and what it is read as.
func (r *Reader) typeOf(name string) (arrow.DataType, parquet.LeafColumn, error) {
	for i, c := range r.columns {
		if c != name {
			continue
		}
		if leaf := r.leaves[i]; leaf.ColumnIndex >= 0 {
			switch leaf.Node.Type().Kind() {
			case parquet.Boolean:
				return arrow.FixedWidthTypes.Boolean, leaf, nil
			case parquet.Int32, parquet.Int64:
				if _, decimal := logical(leaf).(*format.DecimalType); !decimal {
					return arrow.PrimitiveTypes.Int64, leaf, nil
				}
			case parquet.Float, parquet.Double:
				return arrow.PrimitiveTypes.Float64, leaf, nil
			case parquet.ByteArray:
				return arrow.BinaryTypes.String, leaf, nil
			}
		}
		return nil, parquet.LeafColumn{}, fmt.Errorf("parquetfile: column %q is a list, a group, or of a type that "+
			"isn't read: want whole numbers, numbers, text, or yes or no", name)
	}
	return nil, parquet.LeafColumn{}, fmt.Errorf("parquetfile: found no column %q, want one of %q", name, r.columns)
}

// logical is what the values of a column mean, beside how they are kept; nil: nothing else.
func logical(leaf parquet.LeafColumn) format.LogicalTypeValue {
	if t := leaf.Node.Type().LogicalType(); t != nil {
		return t.Value
	}
	return nil
}

// readGroup reads a group of rows, and returns of how many it has given records.
func readGroup(b *array.RecordBuilder, group parquet.RowGroup, leaves []parquet.LeafColumn,
	each func(arrow.RecordBatch) error) (done int64, err error) {
	chunks := make([]chunk, len(leaves))
	defer func() {
		for i := range chunks {
			err = errors.Join(err, chunks[i].close())
		}
	}()
	for i, leaf := range leaves {
		pages := group.ColumnChunks()[leaf.ColumnIndex].Pages()
		chunks[i] = chunk{pages: pages, builder: b.Field(i), leaf: leaf, values: make([]parquet.Value, 1024)}
		if whole, ok := logical(leaf).(*format.IntType); ok {
			chunks[i].unsigned = !whole.IsSigned
		}
	}
	for done < group.NumRows() {
		n := min(recordRows, group.NumRows()-done)
		for i := range chunks {
			if err := chunks[i].read(int(n)); err != nil {
				return done, fmt.Errorf("column %q: %w", leaves[i].Path[0], err)
			}
		}
		if err := each(b.NewRecordBatch()); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// chunk is the values of one column in a group of rows.
type chunk struct {
	pages    parquet.Pages
	page     parquet.Page // nil: the next one is to be read
	rest     parquet.ValueReader
	builder  array.Builder
	leaf     parquet.LeafColumn
	unsigned bool
	values   []parquet.Value
}

func (c *chunk) close() error {
	if c.pages == nil {
		return nil
	}
	if c.page != nil {
		parquet.Release(c.page)
	}
	return c.pages.Close()
}

// read appends the next n values to the builder.
func (c *chunk) read(n int) error {
	for n > 0 {
		if c.page == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("it ends %d values before the others: the file is damaged", n)
			}
			if err != nil {
				return err
			}
			c.page, c.rest = page, page.Values()
		}
		got, err := c.rest.ReadValues(c.values[:min(n, len(c.values))])
		for i := range c.values[:got] {
			if err := c.add(&c.values[i]); err != nil {
				return err
			}
		}
		n -= got
		switch {
		case errors.Is(err, io.EOF) || err == nil && got == 0:
			parquet.Release(c.page)
			c.page = nil
		case err != nil:
			return err
		}
	}
	return nil
}

func (c *chunk) add(v *parquet.Value) error {
	if v.IsNull() {
		c.builder.AppendNull()
		return nil
	}
	switch b := c.builder.(type) {
	case *array.BooleanBuilder:
		b.Append(v.Boolean())
	case *array.Int64Builder:
		x := v.Int64()
		switch {
		case v.Kind() == parquet.Int32 && c.unsigned:
			x = int64(uint32(v.Int32()))
		case v.Kind() == parquet.Int32:
			x = int64(v.Int32())
		case c.unsigned && uint64(x) > math.MaxInt64:
			return fmt.Errorf("found %d, want at most %d", uint64(x), int64(math.MaxInt64))
		}
		b.Append(x)
	case *array.Float64Builder:
		if v.Kind() == parquet.Float {
			b.Append(float64(v.Float()))
		} else {
			b.Append(v.Double())
		}
	case *array.StringBuilder:
		b.BinaryBuilder.Append(v.ByteArray())
	}
	return nil
}
