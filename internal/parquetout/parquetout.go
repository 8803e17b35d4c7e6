// SPDX-License-Identifier: Apache-2.0

// Package parquetout writes tables as Parquet files: columns of whole numbers, numbers, yes or no, and text, any of
// which may be missing in a row.
//
// Guarantee: memory is bounded by a group of rows, however long a table is, and nothing is allocated for a row once the
// first group was written. Files have one page for each column of a group, as it is (PLAIN), compressed with zstd;
// readers of the format need nothing else. Tests read them with the library of package parquetfile.
//
//	w, err := parquetout.NewWriter(file, []parquetout.Column{{"name", parquetout.Text}, {"x", parquetout.Number}})
//	w.Text(0, "a")
//	w.Number(1, 0.5)
//	err = w.Row()
//	err = w.Close()
//
// Why not that library: it makes every program with a model, each of whose workers is such a program, 13 MB larger. The
// format is that of https://parquet.apache.org/docs/file-format/.
package parquetout

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
)

// Type is what the values of a column are.
type Type uint8

// The types, with their numbers in the format.
const (
	Bool Type = iota
	Int
	Number
	Text
)

var physical = [...]int64{Bool: 0, Int: 2, Number: 5, Text: 6}

// Column is one column.
type Column struct {
	Name string
	Type Type
}

// Bounds of a file.
const (
	ColumnsMax = 1 << 16
	groupRows  = 1 << 17
	groupBytes = 32 << 20 // of all columns: a group ends earlier where it has so many
)

// Writer writes one file. One goroutine uses it.
type Writer struct {
	out     io.Writer
	columns []column
	zstd    *zstd.Encoder
	at      int64 // bytes written
	rows    int   // of the group
	bytes   int   // of the group
	total   int64 // rows before the group
	groups  []byte
	count   int // of groups
	page    []byte
	packed  []byte
	header  thrift
}

// column is a column of the group.
type column struct {
	Column
	values []byte
	bits   int    // of a Bool: values
	levels []byte // runs that have ended, of rows with and without a value
	run    int    // rows of the last one,
	there  bool   // which have a value
	rows   int
}

// NewWriter begins a file.
func NewWriter(out io.Writer, columns []Column) (*Writer, error) {
	if len(columns) == 0 || len(columns) > ColumnsMax {
		return nil, fmt.Errorf("parquetout: found %d columns, want 1 to %d", len(columns), ColumnsMax)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("parquetout: %w", err)
	}
	w := &Writer{out: out, zstd: encoder}
	for _, c := range columns {
		w.columns = append(w.columns, column{Column: c})
	}
	return w, w.write([]byte(magic))
}

const magic = "PAR1"

// Int puts a whole number into a column of the row.
func (w *Writer) Int(i int, x int64) {
	c := &w.columns[i]
	c.values = binary.LittleEndian.AppendUint64(c.values, uint64(x))
	c.note(true)
}

// Number puts a number into a column of the row.
func (w *Writer) Number(i int, x float64) {
	c := &w.columns[i]
	c.values = binary.LittleEndian.AppendUint64(c.values, math.Float64bits(x))
	c.note(true)
}

// Bool puts yes or no into a column of the row.
func (w *Writer) Bool(i int, x bool) {
	c := &w.columns[i]
	if c.bits%8 == 0 {
		c.values = append(c.values, 0)
	}
	if x {
		c.values[c.bits/8] |= 1 << (c.bits % 8)
	}
	c.bits++
	c.note(true)
}

// Text puts a text into a column of the row.
func (w *Writer) Text(i int, x string) {
	c := &w.columns[i]
	c.values = append(binary.LittleEndian.AppendUint32(c.values, uint32(len(x))), x...)
	w.bytes += len(x)
	c.note(true)
}

// note files whether the row has a value.
func (c *column) note(there bool) {
	if c.there != there && c.run > 0 {
		c.endRun()
	}
	c.there = there
	c.run++
	c.rows++
}

func (c *column) endRun() {
	value := byte(0)
	if c.there {
		value = 1
	}
	c.levels = append(binary.AppendUvarint(c.levels, uint64(c.run)<<1), value)
	c.run = 0
}

// Row ends a row: columns into which nothing was put have no value.
func (w *Writer) Row() error {
	w.rows++
	for i := range w.columns {
		if c := &w.columns[i]; c.rows < w.rows {
			c.note(false)
		}
	}
	if w.bytes += 8 * len(w.columns); w.rows == groupRows || w.bytes >= groupBytes {
		return w.flush()
	}
	return nil
}

func (w *Writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.at += int64(n)
	return err
}

// flush writes the group.
func (w *Writer) flush() error {
	if w.rows == 0 {
		return nil
	}
	group := thrift{buf: w.groups}
	group.begin()
	group.list(1, len(w.columns), structType)
	size := int64(0)
	for i := range w.columns {
		start := w.at
		whole, err := w.chunk(&w.columns[i])
		if err != nil {
			return err
		}
		size += whole
		w.columns[i].metadata(&group, start, w.at-start, whole, w.rows)
	}
	group.i64(2, size)
	group.i64(3, int64(w.rows))
	group.end()
	w.groups = group.buf
	w.count++
	w.total += int64(w.rows)
	w.rows, w.bytes = 0, 0
	return nil
}

// chunk writes a column of the group, and returns how many bytes it would have without compression.
func (w *Writer) chunk(c *column) (int64, error) {
	c.endRun()
	w.page = append(binary.LittleEndian.AppendUint32(w.page[:0], uint32(len(c.levels))), c.levels...)
	w.page = append(w.page, c.values...)
	w.packed = w.zstd.EncodeAll(w.page, w.packed[:0])
	const plain, rle = 0, 3
	h := &w.header
	h.buf = h.buf[:0]
	h.begin()
	h.i32(1, 0) // a data page
	h.i32(2, int64(len(w.page)))
	h.i32(3, int64(len(w.packed)))
	h.field(5, structType)
	h.begin()
	h.i32(1, int64(c.rows))
	h.i32(2, plain)
	h.i32(3, rle)
	h.i32(4, rle)
	h.end()
	h.end()
	c.values, c.levels, c.bits, c.run, c.rows = c.values[:0], c.levels[:0], 0, 0, 0
	if err := w.write(h.buf); err != nil {
		return 0, err
	}
	return int64(len(h.buf) + len(w.page)), w.write(w.packed)
}

// metadata appends what the end of the file says of a column of a group.
func (c *column) metadata(t *thrift, start, packed, whole int64, rows int) {
	const plain, rle, zstandard = 0, 3, 6
	t.begin()
	t.i64(2, start)
	t.field(3, structType)
	t.begin()
	t.i32(1, physical[c.Type])
	t.list(2, 2, i32Type)
	t.varint(plain)
	t.varint(rle)
	t.list(3, 1, binaryType)
	t.text(c.Name)
	t.i32(4, zstandard)
	t.i64(5, int64(rows))
	t.i64(6, whole)
	t.i64(7, packed)
	t.i64(9, start)
	t.end()
	t.end()
}

// Close writes the last group and the end of the file.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	const optional, utf8 = 1, 0
	t := &thrift{}
	t.begin()
	t.i32(1, 1)
	t.list(2, 1+len(w.columns), structType)
	t.begin()
	t.field(4, binaryType)
	t.text("table")
	t.i32(5, int64(len(w.columns)))
	t.end()
	for i := range w.columns {
		t.begin()
		t.i32(1, physical[w.columns[i].Type])
		t.i32(3, optional)
		t.field(4, binaryType)
		t.text(w.columns[i].Name)
		if w.columns[i].Type == Text {
			t.i32(6, utf8)
		}
		t.end()
	}
	t.i64(3, w.total)
	t.list(4, w.count, structType)
	t.buf = append(t.buf, w.groups...)
	t.field(6, binaryType)
	t.text("disco")
	t.end()
	b := binary.LittleEndian.AppendUint32(t.buf, uint32(len(t.buf)))
	return w.write(append(b, magic...))
}
