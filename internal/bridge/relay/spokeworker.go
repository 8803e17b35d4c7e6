// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// spokeWorker is a worker as its machine has it.
type spokeWorker struct {
	s             *spokeSet
	index         int
	express, bulk *flow
	killed        bool // guarded by Spoke.mu

	control *os.File        // our end of its control stream; nil: it couldn't be started
	files   [files]*os.File // of which what it writes is read; nil: none
	read    [files]int64    // how far each was read, of who passes up
	sent    [files]uint64   // bytes of each that were sent
	blobs   uint64          // of all
	fresh   atomic.Bool     // the spool begins anew
	restore *os.File        // gets what the worker begins with; nil: nothing comes
	loaded  atomic.Bool     // the worker has that: what comes next is the begin of another state
	passed  chan struct{}   // closed when its control stream has ended
	dead    atomic.Bool     // it has ended
}

func newSpokeWorker(s *spokeSet, b *child.StartBody) *spokeWorker {
	id := flowID{uint32(s.number), uint16(b.Worker)}
	restore := int64(-1)
	if b.Saves {
		restore = 0
	}
	return &spokeWorker{s: s, index: b.Worker, passed: make(chan struct{}),
		express: s.sp.express.open(flow{id: id, limit: windowBytes, sendWindow: windowBytes, granted: windowBytes,
			window: windowBytes}),
		bulk: s.sp.bulk.open(flow{id: id, limit: windowBytes, sendWindow: windowBytes, granted: windowBytes,
			window: windowBytes, blobs: [files]int64{-1, -1, -1, -1, restore}})}
}

// start starts a worker.
func (s *spokeSet) start(b *child.StartBody) {
	s.sp.mu.Lock()
	w := s.all[b.Worker]
	s.sp.mu.Unlock()
	spec, err := w.open(b)
	if err != nil {
		w.unmade(err)
		close(w.passed)
		w.exit(workerproc.Exit{Text: err.Error()}, nil)
		return
	}
	s.mu.Lock()
	s.running = append(s.running, w)
	s.mu.Unlock()
	s.pumps.Go(w.passUp)
	s.pumps.Go(w.passDown)
	if w.restore != nil {
		s.pumps.Go(w.store)
	}
	s.workers.Start(b.Worker, spec)
}

// open makes what the worker is started with.
func (w *spokeWorker) open(b *child.StartBody) (spec child.Spec, err error) {
	spec.Threads = b.Threads
	for _, f := range []struct {
		wanted bool
		which  int
		to     **os.File
	}{{b.Trace, fileTrace, &spec.Trace}, {b.Profile, fileProfile, &spec.Profile}, {b.Saves, fileSpool, &spec.Spool},
		{b.Saves, fileRestore, &w.restore}} {
		if !f.wanted {
			continue
		}
		if *f.to, err = temporary(); err == nil {
			w.files[f.which], err = outfile.Reopen(*f.to)
		}
		if err != nil {
			spec.Close()
			return spec, fmt.Errorf("relay: a temporary file for a worker's trace, profile or checkpoints: %w", err)
		}
	}
	spec.Restore, w.files[fileRestore] = w.files[fileRestore], nil
	if w.control, spec.Control, err = workerproc.ControlStream(); err != nil {
		spec.Close()
	}
	return spec, err
}

// placeError is about a folder that takes no temporary files.
type placeError struct{ error }

// Unwrap gives the cause.
func (e *placeError) Unwrap() error { return e.error }

// temporary opens a temporary file. That this process may open no more files is no fault of the folder.
func temporary() (*os.File, error) {
	dir := os.TempDir()
	f, err := outfile.Temporary(dir)
	if err != nil && !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		err = &placeError{outfile.Error(dir, err)}
	}
	return f, err
}

// unmade says in the worker's place, which is never started, that there is no folder for its files: as a worker says
// that its own files can't be made.
func (w *spokeWorker) unmade(err error) {
	if place := (*placeError)(nil); errors.As(err, &place) {
		_ = worker.WriteMessage(flowWriter{w}, &worker.Message{Type: worker.TypeFailed, // an error: the set is over
			Failed: &worker.Failed{Error: err.Error(), Wrong: true, File: true}})
	}
}

// free closes what open has made. The site has closed the set.
func (w *spokeWorker) free() {
	w.express.stop()
	w.bulk.stop()
	w.control.Close() // nil: it is an error, and nothing else
	for _, f := range w.files {
		f.Close()
	}
	w.restore.Close()
}

// report sends a packet about the worker.
func (w *spokeWorker) report(k child.Kind, body child.Body) {
	if err := w.express.process(child.Packet{Kind: k, Set: w.s.number, Body: body}); err != nil {
		w.s.sp.trouble(w.s, err)
	}
}

// exit reports the worker's end, behind everything else.
func (w *spokeWorker) exit(exit workerproc.Exit, lanes []child.Lane) {
	w.dead.Store(true)
	workerproc.LastMessages(w.control)
	<-w.passed
	for _, which := range []int{fileTrace, fileProfile} {
		w.passFile(which)
	}
	s := w.s
	s.mu.Lock()
	b := make([]byte, headBytes, headBytes+numbersBytes)
	if i := slices.Index(s.running, w); i >= 0 {
		b = putNumbers(b, s.numbers(w))
		s.running = slices.Delete(s.running, i, i+1)
	}
	s.mu.Unlock()
	(&head{uint32(s.number), uint16(w.index), isEnd, w.blobs}).put(b)
	w.express.send(session.Control, b)
	w.report(child.KindExit, child.NewExit(w.index, exit, lanes))
	w.express.stop()
	w.bulk.stop()
}

// passDown passes on what the launcher sends the worker.
func (w *spokeWorker) passDown() {
	from := &flowReader{f: w.express, behind: w.bulk}
	err := pass(from, w.control, func(t worker.MessageType, body []byte) error {
		switch t {
		case worker.TypePrepare:
			w.loaded.Store(true) // all of it is in the file
		case worker.TypeSave:
			w.fresh.Store(true) // the launcher has what was in the spool
		}
		return w.s.workers.Control(w.index, t, worker.BeginsAnew(t, body))
	})
	if err != nil {
		w.s.sp.trouble(w.s, err)
		return
	}
	if _, err := io.Copy(io.Discard, from); err == nil { // the worker may have ended before
		w.control.Close() // the launcher has closed its end
	}
}

// store writes what the worker is to begin with.
func (w *spokeWorker) store() {
	for at := int64(0); ; {
		it, ok := w.bulk.next()
		if !ok {
			return
		}
		var err error
		if w.loaded.Swap(false) {
			at, err = 0, w.restore.Truncate(0)
		}
		if err == nil {
			_, err = w.restore.WriteAt(it.bytes, at)
		}
		if err != nil {
			w.s.sp.trouble(w.s, fmt.Errorf("relay: writing what worker %d begins with: %w", w.s.plan.First+w.index,
				err))
			return
		}
		at += int64(len(it.bytes))
		w.bulk.done()
	}
}

// passUp passes on what the worker sends the launcher, each message behind what it says is in a file.
func (w *spokeWorker) passUp() {
	defer close(w.passed)
	err := pass(lastReader{w}, flowWriter{w}, func(t worker.MessageType, _ []byte) error {
		switch t {
		case worker.TypeSaved: // the launcher looks how much everybody has worked, and takes the trace so far
			w.s.sp.show(w.s.sp.express)
			w.passFile(fileTrace)
		case worker.TypeDone, worker.TypeReady: // it takes the trace so far
			w.passFile(fileTrace)
		case worker.TypeStored:
			if w.fresh.Swap(false) {
				w.read[fileSpool] = 0
			}
			w.passFile(fileSpool)
		}
		return nil
	})
	if err != nil {
		w.s.sp.trouble(w.s, err)
	}
}

// passFile passes on what the worker has written to a file since.
func (w *spokeWorker) passFile(which int) {
	f := w.files[which]
	if f == nil {
		return
	}
	b := make([]byte, headBytes+chunkBytes)
	for {
		n, err := f.ReadAt(b[headBytes:], w.read[which])
		(&head{uint32(w.s.number), uint16(w.index), uint16(which), w.sent[which]}).put(b)
		if n > 0 && !w.bulk.send(session.Blob, b[:headBytes+n]) {
			return
		}
		w.read[which] += int64(n)
		w.sent[which] += uint64(n)
		w.blobs += uint64(n)
		if err == io.EOF {
			return
		}
		if err != nil {
			w.s.sp.trouble(w.s, fmt.Errorf("relay: reading what worker %d has written: %w", w.s.plan.First+w.index,
				err))
			return
		}
	}
}

// pass passes messages on, each behind a call with the first bytes of its body, until one of both streams ends. An
// error is that of the call, or that what came is no message.
func pass(from io.Reader, to io.Writer, before func(t worker.MessageType, body []byte) error) error {
	b := make([]byte, chunkBytes)
	for {
		if _, err := io.ReadFull(from, b[:worker.HeadBytes]); err != nil {
			return nil
		}
		t, size, err := worker.ParseHead(b)
		if err != nil {
			return err
		}
		for at := worker.HeadBytes; at > 0 || size > 0; at = 0 {
			n := min(size, len(b)-at)
			if _, err := io.ReadFull(from, b[at:at+n]); err != nil {
				return nil
			}
			if at > 0 {
				if err := before(t, b[at:at+n]); err != nil {
					return err
				}
			}
			if _, err := to.Write(b[:at+n]); err != nil {
				return nil
			}
			size -= n
		}
	}
}

// errShut is that of a flow which is shut.
var errShut = errors.New("relay: the set is being closed, or the session has ended")

// flowReader reads the bytes that come in a flow, up to their end.
type flowReader struct {
	f, behind *flow // a frame of f comes behind the bytes of files in the other one that it names
	at        int   // in the first frame
}

func (r *flowReader) Read(b []byte) (int, error) {
	it, ok := r.f.next()
	switch {
	case !ok:
		return 0, errShut
	case it.head.what == isEnd:
		return 0, io.EOF
	}
	if !r.behind.await(it.head.at) {
		return 0, errShut
	}
	n := copy(b, it.bytes[r.at:])
	if r.at += n; r.at == len(it.bytes) {
		r.at = 0
		r.f.done()
	}
	return n, nil
}

// flowWriter sends what a worker has sent, at most chunkBytes at a time.
type flowWriter struct{ w *spokeWorker }

func (f flowWriter) Write(b []byte) (int, error) {
	w := f.w
	hd := make([]byte, headBytes)
	(&head{uint32(w.s.number), uint16(w.index), isBytes, w.blobs}).put(hd)
	if !w.express.send(session.Control, hd, b) {
		return 0, errShut
	}
	return len(b), nil
}

// lastReader reads a worker's end of its control stream. When the worker has ended, only what it has sent before is
// awaited, since another process may hold the stream open: for so long that it comes, and not while something else is
// awaited.
type lastReader struct{ w *spokeWorker }

func (r lastReader) Read(b []byte) (int, error) {
	for {
		dead := r.w.dead.Load()
		if dead {
			workerproc.LastMessages(r.w.control)
		}
		n, err := r.w.control.Read(b)
		if n > 0 || dead || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}
