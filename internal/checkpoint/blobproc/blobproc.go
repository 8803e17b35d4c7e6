// SPDX-License-Identifier: Apache-2.0

// Package blobproc is a place for checkpoints that another process reaches for this one: a client of an object store is
// larger than all of disco-run, so it is in a program of its own. Both ends are here: docs/format/blobs.md.
//
// Guarantee: it is checkpoint.Blobs, with the errors that these have. Every message is checked before anything of it is
// used; of a blob at most 16 MiB are in the other process for this one, and at most 64 MiB of packs are read ahead
// here. The other process ends with this one, however that ends, and gives its lock back, for which it has 5 s. Where
// it ends too early, the call says so, and how it has ended; later calls start another one, which takes the lock again
// when that is free.
//
//	blobs, err := blobproc.Start(ctx, blobproc.Config{Executable: exe, Address: "s3://bucket/prefix", Owner: owner})
//	defer blobs.Close()
//
// The process itself is all Serve:
//
//	control, err := blobproc.Inherit()
//	err = blobproc.Serve(control, open)
package blobproc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/workerproc"
)

// Command is the hidden command with which a program starts as the process that has the place.
const Command = "blobs"

// How long the other process is waited for.
const (
	cancelMax = 5 * time.Second // until it answers what was canceled
	endMax    = 8 * time.Second // until it has ended when its stream is closed: it gives its lock back before
)

// againAfter is how long behind the end of a process, that came too early, another one is started at the soonest.
const againAfter = time.Second

// Config says what to start.
type Config struct {
	Executable string
	Args       []string               // behind Command
	Address    string                 // of the place
	Owner      string                 // of a lock, for people
	Log        *workerproc.LineWriter // gets what the process says on standard error
}

// RefusedError is what the process refuses when it is to open the address: something that the caller can change.
type RefusedError struct{ text string }

// Error is what the process said.
func (e *RefusedError) Error() string { return e.text }

// FailedError is what a place couldn't do that was opened, or that the process which reaches it has ended: a fault of
// the store, or of this machine, that may be over at another time.
type FailedError struct{ text string }

// Error is what the process said, or how it has ended.
func (e *FailedError) Error() string { return e.text }

// process is the other process, as this one has it.
type process struct {
	*stream
	kill func()
	wait func() string // for its end, of which it gives the words; any goroutine may call it
}

// Blobs is a place that another process has. Goroutines may share it; they are served one after the other.
type Blobs struct {
	cfg   Config
	start func() (*process, error) // nil: there is no second one
	ahead *ahead
	close sync.Once

	// What tests shorten: cancelMax and againAfter.
	timeout, pause time.Duration

	mu     sync.Mutex // held during a call
	err    error      // why there is no process
	ended  time.Time  // when that was found
	locked bool       // the lock was taken, and not given back

	calling sync.Mutex // guards what is below
	process *process
	where   string // its address, as the process says
	busy    bool   // something is being done that can be canceled
	closed  bool   // no other process is started
}

// Start starts the process, which opens the address. What it refuses is a *RefusedError.
func Start(ctx context.Context, cfg Config) (*Blobs, error) {
	start := func() (*process, error) { return newProcess(cfg) }
	p, err := start()
	if err != nil {
		return nil, err
	}
	b := newBlobs(cfg, p)
	b.start = start
	refused := false
	if refused, err = b.open(ctx); err != nil {
		b.Close()
		if refused {
			err = &RefusedError{err.Error()}
		}
		return nil, err
	}
	return b, nil
}

// newBlobs is what a process has, which hasn't opened it yet.
func newBlobs(cfg Config, p *process) *Blobs {
	b := &Blobs{cfg: cfg, where: cfg.Address, process: p, timeout: cancelMax, pause: againAfter}
	b.ahead = newAhead(b.get)
	return b
}

// newProcess starts one.
func newProcess(cfg Config) (*process, error) {
	output := workerproc.NewOutput(Command, cfg.Log)
	proc, err := workerproc.New(workerproc.Config{Executable: cfg.Executable, Name: Command,
		Args: append([]string{Command}, cfg.Args...), Output: output, Steady: true, Parting: true})
	if err != nil {
		return nil, err
	}
	starter := workerproc.NewStarter()
	if err := starter.Start(proc); err != nil {
		starter.Close()
		return nil, err
	}
	ended := make(chan struct{})
	var words string
	go func() {
		words = proc.Wait().Text
		starter.Close()
		for _, line := range output.Lines() {
			words += "\n    " + line
		}
		close(ended)
	}()
	return &process{stream: &stream{file: proc.Control, in: make([]byte, messageBytesMax)}, kill: proc.Kill,
		wait: func() string {
			<-ended
			return words
		}}, nil
}

// end ends the process, which gives a lock back before, and returns when it has ended.
func (p *process) end() {
	p.file.Close()
	late := time.AfterFunc(endMax, p.kill)
	defer late.Stop()
	p.wait()
}

// open has the address opened; refused: the process has said no.
func (b *Blobs) open(ctx context.Context) (refused bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err // what was canceled before it was asked cancels nothing (ask)
	}
	err = b.ask(ctx, &message{kind: kindOpen, name: b.cfg.Address, text: b.cfg.Owner}, func(m *message) error {
		if m.kind == kindDone {
			refused = m.end == endError
			return nil
		}
		b.calling.Lock()
		defer b.calling.Unlock()
		b.where = m.text
		return nil
	})
	return refused, err
}

// Close ends the process, which gives a lock back before, and returns when it has ended. Only the first call does
// anything.
func (b *Blobs) Close() {
	b.close.Do(func() {
		b.calling.Lock()
		p := b.process
		b.closed = true
		b.calling.Unlock()
		p.end()
	})
}

// String is the place's address.
func (b *Blobs) String() string {
	b.calling.Lock()
	defer b.calling.Unlock()
	return b.where
}

// call asks for something and waits for its end. on gets what comes until then, and the end; its error ends the
// process.
func (b *Blobs) call(ctx context.Context, m *message, on func(*message) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.err != nil {
		if b.start == nil || m.kind == kindUnlock || time.Since(b.ended) < b.pause {
			return b.err
		}
		if err := b.again(ctx, m.kind); err != nil {
			return err
		}
	}
	return b.ask(ctx, m, on)
}

// again starts another process in place of the one that has ended, for a call of a kind: what is written later must
// not be lost with it. Where that comes to nothing a later call tries again. The caller holds mu.
func (b *Blobs) again(ctx context.Context, k kind) error {
	p, err := b.start()
	if err != nil {
		b.ended = time.Now()
		return fmt.Errorf("%w; another one can't be started: %w", b.err, err)
	}
	b.calling.Lock()
	if b.closed {
		b.calling.Unlock()
		p.end()
		return b.err
	}
	b.process = p
	b.calling.Unlock()
	b.err = nil
	opens := &message{kind: kindOpen, name: b.cfg.Address, text: b.cfg.Owner}
	err = b.ask(ctx, opens, func(*message) error { return nil })
	if err == nil && b.locked && k != kindLock {
		err = b.ask(ctx, &message{kind: kindLock}, only)
	}
	if err != nil && b.err == nil { // without the place or its lock the process is of no use
		p.end()
		b.err, b.ended = err, time.Now()
	}
	return err
}

// ask is a call of a process that is there. The caller holds mu.
func (b *Blobs) ask(ctx context.Context, m *message, on func(*message) error) error {
	asked := m.kind
	b.setBusy(true)
	err := b.process.send(m)
	defer context.AfterFunc(ctx, b.cancel)() // behind it: what comes before it cancels nothing
	for err == nil {
		if m, err = b.process.receive(); err != nil {
			break
		}
		if err = on(m); err == nil && m.kind == kindDone {
			b.setBusy(false)
			err = m.error()
			switch {
			case m.end == endCanceled && ctx.Err() != nil:
				err = ctx.Err()
			case asked == kindLock && err == nil:
				b.locked = true
			case asked == kindUnlock:
				b.locked = false
			}
			return err
		}
	}
	// Nothing can be asked for any more.
	b.setBusy(false)
	b.process.kill() // in case it is only stuck
	b.err = &FailedError{fmt.Sprintf("%v: the process that reaches it (%s) ended too early: %s", b, Command,
		b.process.wait())}
	if b.ended = time.Now(); !errors.Is(err, io.EOF) {
		b.err = fmt.Errorf("%w (%w)", b.err, err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.err
}

// setBusy begins and ends something that can be canceled.
func (b *Blobs) setBusy(busy bool) {
	b.calling.Lock()
	defer b.calling.Unlock()
	b.busy = busy
	b.process.limit(time.Time{})
}

// cancel has what is being done ended soon.
func (b *Blobs) cancel() {
	b.calling.Lock()
	defer b.calling.Unlock()
	if b.busy {
		b.process.limit(time.Now().Add(b.timeout))
		_ = b.process.send(&message{kind: kindCancel}) // where it can't be sent, receive ends, too
	}
}

// unexpected is a fault of the other process.
func unexpected(m *message) error {
	return fmt.Errorf("blobproc: found a message of kind %d as an answer", m.kind)
}

// only takes the end and nothing else.
func only(m *message) error {
	if m.kind != kindDone {
		return unexpected(m)
	}
	return nil
}

// Put implements checkpoint.Blobs. What r gives is read before the other process is asked, because it may be read from
// this Blobs, and one thing is asked at a time.
func (b *Blobs) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	b.ahead.clear()
	staged, err := stage(r, size)
	if err != nil {
		return fmt.Errorf("%v/%s: what is to be written: %w", b, name, err)
	}
	defer staged.Close()
	return b.put(ctx, name, staged, size, onlyNew)
}

// stageMemory is how much of what is to be written is kept in memory; more goes to a file without a name.
const stageMemory = 1 << 20

// stage reads r.
func stage(r io.Reader, size int64) (io.ReadCloser, error) {
	if size <= stageMemory {
		data := make([]byte, size)
		n, err := io.ReadFull(r, data)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil // put finds it
		}
		return io.NopCloser(bytes.NewReader(data[:n])), err
	}
	f, err := outfile.Temporary(os.TempDir())
	if err != nil {
		return nil, fmt.Errorf("temporary file: %w", outfile.Error(os.TempDir(), err))
	}
	if _, err = io.Copy(f, io.LimitReader(r, size)); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// put has the other process write what r gives.
func (b *Blobs) put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	left := size
	var broken error
	buf := make([]byte, min(size, dataBytesMax))
	err := b.call(ctx, &message{kind: kindPut, name: name, size: size, onlyNew: onlyNew}, func(m *message) error {
		if m.kind != kindWant {
			return only(m)
		}
		part := buf[:min(left, m.size, dataBytesMax)]
		n, err := io.ReadFull(r, part)
		if left -= int64(n); err != nil || n == 0 {
			broken = fmt.Errorf("%v/%s: %d bytes before the end of what is to be written: %w", b, name, left,
				cmp.Or(err, io.ErrUnexpectedEOF))
			return b.process.send(&message{kind: kindBroken})
		}
		return b.process.send(&message{kind: kindData, data: part})
	})
	if err != nil && broken != nil {
		return broken
	}
	return err
}

// Get implements checkpoint.Blobs. What lies behind it in a pack is read ahead.
func (b *Blobs) Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return b.ahead.read(ctx, name, from, size, buf)
}

// get asks for bytes, piece by piece.
func (b *Blobs) get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	data := buf[:0]
	for {
		want := min(size-int64(len(data)), pieceBytesMax)
		got := int64(0)
		err := b.call(ctx, &message{kind: kindGet, name: name, from: from + int64(len(data)), size: want},
			func(m *message) error {
				if m.kind != kindData {
					return only(m)
				}
				if got += int64(len(m.data)); got > want {
					return fmt.Errorf("blobproc: found %d bytes of %s, want %d", got, name, want)
				}
				data = append(data, m.data...)
				return nil
			})
		if err != nil {
			return nil, err
		}
		if got < want || int64(len(data)) == size {
			return data, nil
		}
	}
}

// List implements checkpoint.Blobs.
func (b *Blobs) List(ctx context.Context, prefix string) (blobs []checkpoint.Blob, err error) {
	b.ahead.clear()
	err = b.call(ctx, &message{kind: kindList, name: prefix}, func(m *message) error {
		if m.kind != kindBlobs {
			return only(m)
		}
		blobs = append(blobs, m.blobs...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return blobs, nil
}

// Delete implements checkpoint.Blobs.
func (b *Blobs) Delete(ctx context.Context, names ...string) error {
	b.ahead.clear()
	for part := range slices.Chunk(names, namesInMessage) {
		if err := b.call(ctx, &message{kind: kindDelete, names: part}, only); err != nil {
			return err
		}
	}
	return nil
}

// Lock implements checkpoint.Blobs.
func (b *Blobs) Lock(ctx context.Context) (unlock func() error, err error) {
	if err := b.call(ctx, &message{kind: kindLock}, only); err != nil {
		return nil, err
	}
	return sync.OnceValue(func() error { return b.call(context.Background(), &message{kind: kindUnlock}, only) }), nil
}

// Owner is this process, for people who find its lock.
func Owner() string {
	host, _ := os.Hostname() // empty: a message says less
	return fmt.Sprintf("process %d on %s", os.Getpid(), host)
}
