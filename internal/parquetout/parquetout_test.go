// SPDX-License-Identifier: Apache-2.0

package parquetout

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// What is in a file is tested where the library is that reads it: package parquetfile.

// failing is a file on a disk that is full behind so many bytes.
type failing struct{ left int }

var errFull = errors.New("full")

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// TestErrors: the first error ends the file, wherever it is.
func TestErrors(t *testing.T) {
	write := func(out io.Writer) error {
		w, err := NewWriter(out, []Column{{"a", Int}, {"b", Text}})
		if err != nil {
			return err
		}
		for i := range 10 {
			w.Int(0, int64(i))
			w.Text(1, "x")
			if err := w.Row(); err != nil {
				return err
			}
		}
		return w.Close()
	}
	var all bytes.Buffer
	if err := write(&all); err != nil {
		t.Fatal(err)
	}
	for n := range all.Len() {
		if err := write(&failing{n}); !errors.Is(err, errFull) {
			t.Fatalf("%d of %d bytes: %v", n, all.Len(), err)
		}
	}
	if _, err := NewWriter(io.Discard, nil); err == nil {
		t.Error("a file without columns was begun")
	}
}

// TestAllocate: a row takes no memory of its own once a group was written.
func TestAllocate(t *testing.T) {
	w, err := NewWriter(io.Discard, []Column{{"a", Int}, {"b", Number}, {"c", Text}})
	if err != nil {
		t.Fatal(err)
	}
	group := func() {
		for i := range groupRows {
			w.Int(0, int64(i))
			w.Number(1, float64(i))
			w.Text(2, "some text")
			if err := w.Row(); err != nil {
				t.Fatal(err)
			}
		}
	}
	group()
	if n := testing.AllocsPerRun(3, group); n > 20 {
		t.Errorf("%v allocations for %d rows", n, groupRows)
	}
}

// BenchmarkRows is a row of a request: number, box, birth, end, and whether it was lost.
func BenchmarkRows(b *testing.B) {
	w, err := NewWriter(io.Discard, []Column{{"number", Int}, {"server", Int}, {"born_s", Number}, {"end_s", Number},
		{"lost", Bool}})
	if err != nil {
		b.Fatal(err)
	}
	for i := range b.N {
		w.Int(0, int64(i))
		w.Int(1, int64(i*7&15))
		w.Number(2, float64(i)*0.001)
		w.Number(3, float64(i)*0.001+float64(i*2654435761&1023)*1e-5)
		w.Bool(4, i&63 == 0)
		if err := w.Row(); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
