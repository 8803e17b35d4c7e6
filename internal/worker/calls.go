// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/disco-sim/disco/internal/calls"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
)

// How a worker keeps the journal of activations (docs/checkpoints.md, section 6): its Engine fills a buffer for each
// class, and a goroutine writes those that are full, as chunks of kind hashes in blobs of the file for the trace,
// behind the layout that they refer to; or, for a run that is compared with another, as whole calls. When all buffers
// are full the Engine waits for that goroutine, which waits for nothing but the file. What can't be written is lost:
// then the run goes on, and has no further checkpoints; one that is compared ends with the leg.

const (
	// callBuffers is how many buffers there are beside those that classes fill.
	callBuffers = 2
	// bufferBytes is what a buffer has: it is hashed and written while it is in the second cache of a processor.
	bufferBytes = 256 << 10
)

// callWriter keeps a worker's journal of activations. The worker's goroutine uses it, but for write. A nil one keeps
// none.
type callWriter struct {
	log     node.CallLog
	to      io.Writer
	size    int             // of a buffer
	full    chan fullBuffer // to the goroutine
	free    chan []byte     // from it: empty ones
	made    int             // buffers that there are
	plan    *node.Plan      // whose layout it has
	begin   float64         // of the leg
	layout  [sha256.Size]byte
	blob    []byte   // the layout's
	written bool     // it stands in front of what comes next
	counts  []uint64 // by class: calls of the leg

	chunk, out []byte        // of the goroutine
	err        error         // of the goroutine; may be read when nothing is with it
	ended      chan struct{} // closed when it has ended
}

// fullBuffer goes to the goroutine: calls, or a channel to be closed when all before it are written.
type fullBuffer struct {
	of      calls.Chunk // but for its hashes
	from    float64     // epoch of the first call
	calls   []byte
	layout  []byte // a blob that stands in front of it; nil: none
	written chan struct{}
}

// callsError is why a worker's journal isn't whole.
type callsError struct{ err error }

func (e *callsError) Error() string {
	return fmt.Sprintf("the temporary file for the journal of activations: %v: what was called since the last "+
		"checkpoint is lost for replay, and no further one can be made", unnamed(e.err))
}

// newCallWriter begins a journal; whole has all of each call.
func newCallWriter(to io.Writer, whole bool) *callWriter {
	return startCallWriter(to, whole, bufferBytes)
}

// startCallWriter is newCallWriter with buffers of so many bytes.
func startCallWriter(to io.Writer, whole bool, size int) *callWriter {
	w := &callWriter{to: to, size: size, full: make(chan fullBuffer, callBuffers+node.ClassesMax+1),
		free: make(chan []byte, callBuffers+node.ClassesMax), ended: make(chan struct{})}
	w.log.Full, w.log.Whole = w.hand, whole
	go w.writeAll()
	return w
}

// hand gives a buffer to the goroutine, and takes an empty one.
func (w *callWriter) hand(class int, from float64, calls []byte) []byte {
	w.give(class, from, calls)
	if w.made < callBuffers+len(w.counts) {
		select {
		case buf := <-w.free:
			return buf
		default:
			w.made++
			return make([]byte, w.size)
		}
	}
	return <-w.free
}

// give gives a buffer to the goroutine.
func (w *callWriter) give(class int, from float64, log []byte) {
	switch {
	case len(log) > 0:
		of := calls.Chunk{Before: w.counts[class],
			Stream: calls.Stream{Begin: w.begin, Layout: w.layout, Class: uint32(class)}}
		w.counts[class] += uint64(len(log) / node.CallHashBytes)
		b := fullBuffer{of: of, from: from, calls: log}
		if !w.written {
			b.layout, w.written = w.blob, true
		}
		w.full <- b // it has room for all buffers there are
	case cap(log) > 0:
		w.free <- log[:cap(log)]
	}
}

// flush returns when all calls are in the file, or lost: a leg ends.
func (w *callWriter) flush() {
	if w == nil {
		return
	}
	w.log.Take(w.give)
	written := make(chan struct{})
	w.full <- fullBuffer{written: written}
	<-written
}

// leg begins a leg at an epoch, of a plan whose Engine it is in. All is flushed.
func (w *callWriter) leg(plan *node.Plan, epoch float64) error {
	if w == nil {
		return nil
	}
	if w.begin = epoch; plan == w.plan {
		clear(w.counts)
		return nil
	}
	w.plan, w.counts = plan, make([]uint64, plan.NumClasses())
	w.log.Begin(len(w.counts))
	return w.setLayout()
}

// replication begins a replication at an epoch. All is flushed.
func (w *callWriter) replication(plan *node.Plan, epoch float64) error {
	if w == nil {
		return nil
	}
	w.err, w.written = nil, false
	return w.leg(plan, epoch)
}

// setLayout makes the blob with the plan's layout.
func (w *callWriter) setLayout() error {
	w.blob, w.written = nil, false
	var layout calls.LayoutWriter
	w.plan.EachClass(func(id node.SimprocID, class int) { layout.Add(uint32(id), class) })
	chunk := layout.Chunk(nil)
	if chunk == nil || w.log.Whole {
		return nil
	}
	w.layout = sha256.Sum256(chunk)
	var bundler checkpoint.Bundler
	var err error
	w.blob, err = bundler.Append(trace.AppendBlob(nil), checkpoint.Chunk{Kind: checkpoint.Layout}, chunk)
	if err == nil {
		trace.EndBlob(w.blob)
	}
	return err
}

// failed says why the journal of the replication isn't whole, nil where it is. All is flushed.
func (w *callWriter) failed() error {
	if w == nil || w.err == nil {
		return nil
	}
	return &callsError{w.err}
}

// incomplete is the error of a leg of which all calls are to be compared, where they can't be: not all of them are
// written. All is flushed.
func (w *callWriter) incomplete() error {
	if w == nil || !w.log.Whole || w.err == nil {
		return nil
	}
	return &fileError{"the calls that are compared", w.err}
}

// close ends the goroutine.
func (w *callWriter) close() {
	if w == nil {
		return
	}
	close(w.full)
	<-w.ended
}

// writeAll is the goroutine.
func (w *callWriter) writeAll() {
	defer close(w.ended)
	for b := range w.full {
		if b.written != nil {
			close(b.written)
			continue
		}
		if w.err == nil && len(b.layout) > 0 {
			_, w.err = w.to.Write(b.layout)
		}
		if w.err == nil {
			w.err = w.write(&b)
		}
		w.free <- b.calls[:cap(b.calls)]
	}
}

// write writes a buffer as one blob, with one system call: a trace may be written to the same file meanwhile.
func (w *callWriter) write(b *fullBuffer) error {
	w.out = trace.AppendBlob(w.out[:0])
	if w.log.Whole {
		w.out = append(w.out, b.calls...)
	} else {
		b.of.Hashes = b.calls
		w.chunk = calls.Encode(w.chunk[:0], &b.of)
		w.out = checkpoint.AppendStored(w.out, checkpoint.Chunk{Kind: checkpoint.Hashes, From: b.from}, w.chunk)
	}
	trace.EndBlob(w.out)
	_, err := w.to.Write(w.out)
	return err
}
