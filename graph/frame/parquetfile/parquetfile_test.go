// SPDX-License-Identifier: Apache-2.0

package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/parquet-go/parquet-go"
)

var schema = arrow.NewSchema([]arrow.Field{
	{Name: "z", Type: arrow.PrimitiveTypes.Int32}, {Name: "long", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "a", Type: arrow.PrimitiveTypes.Uint32}, {Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "yes", Type: arrow.FixedWidthTypes.Boolean}, {Name: "tüxt", Type: arrow.BinaryTypes.String, Nullable: true},
}, nil)

// rows makes a record of rows from a number on, of which some values are null.
func rows(from, n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := from; i < from+n; i++ {
		b.Field(0).(*array.Int32Builder).Append(int32(-i))
		b.Field(2).(*array.Uint32Builder).Append(^uint32(i))
		b.Field(4).(*array.BooleanBuilder).Append(i%3 == 0)
		if i%7 == 3 {
			b.Field(1).AppendNull()
			b.Field(3).AppendNull()
			b.Field(5).AppendNull()
			continue
		}
		b.Field(1).(*array.Int64Builder).Append(int64(i) << 33)
		b.Field(3).(*array.Float64Builder).Append(float64(i) / 3)
		b.Field(5).(*array.StringBuilder).Append(fmt.Sprint("nö ", i%1000))
	}
	return b.NewRecordBatch()
}

func written(t testing.TB, records ...arrow.RecordBatch) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func opened(t testing.TB, file []byte) *Reader {
	t.Helper()
	r, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cell is a value: all whole numbers are int64.
func cell(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Int32:
		return int64(a.Value(i))
	case *array.Int64:
		return a.Value(i)
	case *array.Uint32:
		return int64(a.Value(i))
	case *array.Float64:
		return a.Value(i)
	case *array.Boolean:
		return a.Value(i)
	}
	return a.ValueStr(i)
}

// TestRoundTrip reads what was written: more than one group of rows, from records that don't begin at their memory's
// beginning, and all columns or some.
func TestRoundTrip(t *testing.T) {
	const n = groupRows + 70_000
	whole := rows(0, n)
	parts := []arrow.RecordBatch{whole.NewSlice(0, 5), whole.NewSlice(5, 5), whole.NewSlice(5, n)}
	r := opened(t, written(t, parts...))
	if got := fmt.Sprint(r.Columns(), r.Rows()); got != fmt.Sprintf("[z long a x yes tüxt] %d", n) {
		t.Errorf("found %s", got)
	}
	at := int64(0)
	err := r.Read([]string{"tüxt", "a", "z", "long", "x", "yes"}, func(got arrow.RecordBatch) error {
		for i, j := range []int{5, 2, 0, 1, 3, 4} {
			for row := range int(got.NumRows()) {
				if a, b := cell(got.Column(i), row), cell(whole.Column(j), int(at)+row); a != b {
					return fmt.Errorf("column %d, row %d: found %v, want %v", i, int(at)+row, a, b)
				}
			}
		}
		at += got.NumRows()
		return nil
	})
	if err != nil || at != n {
		t.Errorf("%v behind %d rows", err, at)
	}
	stop := errors.New("enough")
	err = r.Read([]string{"z"}, func(arrow.RecordBatch) error { return stop })
	if err != stop {
		t.Errorf("found %v, want the caller's own", err)
	}
}

// TestEmpty has a file without rows.
func TestEmpty(t *testing.T) {
	r := opened(t, written(t))
	if err := r.Read(r.Columns(), func(arrow.RecordBatch) error { return errors.New("a record") }); err != nil {
		t.Error(err)
	}
}

// TestOthers reads what other programs write: 32-bit numbers, no text marked as such, and lists, which are refused.
func TestOthers(t *testing.T) {
	type row struct {
		F float32
		I int32
		U uint64
		B []byte
		L []int32
		N struct{ M int32 }
	}
	var b bytes.Buffer
	if err := parquet.Write(&b, []row{{1.5, -3, 9, []byte("x"), nil, struct{ M int32 }{}}, {U: 1 << 63}}); err != nil {
		t.Fatal(err)
	}
	r := opened(t, b.Bytes())
	err := r.Read([]string{"B", "I", "F"}, func(got arrow.RecordBatch) error {
		if s := fmt.Sprint(got.Column(0), got.Column(1), got.Column(2)); s != `["x" ""] [-3 0] [1.5 0]` {
			t.Errorf("found %s", s)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for column, want := range map[string]string{"L": `"L" is a list`, "N": `"N" is a list, a group`,
		"none": `no column "none", want one of ["F"`, "U": `column "U": found 9223372036854775808, want at most`} {
		err := r.Read([]string{column}, func(arrow.RecordBatch) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, want %q", column, err, want)
		}
	}
}

// TestRefuses has what can't be written, and what is no file.
func TestRefuses(t *testing.T) {
	field := arrow.Field{Name: "d", Type: arrow.FixedWidthTypes.Date32}
	_, kind := NewWriter(&bytes.Buffer{}, arrow.NewSchema([]arrow.Field{field}, nil))
	_, none := NewWriter(&bytes.Buffer{}, arrow.NewSchema(nil, nil))
	_, twice := NewWriter(&bytes.Buffer{}, arrow.NewSchema([]arrow.Field{schema.Field(0), schema.Field(0)}, nil))
	w, err := NewWriter(&bytes.Buffer{}, arrow.NewSchema(schema.Fields()[:1], nil))
	if err != nil {
		t.Fatal(err)
	}
	open := func(text string) error {
		_, err := Open(strings.NewReader(text), int64(len(text)))
		return err
	}
	for want, err := range map[string]error{
		`column "d": found date32`: kind, "found no columns": none, `two columns "z"`: twice,
		"found a record of": w.Write(rows(0, 1)), "found 3 bytes, want a Parquet file": open("abc"),
		"cut short":                          open("vertex,type,label\n"),
		"found a footer of 4294967295 bytes": open("PAR1\xff\xff\xff\xffPAR1"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
}

// TestAllocations: what reading and writing allocate follows pages and records, and not rows.
func TestAllocations(t *testing.T) {
	const n = 200_000
	whole := rows(0, n)
	file := written(t, whole)
	read := testing.AllocsPerRun(3, func() {
		err := opened(t, file).Read([]string{"z", "x", "tüxt"}, func(arrow.RecordBatch) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	})
	write := testing.AllocsPerRun(3, func() { written(t, whole) })
	if read > n/20 || write > n/20 {
		t.Errorf("%v allocations to read %d rows, %v to write them", read, n, write)
	}
}

// FuzzOpen: whatever the bytes are, reading them ends, with an error or with rows.
func FuzzOpen(f *testing.F) {
	f.Add(written(f, rows(0, 20)))
	f.Add(written(f))
	f.Add([]byte("PAR1\x00\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		for _, c := range r.Columns() {
			rows := int64(0)
			err := r.Read([]string{c}, func(got arrow.RecordBatch) error {
				if rows += got.NumRows(); rows > 1<<20 {
					return errors.New("so many rows")
				}
				return nil
			})
			if err == nil && rows != r.Rows() {
				t.Errorf("column %q: found %d rows, want %d", c, rows, r.Rows())
			}
		}
	})
}
