// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
)

// As drawn in docs/format/trace.md.
const (
	headerBytes = 8
	RecordBytes = 40
	chunkMax    = 1638 * RecordBytes
)

// randomRecords makes n different records in the total order, with many equal epochs,
// levels and targets.
func randomRecords(rng *rand.Rand, n int) []trace.Record {
	var all []trace.Record
	for i := range n {
		r := trace.Record{
			Epoch:  float64(rng.IntN(n/8+1)) / 4,
			Level:  uint32(rng.IntN(3)),
			Target: node.SimprocID(rng.IntN(6)),
			Sender: node.SimprocID(rng.IntN(6)),
			Size:   uint32(rng.IntN(100)),
			Number: uint64(i) + math.MaxUint64 - 5, // wraps around
			Hash:   rng.Uint64(),
		}
		if rng.IntN(8) == 0 {
			r = trace.Record{Epoch: r.Epoch, Level: r.Level, Target: r.Target, Sender: trace.Wakeup}
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b trace.Record) int { return trace.Compare(&a, &b) })
	return slices.CompactFunc(all, func(a, b trace.Record) bool { return trace.Compare(&a, &b) == 0 })
}

// write hands one record to a Writer as the engine does.
func write(w *trace.Writer, class int, r *trace.Record) {
	if r.Sender == trace.Wakeup {
		w.Wakeup(class, r.Level, r.Target, r.Epoch)
		return
	}
	ev := node.Event{Epoch: r.Epoch, Sender: r.Sender, Number: r.Number, Data: make([]byte, r.Size)}
	w.Event(class, r.Level, r.Target, &ev, r.Hash)
}

func readerOf(t testing.TB, file []byte) *trace.Reader {
	t.Helper()
	r, err := trace.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func merged(t testing.TB, files ...[]byte) (all []trace.Record) {
	t.Helper()
	var readers []*trace.Reader
	for _, f := range files {
		readers = append(readers, readerOf(t, f))
	}
	if err := trace.Merge(readers, func(r *trace.Record) error { all = append(all, *r); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// However records are spread over workers and their classes, the merged sequence is the
// same. Two full chunks and a rest go through each way of spreading.
func TestMergeIsTheTotalOrder(t *testing.T) {
	rng := seed.Rand(t)
	want := randomRecords(rng, 5000)
	for _, spread := range []struct{ writers, classes int }{{1, 1}, {1, 3}, {2, 1}, {3, 4}, {5, 16}} {
		files := make([]bytes.Buffer, spread.writers)
		var writers []*trace.Writer
		for i := range files {
			writers = append(writers, trace.NewWriter(&files[i]))
		}
		for i := range want {
			write(writers[rng.IntN(spread.writers)], rng.IntN(spread.classes), &want[i])
		}
		var all [][]byte
		for i, w := range writers {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			all = append(all, files[i].Bytes())
		}
		if got := merged(t, all...); !slices.Equal(got, want) {
			t.Errorf("%+v: %d records come back, not the %d that were written, in their order", spread, len(got),
				len(want))
		}
	}
}

// The bytes are those of docs/format/trace.md.
func TestFormatIsTheOneThatIsDrawn(t *testing.T) {
	var file bytes.Buffer
	w := trace.NewWriter(&file)
	w.Wakeup(2, 9, 5, 0.5)
	ev := node.Event{Epoch: 2, Sender: 3, Number: 0x1122334455667788, Data: []byte("abc")}
	w.Event(0, 1, 4, &ev, 0xA1A2A3A4A5A6A7A8)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "\x00\x00\x00\x00" + "\x28\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x40" + "\x01\x00\x00\x00" + "\x04\x00\x00\x00" + "\x03\x00\x00\x00" +
		"\x03\x00\x00\x00" +
		"\x88\x77\x66\x55\x44\x33\x22\x11" + "\xA8\xA7\xA6\xA5\xA4\xA3\xA2\xA1" +
		"\x02\x00\x00\x00" + "\x28\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\xE0\x3F" + "\x09\x00\x00\x00" + "\x05\x00\x00\x00" + "\xFF\xFF\xFF\xFF" +
		"\x00\x00\x00\x00" +
		strings.Repeat("\x00", 16)
	if got := file.String(); got != want {
		t.Errorf("written\n%x, want\n%x", got, want)
	}
	if err := w.Flush(); err != nil || file.Len() != len(want) {
		t.Errorf("a second Flush wrote %d bytes more, %v", file.Len()-len(want), err)
	}
	if got := merged(t); got != nil {
		t.Errorf("no files give %v", got)
	}
	if got := merged(t, nil, nil); got != nil {
		t.Errorf("empty files give %v", got)
	}
}

func smallFile(t testing.TB) (file []byte, ends []int) {
	t.Helper()
	var b bytes.Buffer
	w := trace.NewWriter(&b)
	for class := range 3 {
		for i := range 2 {
			w.Wakeup(class, 0, 1, float64(i))
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, b.Len())
	}
	return b.Bytes(), ends
}

// A file that is cut short is refused with the place where the chunk begins that isn't
// whole. Only between two chunks nothing can be seen.
func TestTruncatedFileNamesTheOffset(t *testing.T) {
	file, ends := smallFile(t)
	for n := range len(file) {
		_, err := trace.NewReader(bytes.NewReader(file[:n]), int64(n))
		if n == 0 || slices.Contains(ends, n) {
			if err != nil {
				t.Errorf("cut between chunks, at %d: %v", n, err)
			}
			continue
		}
		begin := 0
		for _, end := range ends {
			if end < n {
				begin = end
			}
		}
		if want := fmt.Sprintf("chunk at byte %d of %d", begin, n); !errors.Is(err, trace.ErrCorrupt) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("cut at %d: %v, want ErrCorrupt with %q", n, err, want)
		}
	}
	// Shorter than its size says: cut after it was measured.
	if _, err := trace.NewReader(bytes.NewReader(file[:ends[0]]), int64(len(file))); !errors.Is(err,
		trace.ErrCorrupt) || !errors.Is(err, io.EOF) {
		t.Errorf("shorter than measured: %v", err)
	}
}

// cutReader is a file that loses its end after the index was read.
type cutReader struct {
	file []byte
	cut  *int
}

func (c cutReader) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(c.file[:*c.cut]).ReadAt(p, off)
}

func TestFileCutWhileItIsRead(t *testing.T) {
	file, ends := smallFile(t)
	n := len(file)
	r, err := trace.NewReader(cutReader{file, &n}, int64(n))
	if err != nil {
		t.Fatal(err)
	}
	n = ends[1] + headerBytes + 1
	err = trace.Merge([]*trace.Reader{r}, func(*trace.Record) error { return nil })
	if want := fmt.Sprintf("%d bytes at %d", 2*RecordBytes, ends[1]+headerBytes); !errors.Is(err, trace.ErrCorrupt) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want ErrCorrupt with %q", err, want)
	}
}

func TestImpossibleChunks(t *testing.T) {
	chunk := func(class, size uint32, bytes int) []byte {
		b := binary.LittleEndian.AppendUint32(nil, class)
		return append(binary.LittleEndian.AppendUint32(b, size), make([]byte, bytes)...)
	}
	for what, file := range map[string][]byte{
		"an empty chunk":          chunk(0, 0, 0),
		"a record and a half":     chunk(0, RecordBytes*3/2, RecordBytes*3/2),
		"a class too high":        chunk(trace.ClassesMax, RecordBytes, RecordBytes),
		"the highest class":       chunk(math.MaxUint32, RecordBytes, RecordBytes),
		"more than a chunk holds": chunk(0, chunkMax+RecordBytes, chunkMax+RecordBytes),
		"the highest size":        chunk(0, math.MaxUint32, 100),
	} {
		_, err := trace.NewReader(bytes.NewReader(file), int64(len(file)))
		if !errors.Is(err, trace.ErrCorrupt) || !strings.Contains(err.Error(), "chunk at byte 0") {
			t.Errorf("%s: %v, want ErrCorrupt with the place", what, err)
		}
	}
}

// Records of a class that fall, or come twice, are refused where they are met.
func TestOrderWithinAClass(t *testing.T) {
	for what, epochs := range map[string][]float64{"falling": {1, 3, 2}, "twice": {1, 2, 2}} {
		var b bytes.Buffer
		w := trace.NewWriter(&b)
		for _, e := range epochs {
			w.Wakeup(1, 0, 0, e)
		}
		w.Wakeup(0, 0, 0, 9)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		var seen int
		err := trace.Merge([]*trace.Reader{readerOf(t, b.Bytes())}, func(*trace.Record) error { seen++; return nil })
		if !errors.Is(err, trace.ErrCorrupt) || seen != 2 {
			t.Errorf("%s: %v after %d records, want ErrCorrupt after 2", what, err, seen)
		}
	}
}

func TestYieldEndsTheMerge(t *testing.T) {
	file, _ := smallFile(t)
	stop, seen := errors.New("enough"), 0
	err := trace.Merge([]*trace.Reader{readerOf(t, file)}, func(*trace.Record) error {
		if seen++; seen == 2 {
			return stop
		}
		return nil
	})
	if err != stop || seen != 2 {
		t.Errorf("%v after %d records", err, seen)
	}
}

// failing fails at its n-th write and counts all of them.
type failing struct{ n, writes int }

func (f *failing) Write(p []byte) (int, error) {
	if f.writes++; f.writes >= f.n {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// The first failed write is what Flush returns, and nothing is written after it.
func TestFullDisk(t *testing.T) {
	f := &failing{n: 2}
	w := trace.NewWriter(f)
	for i := range 5 * chunkMax / RecordBytes {
		w.Wakeup(0, 0, 0, float64(i))
	}
	for range 2 {
		if err := w.Flush(); !errors.Is(err, io.ErrShortWrite) || f.writes != 2 {
			t.Errorf("%v after %d writes, want the first failure after 2", err, f.writes)
		}
	}
}

func TestText(t *testing.T) {
	g := &node.Graph{Simprocs: []string{"up", "down"}, Nodes: []node.Node{{Name: "a"}, {Name: "b"}}}
	for want, r := range map[string]trace.Record{
		"0.1\tb/up\ta/down\t18446744073709551615\t12\t00000000000000ff\n": {Epoch: 0.1, Level: 7, Target: 2, Sender: 1,
			Size: 12, Number: math.MaxUint64, Hash: 255},
		"1e+100\ta/up\twakeup\n": {Epoch: 1e100, Sender: trace.Wakeup, Hash: 1},
		"0\ta/up\tsimproc 4 (the scenario has 4)\t0\t0\tfedcba9876543210\n": {Sender: 4, Hash: 0xFEDCBA9876543210},
	} {
		if got := string(r.AppendText([]byte("> "), g)); got != "> "+want {
			t.Errorf("%+v is %q, want %q", r, got, "> "+want)
		}
	}
}

func TestWritingAllocatesNothing(t *testing.T) {
	w := trace.NewWriter(io.Discard)
	ev := node.Event{Data: make([]byte, 10)}
	w.Event(0, 0, 0, &ev, 0)
	if n := testing.AllocsPerRun(5000, func() {
		ev.Epoch++
		w.Event(0, 1, 2, &ev, 3)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever a file holds, it is refused or gives its records, in order and no more than
// fit.
func FuzzReader(f *testing.F) {
	file, _ := smallFile(f)
	f.Add(file)
	f.Add(file[:len(file)-7])
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xFF}, 100))
	f.Add(rowsFile(f, 0, 3))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := trace.NewReader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			if !errors.Is(err, trace.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		rows := 0
		err = trace.MergeRows([]*trace.Reader{r}, func(*node.Recorded) error { rows++; return nil })
		if err != nil && !errors.Is(err, trace.ErrCorrupt) || rows*node.RowBytes > len(file) {
			t.Fatalf("%d rows of %d bytes, %v", rows, len(file), err)
		}
		var got []trace.Record
		err = trace.Merge([]*trace.Reader{r}, func(rec *trace.Record) error { got = append(got, *rec); return nil })
		if err != nil && !errors.Is(err, trace.ErrCorrupt) || len(got)*RecordBytes > len(file) {
			t.Fatalf("%d records of %d bytes, %v", len(got), len(file), err)
		}
		if err != nil {
			return
		}
		for i := range got {
			if i > 0 && trace.Compare(&got[i-1], &got[i]) > 0 {
				t.Fatalf("record %d, %+v, after %+v", i, got[i], got[i-1])
			}
		}
	})
}
