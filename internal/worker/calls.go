// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"io"

	"github.com/disco-sim/disco/internal/calls"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
)

// How a worker keeps the journal of activations (docs/checkpoints.md, section 6): its Engine fills one buffer, and a
// goroutine packs, compresses and writes those that are full, as chunks of kind hashes in blobs of the file for the
// trace. When all buffers are full the Engine waits for that goroutine, which waits for nothing but the file. What
// can't be written is lost: then the run goes on, and has no further checkpoints.

const (
	callBuffers = 3
	// bufferCalls is how many calls a buffer has: 2 MB, and no power of two, for which the planes of a chunk (package
	// calls) would lie in the same lines of a cache.
	bufferCalls = 130_000
)

// callWriter keeps a worker's journal of activations. The worker's goroutine uses it, but for write. A nil one keeps
// none.
type callWriter struct {
	log  node.CallLog
	to   io.Writer
	full chan fullBuffer // to the goroutine
	free chan []byte     // from it: empty ones

	bundler     checkpoint.Bundler
	chunk, blob []byte
	err         error         // of the goroutine; may be read when nothing is with it
	ended       chan struct{} // closed when it has ended
}

// fullBuffer goes to the goroutine: calls, or a channel to be closed when all before it are written.
type fullBuffer struct {
	calls   []byte
	written chan struct{}
}

// callsError is why a worker's journal isn't whole.
type callsError struct{ err error }

func (e *callsError) Error() string {
	return fmt.Sprintf("the temporary file for the journal of activations: %v: what was called since the last "+
		"checkpoint is lost for replay, and no further one can be made", unnamed(e.err))
}

func newCallWriter(to io.Writer) *callWriter { return startCallWriter(to, bufferCalls) }

// startCallWriter is newCallWriter with buffers of so many calls.
func startCallWriter(to io.Writer, size int) *callWriter {
	w := &callWriter{to: to, full: make(chan fullBuffer, callBuffers+1), free: make(chan []byte, callBuffers),
		ended: make(chan struct{})}
	w.log.Full = w.hand
	for range callBuffers {
		w.free <- make([]byte, size*node.CallBytes)
	}
	go w.writeAll()
	return w
}

// hand gives a buffer to the goroutine, and takes an empty one.
func (w *callWriter) hand(calls []byte) []byte {
	if len(calls) > 0 {
		w.full <- fullBuffer{calls: calls} // it has room for all buffers there are
	}
	return <-w.free
}

// flush returns when all calls are in the file, or lost.
func (w *callWriter) flush() {
	if w == nil {
		return
	}
	if calls := w.log.Take(); len(calls) > 0 {
		w.full <- fullBuffer{calls: calls}
	} else if cap(calls) > 0 {
		w.free <- calls[:cap(calls)]
	}
	written := make(chan struct{})
	w.full <- fullBuffer{written: written}
	<-written
}

// reset begins a replication.
func (w *callWriter) reset() {
	if w == nil {
		return
	}
	w.flush()
	w.err = nil
}

// failed says why the journal of the replication isn't whole, nil where it is. All is flushed.
func (w *callWriter) failed() error {
	if w == nil || w.err == nil {
		return nil
	}
	return &callsError{w.err}
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
		if w.err == nil {
			w.err = w.write(b.calls)
		}
		w.free <- b.calls[:cap(b.calls)]
	}
}

// write writes a buffer as one blob, with one system call: a trace may be written to the same file meanwhile.
func (w *callWriter) write(log []byte) error {
	var from float64
	w.chunk, from = calls.Encode(w.chunk[:0], log)
	var err error
	w.blob, err = w.bundler.Append(trace.AppendBlob(w.blob[:0]), checkpoint.Chunk{Kind: checkpoint.Hashes, From: from},
		w.chunk)
	if err != nil {
		return err
	}
	trace.EndBlob(w.blob)
	_, err = w.to.Write(w.blob)
	return err
}
