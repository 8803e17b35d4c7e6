// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/calls"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/node"
)

// gatedFile is a file that is written when gate lets it.
type gatedFile struct {
	gate  chan struct{} // nil: at once
	mu    sync.Mutex
	bytes bytes.Buffer
	fails int // writes that are left before each one fails; -1: none does
}

func (f *gatedFile) Write(b []byte) (int, error) {
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails == 0 {
		return 0, syscall.ENOSPC
	}
	f.fails--
	return f.bytes.Write(b)
}

// read gives what is in the file: the layouts, and the chunks of calls.
func (f *gatedFile) read(t *testing.T) (layouts map[checkpoint.Digest]*calls.Layout, chunks []calls.Chunk) {
	t.Helper()
	layouts = map[checkpoint.Digest]*calls.Layout{}
	file := bytes.NewReader(f.bytes.Bytes())
	err := trace.EachBlob(file, file.Size(), func(at int64, n int) error {
		return checkpoint.ReadBundle(bytes.NewReader(f.bytes.Bytes()[at:at+int64(n)]), 1,
			func(c checkpoint.Chunk, data []byte) (err error) {
				if c.Kind == checkpoint.Layout {
					layouts[c.Digest], err = calls.DecodeLayout(data, 1<<20)
					return err
				}
				chunk, err := calls.Decode(slices.Clone(data))
				if layouts[chunk.Layout] == nil {
					t.Fatalf("chunk %d has no layout", len(chunks))
				}
				chunks = append(chunks, chunk)
				return err
			})
	})
	if err != nil {
		t.Fatal(err)
	}
	return layouts, chunks
}

// numCalls is how many calls chunks have.
func numCalls(chunks []calls.Chunk) (n int) {
	for i := range chunks {
		n += len(chunks[i].Hashes) / node.CallHashBytes
	}
	return n
}

// calling is an Engine of PHOLD on one worker that keeps a journal, and what it gives to a Tracer.
func calling(t testing.TB, w *callWriter) *node.Engine {
	t.Helper()
	p := phold.Defaults()
	p.LPs, p.Events, p.End = 64, 4, 100
	m := phold.New(p)
	plan, err := node.NewPlan(m.Graph(), make([]int32, m.Graph().Len()), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.flush()
	if err := w.replication(plan, 0); err != nil {
		t.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: m, Horizon: m.Horizon(), Calls: &w.log})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The journal has, leg by leg, what whole calls have: in buffers that end anywhere, and over replications, of which
// each has its layout.
func TestCallWriter(t *testing.T) {
	all := &gatedFile{fails: -1}
	reference := startCallWriter(all, true, 3*node.CallWholeBytes)
	defer reference.close()
	for _, calls := range []int{3, 7, 100, bufferBytes / node.CallHashBytes} {
		f := &gatedFile{fails: -1}
		w := startCallWriter(f, false, calls*node.CallHashBytes)
		for range 2 {
			f.bytes.Reset()
			all.bytes.Reset()
			e, whole := calling(t, w), calling(t, reference)
			compareLegs(t, e, whole, w, reference, f, all)
		}
		w.close()
	}
}

// compareLegs runs two Engines in legs, and compares the hashes in one journal with the calls in the other one.
func compareLegs(t *testing.T, e, whole *node.Engine, w, reference *callWriter, f, all *gatedFile) {
	t.Helper()
	begins := []float64{0, 0.3, 0.31, 3}
	for i, until := range begins[1:] {
		for _, run := range []struct {
			*node.Engine
			w *callWriter
		}{{e, w}, {whole, reference}} {
			run.SetUntil(until)
			if _, err := run.Run(math.MaxInt, math.Inf(1)); err != nil {
				t.Fatal(err)
			}
			run.w.flush()
			if err := run.w.leg(run.w.plan, until); err != nil {
				t.Fatal(err)
			}
		}
		var want []calls.Call
		file := bytes.NewReader(all.bytes.Bytes())
		err := trace.EachBlob(file, file.Size(), func(at int64, n int) (err error) {
			want, err = calls.AppendWhole(want, all.bytes.Bytes()[at:at+int64(n)], calls.Limits{Simprocs: 64,
				Until: until})
			return err
		})
		if err != nil || len(want) != int(e.Stats().Activations) {
			t.Fatalf("%d calls, %v, want %d", len(want), err, e.Stats().Activations)
		}
		layouts, chunks := f.read(t)
		if len(layouts) != 1 || numCalls(chunks) != len(want) {
			t.Fatalf("%d layouts, %d calls, want 1, %d", len(layouts), numCalls(chunks), len(want))
		}
		before := uint64(0)
		for k, c := range chunks {
			if k > 0 && c.Begin != chunks[k-1].Begin {
				before = 0
			}
			if c.Before != before || !slices.Contains(begins[:i+1], c.Begin) || !(want[0].Epoch >= c.Begin) {
				t.Fatalf("chunk %d is %+v, want %d calls before it", k, c.Stream, before)
			}
			for h := c.Hashes; len(h) > 0; h = h[node.CallHashBytes:] {
				if got := binary.LittleEndian.Uint16(h); got != uint16(want[0].Hash) {
					t.Fatalf("found hash %x, want that of %+v", got, want[0])
				}
				want, before = want[1:], before+1
			}
		}
	}
}

// When all buffers are full the Engine waits for the file, and goes on with it: nothing is lost.
func TestCallWriterFull(t *testing.T) {
	f := &gatedFile{fails: -1, gate: make(chan struct{})}
	w := startCallWriter(f, false, 100*node.CallHashBytes)
	defer w.close()
	e := calling(t, w)
	e.SetUntil(9)
	ran := make(chan error)
	go func() {
		_, err := e.Run(math.MaxInt, math.Inf(1))
		ran <- err
	}()
	select {
	case err := <-ran:
		t.Fatalf("it has run though nothing was written: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(f.gate)
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	w.flush()
	_, chunks := f.read(t)
	if n := numCalls(chunks); n != int(e.Stats().Activations) || n <= (callBuffers+1)*100 {
		t.Errorf("%d calls, want %d, more than all buffers have", n, e.Stats().Activations)
	}
}

// A full disk doesn't end the run: the checkpoints of the replication say so, and the next one is as before.
func TestCallWriterDiskFull(t *testing.T) {
	f := &gatedFile{fails: 3}
	w := startCallWriter(f, false, 100*node.CallHashBytes)
	defer w.close()
	e := calling(t, w)
	e.SetUntil(9)
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	w.flush()
	err := w.failed()
	if !errors.Is(err, syscall.ENOSPC) && (err == nil || !strings.Contains(err.Error(), "no space left on device")) {
		t.Errorf("found %v, want a full disk", err)
	}
	text := spoolError(fmt.Errorf("around: %w", err))
	if !strings.Contains(text, "the journal of activations: no space") {
		t.Errorf("said as %q", text)
	}
	_, chunks := f.read(t)
	if n := numCalls(chunks); n != 200 {
		t.Errorf("%d calls, want the 200 that were written behind the layout", n)
	}
	if err := w.replication(w.plan, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.failed(); err != nil {
		t.Errorf("the next replication: %v", err)
	}
	if (*callWriter)(nil).failed() != nil {
		t.Error("a journal that isn't kept has failed")
	}
}

// Keeping the journal takes no memory of its own but for the first time that a chunk is written.
func TestCallWriterDoesNotAllocate(t *testing.T) {
	w := startCallWriter(&gatedFile{fails: -1}, false, 50*node.CallHashBytes)
	defer w.close()
	calling(t, w)
	chunk := make([]byte, 50*node.CallHashBytes)
	buf := w.hand(0, 0, nil)
	for range 2 * callBuffers {
		buf = w.hand(0, 0, append(buf[:0], chunk...))
	}
	if got := testing.AllocsPerRun(100, func() { buf = w.hand(0, 0, append(buf[:0], chunk...)) }); got > 3 {
		t.Errorf("%v allocations for each buffer, want at most those of the test's file", got)
	}
	w.free <- buf
}

// A save of a worker whose journal is lost has no chunks, and says why.
func TestSaveWithoutItsJournal(t *testing.T) {
	m := few(64)
	k := newCommitter(t, 64)
	plan, err := node.NewPlan(m.Graph(), make([]int32, 64), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: m, Horizon: m.Horizon()})
	if err != nil {
		t.Fatal(err)
	}
	e.SetUntil(1)
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	s := k.saver(plan, chunkBytes)
	if err := s.save(e, &Save{Epoch: 1}, &callsError{syscall.ENOSPC}); err != nil {
		t.Fatal(err)
	}
	s.writing.Wait()
	st := &k.stored[0]
	if !st.Last || len(st.Chunks) > 0 || !strings.Contains(st.Error, "journal of activations: no space left") ||
		!slices.IsSorted(st.Simprocs) {
		t.Errorf("stored %+v", st)
	}
}
