// SPDX-License-Identifier: Apache-2.0

package parquetout

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/disco-sim/disco/internal/cputime"
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
		w, err := NewWriter(out, []Column{{Name: "a", Type: Int}, {Name: "b", Type: Text},
			{Name: "c", Type: Name, NameOf: nameOf}})
		if err != nil {
			return err
		}
		for i := range 10 {
			w.Int(0, int64(i))
			w.Text(1, "x")
			w.Name(2, i)
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
	w, err := NewWriter(io.Discard, []Column{{Name: "a", Type: Int}, {Name: "b", Type: Number},
		{Name: "c", Type: Text}, {Name: "d", Type: Name, NameOf: nameOf}})
	if err != nil {
		t.Fatal(err)
	}
	group := func() {
		for i := range groupRows {
			w.Int(0, int64(i))
			w.Number(1, float64(i))
			w.Text(2, "some text")
			w.Name(3, i&127)
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

var names = func() (list []string) {
	for i := range 128 {
		list = append(list, fmt.Sprint("server-", i))
	}
	return list
}()

func nameOf(number int) string { return names[number] }

// BenchmarkRows is a row of records.parquet (docs/outputs.md) of a service scenario: a request with its begin and end,
// how long it waited, at which of 16 servers, and what became of it.
func BenchmarkRows(b *testing.B) {
	w, err := NewWriter(io.Discard, []Column{{Name: "replication", Type: Int}, {Name: "request", Type: Int},
		{Name: "began_s", Type: Number}, {Name: "ended_s", Type: Number}, {Name: "waited_s", Type: Number},
		{Name: "server", Type: Name, NameOf: nameOf}, {Name: "servers", Type: Int},
		{Name: "outcome", Type: Name, NameOf: nameOf}})
	if err != nil {
		b.Fatal(err)
	}
	cpu := cputime.Self()
	for i := range b.N {
		began, draw := float64(i)*0.001, i*2654435761
		w.Int(0, 0)
		w.Int(1, int64(i))
		w.Number(2, began)
		w.Number(3, began+float64(draw>>3&1023)*1e-5+0.0137)
		if waits := draw >> 12 & 1; waits == 1 {
			w.Number(4, float64(draw>>5&1023)*1e-5)
		} else {
			w.Number(4, 0)
		}
		w.Name(5, draw>>7&15)
		w.Int(6, 1)
		w.Name(7, min(i&63, 1))
		if err := w.Row(); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/(cputime.Self()-cpu)/1e6, "Mrows/cpu-s")
}
