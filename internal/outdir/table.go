// SPDX-License-Identifier: Apache-2.0

package outdir

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/parquetout"
)

// Column is a column of a table.
type Column = parquetout.Column

// Type is what the values of a column are.
type Type = parquetout.Type

// Rows are those of a table that is Parquet alone.
type Rows = parquetout.Writer

// Types of columns.
const (
	Bool   = parquetout.Bool
	Int    = parquetout.Int
	Number = parquetout.Number
	Text   = parquetout.Text
	Name   = parquetout.Name
)

// Table is a table that is written as CSV (RFC 4180, but with the ends of lines that Unix has) and as Parquet: a value
// that is missing is empty in the one, and null in the other.
type Table struct {
	columns []Column
	out     *bufio.Writer
	parquet *parquetout.Writer
	binary  *bufio.Writer
	row     []byte // of the CSV
}

// Parquet writes a table that may be very long, which has the file NAME.parquet alone.
func (w *Writer) Parquet(name string, columns []Column, fill func(*Rows) error) error {
	f, err := w.create(name + ".parquet")
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	p, err := parquetout.NewWriter(out, columns)
	if err == nil {
		err = fill(p)
	}
	if err == nil {
		err = cmp.Or(p.Close(), out.Flush())
	}
	if err != nil {
		return outfile.Error(filepath.Join(w.dir.path, name+".parquet"), err)
	}
	return nil
}

// Table begins a table, which has the files NAME.csv and NAME.parquet.
func (w *Writer) Table(name string, columns []Column) (*Table, error) {
	if !tableName(name) {
		return nil, fmt.Errorf("a table %.100q: want a name of letters, digits, '_', '-' and '.'", name)
	}
	var files [2]*outfile.File
	for i, ending := range []string{".csv", ".parquet"} {
		var err error
		if files[i], err = w.create(name + ending); err != nil {
			return nil, err
		}
	}
	t := &Table{columns: columns, out: bufio.NewWriterSize(files[0], 1<<16),
		binary: bufio.NewWriterSize(files[1], 1<<16)}
	var err error
	if t.parquet, err = parquetout.NewWriter(t.binary, columns); err != nil {
		return nil, err
	}
	for i, c := range columns {
		if i > 0 {
			t.row = append(t.row, ',')
		}
		t.row = appendText(t.row, c.Name)
	}
	_, err = t.out.Write(append(t.row, '\n'))
	w.tables = append(w.tables, t)
	return t, err
}

// Row writes a row: for each column a bool, an int64, a float64 or a text, as its type says, or nil. What isn't a
// finite number is missing.
func (t *Table) Row(cells []any) error {
	t.row = t.row[:0]
	for i, cell := range cells {
		if i > 0 {
			t.row = append(t.row, ',')
		}
		switch x := cell.(type) {
		case int64:
			t.row = strconv.AppendInt(t.row, x, 10)
			t.parquet.Int(i, x)
		case float64:
			if math.IsNaN(x) || math.IsInf(x, 0) {
				break
			}
			t.row = strconv.AppendFloat(t.row, x, 'g', -1, 64)
			t.parquet.Number(i, x)
		case bool:
			t.row = strconv.AppendBool(t.row, x)
			t.parquet.Bool(i, x)
		case string:
			t.row = appendText(t.row, x)
			t.parquet.Text(i, x)
		}
	}
	if _, err := t.out.Write(append(t.row, '\n')); err != nil {
		return err
	}
	return t.parquet.Row()
}

// appendText appends a text, in quotes where it needs them.
func appendText(b []byte, x string) []byte {
	if x != "" && !strings.ContainsAny(x, "\",\n\r") && x[0] != ' ' {
		return append(b, x...)
	}
	b = append(b, '"')
	for i := range len(x) {
		if x[i] == '"' {
			b = append(b, '"')
		}
		b = append(b, x[i])
	}
	return append(b, '"')
}

func (t *Table) close() error {
	if err := t.parquet.Close(); err != nil {
		return err
	}
	if err := t.binary.Flush(); err != nil {
		return err
	}
	return t.out.Flush()
}
