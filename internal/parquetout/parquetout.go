// SPDX-License-Identifier: Apache-2.0

// Package parquetout writes tables as Parquet files: columns of whole numbers, numbers, yes or no, text, and names of a
// list, any of which may be missing in a row.
//
// Guarantee: memory is bounded by a group of rows, however long a table is, and nothing is allocated for a row once the
// first group was written. The same rows are the same bytes. Files have one page for each column of a group, as it is
// (PLAIN), but for names, which are numbers of those in a page in front (RLE_DICTIONARY); both compressed with zstd.
// Readers of the format need nothing else. Tests read them with the library of package parquetfile, with pyarrow and
// with DuckDB.
//
//	w, err := parquetout.NewWriter(file, []parquetout.Column{{"name", parquetout.Text}, {"x", parquetout.Number}})
//	w.Text(0, "a")
//	w.Number(1, 0.5)
//	err = w.Row()
//	err = w.Close()
//
// Why not a library: docs/outputs.md, "Which writer". The format is that of
// https://parquet.apache.org/docs/file-format/.
package parquetout

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"

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
	Name // a text that is one of few, or many: given by its number
)

var physical = [...]int64{Bool: 0, Int: 2, Number: 5, Text: 6, Name: 6}

// Column is one column.
type Column struct {
	Name string
	Type Type

	// NameOf gives the text of a number, from 0 on, where Type is Name: always the same.
	NameOf func(number int) string
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
	names  []byte  // of a Name: those of the group, as a page has them
	codes  []int32 // by number: 1 + its place among them, 0: the group hasn't it
	used   []int32 // the numbers, by place
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

// Name puts the text with a number, 0 or above, into a column of the row. Memory is 4 bytes for each number up to the
// highest.
func (w *Writer) Name(i, number int) {
	c := &w.columns[i]
	if number >= len(c.codes) || c.codes[number] == 0 {
		w.bytes += c.add(number)
	}
	c.values = binary.LittleEndian.AppendUint32(c.values, uint32(c.codes[number]-1))
	c.note(true)
}

// add takes a name into the group's, and returns how many bytes it has.
func (c *column) add(number int) int {
	if missing := number + 1 - len(c.codes); missing > 0 {
		c.codes = append(c.codes, make([]int32, missing)...)
	}
	text := c.NameOf(number)
	c.names = append(binary.LittleEndian.AppendUint32(c.names, uint32(len(text))), text...)
	c.used = append(c.used, int32(number))
	c.codes[number] = int32(len(c.used))
	return len(text)
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
		rows, whole, err := w.chunk(&w.columns[i])
		if err != nil {
			return err
		}
		size += whole
		w.columns[i].metadata(&group, [2]int64{start, rows}, w.at-start, whole, w.rows)
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

// Encodings, with their numbers in the format.
const (
	plain      = 0
	rle        = 3
	dictionary = 8
)

// Kinds of pages, with the fields that they have in a page's header.
const (
	dataPage, dataField             = 0, 5
	dictionaryPage, dictionaryField = 2, 7
)

// chunk writes a column of the group. It returns where the page with its rows begins, and how many bytes it would have
// without compression.
func (w *Writer) chunk(c *column) (rows, whole int64, err error) {
	c.endRun()
	encoding := int64(plain)
	if c.Type == Name {
		encoding = dictionary
		if whole, err = w.names(c); err != nil {
			return 0, 0, err
		}
	}
	rows = w.at
	w.page = append(binary.LittleEndian.AppendUint32(w.page[:0], uint32(len(c.levels))), c.levels...)
	if c.Type == Name {
		w.page = appendPacked(w.page, c.values, len(c.used))
	} else {
		w.page = append(w.page, c.values...)
	}
	size, err := w.writePage(dataPage, dataField, func(h *thrift) {
		h.i32(1, int64(c.rows))
		h.i32(2, encoding)
		h.i32(3, rle)
		h.i32(4, rle)
	})
	for _, number := range c.used {
		c.codes[number] = 0
	}
	c.values, c.levels, c.bits, c.run, c.rows = c.values[:0], c.levels[:0], 0, 0, 0
	c.names, c.used = c.names[:0], c.used[:0]
	return rows, whole + size, err
}

// names writes the page with the names of a column, and returns how many bytes it would have without compression.
func (w *Writer) names(c *column) (int64, error) {
	w.page = append(w.page[:0], c.names...)
	return w.writePage(dictionaryPage, dictionaryField, func(h *thrift) {
		h.i32(1, int64(len(c.used)))
		h.i32(2, plain)
	})
}

// writePage writes w.page, and returns how many bytes it would have without compression.
func (w *Writer) writePage(kind, field int64, more func(h *thrift)) (int64, error) {
	w.packed = w.zstd.EncodeAll(w.page, w.packed[:0])
	h := &w.header
	h.buf = h.buf[:0]
	h.begin()
	h.i32(1, kind)
	h.i32(2, int64(len(w.page)))
	h.i32(3, int64(len(w.packed)))
	h.field(field, structType)
	h.begin()
	more(h)
	h.end()
	h.end()
	size := int64(len(h.buf) + len(w.page))
	if err := w.write(h.buf); err != nil {
		return 0, err
	}
	return size, w.write(w.packed)
}

// appendPacked appends numbers below count, each 4 bytes in values, in as many bits as the greatest takes: one run of
// eights.
func appendPacked(dst, values []byte, count int) []byte {
	width := max(1, bits.Len(uint(max(count, 1)-1)))
	n := (len(values)/4 + 7) / 8
	dst = binary.AppendUvarint(append(dst, byte(width)), uint64(n)<<1|1)
	end := len(dst) + n*width
	var word uint64
	filled := 0
	for ; len(values) > 0; values = values[4:] {
		word |= uint64(binary.LittleEndian.Uint32(values)) << filled
		if filled += width; filled >= 32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(word))
			word >>= 32
			filled -= 32
		}
	}
	for ; filled > 0; filled -= 8 {
		dst = append(dst, byte(word))
		word >>= 8
	}
	return append(dst, make([]byte, end-len(dst))...)
}

// metadata appends what the end of the file says of a column of a group: where it, and the page with its rows, begins.
func (c *column) metadata(t *thrift, begins [2]int64, packed, whole int64, rows int) {
	const zstandard = 6
	t.begin()
	t.i64(2, begins[0])
	t.field(3, structType)
	t.begin()
	t.i32(1, physical[c.Type])
	if c.Type == Name {
		t.list(2, 3, i32Type)
		t.varint(dictionary)
	} else {
		t.list(2, 2, i32Type)
	}
	t.varint(plain)
	t.varint(rle)
	t.list(3, 1, binaryType)
	t.text(c.Name)
	t.i32(4, zstandard)
	t.i64(5, int64(rows))
	t.i64(6, whole)
	t.i64(7, packed)
	t.i64(9, begins[1])
	if c.Type == Name {
		t.i64(11, begins[0])
	}
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
		if w.columns[i].Type >= Text {
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
