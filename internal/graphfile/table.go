// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/disco-sim/disco/graph/frame/parquetfile"
	"github.com/disco-sim/disco/internal/infile"
)

// row is one row of a table, whose columns are those that were asked for; a column that the table doesn't have, and an
// empty value, is no bytes. It is valid during the call.
type row interface {
	has(column int) bool   // the table has the column
	empty(column int) bool // text would be no bytes
	text(column int) []byte
	whole(column int) (n int64, ok bool)
	number(column int) (x float64, ok bool)
	at() uint32 // line or row, from 1
}

var tableFile = infile.Kind{Name: "a table: CSV or Parquet"}

// columnList is which columns a table may have, and which of them it must have.
type columnList struct {
	must, may []string
}

func (c columnList) all() []string { return append(slices.Clone(c.must), c.may...) }

// unitOf is what places in a table are counted in.
func unitOf(path string) string {
	if format(path) == "csv" {
		return "line"
	}
	return "row"
}

// readTable calls each for each row of a table, whose columns are those of list: first those that must be there.
func readTable(path string, list columnList, each func(row) error) error {
	f, err := infile.Open(path, tableFile)
	if err != nil {
		return err
	}
	defer f.Close()
	if format(path) == "csv" {
		return readCSV(path, f, list, each)
	}
	return readParquet(path, f, list, each)
}

// find finds the columns of a list among those that there are; -1: it isn't there.
func find(path string, have []string, list columnList) (places []int, err error) {
	all := list.all()
	for i, name := range have {
		if !slices.Contains(all, name) {
			return nil, &Error{File: path, Found: "the column " + quote(name),
				Want: "columns among " + strings.Join(all, ", ")}
		}
		if slices.Index(have, name) != i {
			return nil, &Error{File: path, Found: "two columns " + quote(name), Want: "one of a name"}
		}
	}
	for i, name := range all {
		at := slices.Index(have, name)
		if at < 0 && i < len(list.must) {
			want := strings.Join(list.must, ", ")
			if len(list.may) > 0 {
				want += ", and perhaps " + strings.Join(list.may, ", ")
			}
			return nil, &Error{File: path, Found: fmt.Sprintf("no column %q among %q", name, have), Want: want}
		}
		places = append(places, at)
	}
	return places, nil
}

// csvRow reads a CSV file (RFC 4180) record by record, into memory that it uses again. Lines that are empty are passed
// over.
type csvRow struct {
	path   string
	in     *bufio.Reader
	buf    []byte // of the fields, one behind the other
	ends   []int
	places []int
	line   uint32 // in which the record begins
	next   uint32 // the line that is read
}

func readCSV(path string, in io.Reader, list columnList, each func(row) error) error {
	r := &csvRow{path: path, in: bufio.NewReaderSize(in, 1<<16), next: 1}
	if mark, _ := r.in.Peek(3); string(mark) == "\ufeff" {
		_, _ = r.in.Discard(3)
	}
	if err := r.record(); err != nil {
		if errors.Is(err, io.EOF) {
			return &Error{File: path, Found: "an empty file", Want: "a first line with the names of columns: " +
				strings.Join(list.all(), ",")}
		}
		return err
	}
	var have []string
	for i := range r.ends {
		have = append(have, string(r.field(i)))
	}
	var err error
	if r.places, err = find(path, have, list); err != nil {
		return err
	}
	for {
		switch err := r.record(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(r.ends) != len(have):
			return r.wrong(fmt.Sprintf("%d fields", len(r.ends)), fmt.Sprintf("%d, as the first line has", len(have)))
		}
		if err := each(r); err != nil {
			return err
		}
	}
}

func (r *csvRow) wrong(found, want string) error {
	return &Error{r.path, fmt.Sprintf("line %d", r.line), found, want}
}

// record reads the next record that isn't an empty line; io.EOF: there is none.
func (r *csvRow) record() error {
	for {
		r.buf, r.ends, r.line = r.buf[:0], r.ends[:0], r.next
		if _, err := r.in.Peek(1); err != nil {
			return r.failed(err)
		}
		quoted, err := r.fields()
		if err != nil {
			return err
		}
		if quoted || len(r.ends) > 1 || r.ends[0] > 0 {
			return nil
		}
	}
}

// failed is an error of reading.
func (r *csvRow) failed(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return &Error{File: r.path, Found: "a file that can't be read: " + err.Error()}
}

// fields reads the fields of one record, and whether one was in quotes.
func (r *csvRow) fields() (quoted bool, err error) {
	if r.plain() {
		return false, nil
	}
	for {
		last, inQuotes, err := r.one()
		quoted = quoted || inQuotes
		if err != nil {
			return quoted, err
		}
		if r.ends = append(r.ends, len(r.buf)); last {
			return quoted, nil
		}
		if len(r.ends) == columnsMax {
			return quoted, r.wrong(fmt.Sprintf("more than %d fields", columnsMax), "fewer")
		}
	}
}

// plain reads the fields of a line that is in the reader's buffer as a whole, has no quotes and not too many fields:
// nearly every line.
func (r *csvRow) plain() bool {
	line, _ := r.in.Peek(r.in.Buffered())
	n := bytes.IndexByte(line, '\n')
	if n < 0 || bytes.IndexByte(line[:n], '"') >= 0 {
		return false
	}
	rest := line[:n]
	if n > 0 && rest[n-1] == '\r' {
		rest = rest[:n-1]
	}
	for more := true; more; {
		var field []byte
		if field, rest, more = bytes.Cut(rest, comma); len(r.ends) == columnsMax {
			r.buf, r.ends = r.buf[:0], r.ends[:0]
			return false
		}
		r.buf = append(r.buf, field...)
		r.ends = append(r.ends, len(r.buf))
	}
	_, _ = r.in.Discard(n + 1) // it is in the buffer
	r.next++
	return true
}

var comma = []byte{','}

// one reads one field, and whether it is the record's last.
func (r *csvRow) one() (last, quoted bool, err error) {
	from := len(r.buf)
	for {
		c, err := r.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return true, false, nil
		case err != nil:
			return false, false, r.failed(err)
		case c == ',':
			return false, false, nil
		case c == '\n':
			r.next++
			if n := len(r.buf); n > from && r.buf[n-1] == '\r' {
				r.buf = r.buf[:n-1]
			}
			return true, false, nil
		case c == '"' && len(r.buf) == from:
			last, err := r.inQuotes()
			return last, true, err
		case c == '"':
			return false, false, r.wrong("a quote within a field", "the whole field in quotes, and quotes in it twice")
		}
		if r.buf = append(r.buf, c); len(r.buf) > recordMax {
			return false, false, r.wrong(fmt.Sprintf("a line of more than %d bytes", recordMax), "a shorter one")
		}
	}
}

// inQuotes reads the rest of a field behind its opening quote.
func (r *csvRow) inQuotes() (last bool, err error) {
	for {
		c, err := r.in.ReadByte()
		if errors.Is(err, io.EOF) {
			return false, r.wrong("a field without its closing quote", "one before the end of the file")
		}
		if err != nil {
			return false, r.failed(err)
		}
		if c == '"' {
			if c, err = r.in.ReadByte(); err != nil {
				if errors.Is(err, io.EOF) {
					return true, nil
				}
				return false, r.failed(err)
			}
			if c != '"' {
				return r.behindQuote(c)
			}
		}
		if c == '\n' {
			r.next++
		}
		if r.buf = append(r.buf, c); len(r.buf) > recordMax {
			return false, r.wrong(fmt.Sprintf("a line of more than %d bytes", recordMax), "a shorter one")
		}
	}
}

// behindQuote is what may follow a closing quote.
func (r *csvRow) behindQuote(c byte) (last bool, err error) {
	if c == '\r' {
		if c, err = r.in.ReadByte(); errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, r.failed(err)
		}
		if c != '\n' {
			c = 0
		}
	}
	switch c {
	case ',':
		return false, nil
	case '\n':
		r.next++
		return true, nil
	}
	return false, r.wrong("text behind a closing quote", "a comma or the end of the line")
}

func (r *csvRow) field(i int) []byte {
	from := 0
	if i > 0 {
		from = r.ends[i-1]
	}
	return r.buf[from:r.ends[i]]
}

func (r *csvRow) has(column int) bool { return r.places[column] >= 0 }

func (r *csvRow) empty(column int) bool { return len(r.text(column)) == 0 }

func (r *csvRow) text(column int) []byte {
	if r.places[column] < 0 {
		return nil
	}
	return r.field(r.places[column])
}

func (r *csvRow) whole(column int) (int64, bool) {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(r.text(column))), 10, 64)
	return n, err == nil
}

func (r *csvRow) number(column int) (float64, bool) {
	return parseNumber(r.text(column))
}

func (r *csvRow) at() uint32 { return r.line }

// parseNumber reads a decimal number, perhaps with an exponent: what Go has beside that, 0x1p3 and 1_000, is a mistake
// in a table. What is too large is infinite, and refused as such.
func parseNumber(text []byte) (float64, bool) {
	s := string(bytes.TrimSpace(text))
	x, err := strconv.ParseFloat(s, 64)
	return x, (err == nil || math.IsInf(x, 0)) && !strings.ContainsAny(s, "_xX")
}

// parquetRow is a row of a record.
type parquetRow struct {
	columns []arrow.Array // nil: the table doesn't have it
	row     int
	first   uint32
	scratch [][]byte
}

func readParquet(path string, f *os.File, list columnList, each func(row) error) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &Error{File: path, Found: "a pipe", Want: "a file: Parquet is read from its end"}
	}
	in, err := parquetfile.Open(f, info.Size())
	if err != nil {
		return unread(path, err)
	}
	places, err := find(path, in.Columns(), list)
	if err != nil {
		return err
	}
	r := &parquetRow{columns: make([]arrow.Array, len(places)), first: 1, scratch: make([][]byte, len(places))}
	var own error
	err = in.Read(in.Columns(), func(rec arrow.RecordBatch) error {
		for i, p := range places {
			if p >= 0 {
				r.columns[i] = rec.Column(p)
			}
		}
		for r.row = range int(rec.NumRows()) {
			if own = each(r); own != nil {
				return own
			}
		}
		r.first += uint32(rec.NumRows())
		return nil
	})
	if err != nil && own == nil {
		return unread(path, err)
	}
	return err
}

// unread has what is wrong with a Parquet file, which says what is wanted.
func unread(path string, err error) error {
	return &Error{File: path, Found: "what can't be read as Parquet: " +
		strings.TrimPrefix(err.Error(), "parquetfile: ")}
}

func (r *parquetRow) has(column int) bool { return r.columns[column] != nil }

func (r *parquetRow) none(column int) bool {
	return r.columns[column] == nil || r.columns[column].IsNull(r.row)
}

func (r *parquetRow) empty(column int) bool {
	if r.none(column) {
		return true
	}
	a, ok := r.columns[column].(*array.String)
	return ok && a.ValueLen(r.row) == 0
}

func (r *parquetRow) text(column int) []byte {
	if r.none(column) {
		return nil
	}
	b := r.scratch[column][:0]
	switch a := r.columns[column].(type) {
	case *array.String:
		from := a.ValueOffset(r.row) - a.ValueOffset(0)
		return a.ValueBytes()[from : from+a.ValueLen(r.row)]
	case *array.Int64:
		b = strconv.AppendInt(b, a.Value(r.row), 10)
	case *array.Float64:
		b = strconv.AppendFloat(b, a.Value(r.row), 'g', -1, 64)
	case *array.Boolean:
		b = strconv.AppendBool(b, a.Value(r.row))
	}
	r.scratch[column] = b
	return b
}

func (r *parquetRow) whole(column int) (int64, bool) {
	if a, ok := r.columns[column].(*array.Int64); ok && !r.none(column) {
		return a.Value(r.row), true
	}
	n, err := strconv.ParseInt(string(r.text(column)), 10, 64)
	return n, err == nil
}

func (r *parquetRow) number(column int) (float64, bool) {
	if r.none(column) {
		return 0, false
	}
	switch a := r.columns[column].(type) {
	case *array.Float64:
		return a.Value(r.row), true
	case *array.Int64:
		return float64(a.Value(r.row)), true
	}
	return parseNumber(r.text(column))
}

func (r *parquetRow) at() uint32 { return r.first + uint32(r.row) }
