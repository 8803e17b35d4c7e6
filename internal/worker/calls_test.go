// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
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

// read is the calls in the file, and in how many chunks they are.
func (f *gatedFile) read(t *testing.T) (all []calls.Call, chunks int) {
	t.Helper()
	file := bytes.NewReader(f.bytes.Bytes())
	err := trace.EachBlob(file, file.Size(), func(at int64, n int) error {
		chunks++
		return checkpoint.ReadBundle(bytes.NewReader(f.bytes.Bytes()[at:at+int64(n)]), 1,
			func(c checkpoint.Chunk, data []byte) (err error) {
				all, err = calls.Decode(all, data, calls.Limits{Simprocs: 1 << 20, From: c.From, Until: math.Inf(1)})
				return err
			})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, chunks
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
	w.reset()
	e, err := node.NewEngine(plan, node.Config{Model: m, Horizon: m.Horizon(), Calls: &w.log})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The journal has each call once, in the order of each simproc, whose last one has the hash that the Engine has; in
// buffers that end anywhere, and over replications, of which the second begins in the middle of a buffer.
func TestCallWriter(t *testing.T) {
	for _, size := range []int{3, 7, 100, bufferCalls} {
		f := &gatedFile{fails: -1}
		w := startCallWriter(f, size)
		for range 2 {
			f.bytes.Reset()
			e := calling(t, w)
			for _, until := range []float64{0.3, 0.31, 3} {
				e.SetUntil(until)
				if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
					t.Fatal(err)
				}
				w.flush()
				all, chunks := f.read(t)
				if n := int(e.Stats().Activations); len(all) != n || chunks < n/size {
					t.Fatalf("buffers of %d: %d calls in %d chunks, want %d", size, len(all), chunks, n)
				}
				last := map[uint32]calls.Call{}
				for _, c := range all {
					if before, ok := last[c.Simproc]; ok && before.Epoch >= c.Epoch || c.Epoch >= until {
						t.Fatalf("%+v comes behind %+v", c, before)
					}
					last[c.Simproc] = c
				}
				e.EachHash(func(id node.SimprocID, hash uint64) {
					if got := last[uint32(id)].Hash; got != uint32(hash) {
						t.Fatalf("the last hash of %d is %x, want the low half of %x", id, got, hash)
					}
				})
			}
		}
		w.close()
	}
}

// When all buffers are full the Engine waits for the file, and goes on with it: nothing is lost.
func TestCallWriterFull(t *testing.T) {
	f := &gatedFile{fails: -1, gate: make(chan struct{})}
	w := startCallWriter(f, 100)
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
	if all, _ := f.read(t); len(all) != int(e.Stats().Activations) || len(all) <= callBuffers*100 {
		t.Errorf("%d calls, want %d, more than all buffers have", len(all), e.Stats().Activations)
	}
}

// A full disk doesn't end the run: the checkpoints of the replication say so, and the next one is as before.
func TestCallWriterDiskFull(t *testing.T) {
	f := &gatedFile{fails: 2}
	w := startCallWriter(f, 100)
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
	if all, _ := f.read(t); len(all) != 200 {
		t.Errorf("%d calls, want the 200 that were written", len(all))
	}
	w.reset()
	if err := w.failed(); err != nil {
		t.Errorf("the next replication: %v", err)
	}
	if (*callWriter)(nil).failed() != nil {
		t.Error("a journal that isn't kept has failed")
	}
}

// Keeping the journal takes no memory of its own but for the first time that a chunk is written.
func TestCallWriterDoesNotAllocate(t *testing.T) {
	w := startCallWriter(&gatedFile{fails: -1}, 50)
	defer w.close()
	chunk := make([]byte, 50*node.CallBytes)
	buf := w.hand(nil)
	for range 2 * callBuffers {
		buf = w.hand(append(buf[:0], chunk...))
	}
	if got := testing.AllocsPerRun(100, func() { buf = w.hand(append(buf[:0], chunk...)) }); got > 3 {
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
