// SPDX-License-Identifier: Apache-2.0

// Package blobproc is a place for checkpoints that another process reaches for this one: a client of an object store is
// larger than all of disco-run, so it is in a program of its own. Both ends are here: docs/format/blobs.md.
//
// Guarantee: it is checkpoint.Blobs, with the errors that these have. Every message is checked before anything of it is
// used; of a blob at most 16 MiB are in the other process for this one, and at most 64 MiB of packs are read ahead
// here. The other process ends with this one, however that ends, and gives its lock back; where it ends too early,
// every call says so, and how it has ended.
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

// Blobs is a place that another process has. Goroutines may share it; they are served one after the other.
type Blobs struct {
	where  string
	stream *stream
	kill   func()
	wait   func() string // for its end, of which it gives the words; any goroutine may call it
	close  sync.Once
	ahead  *ahead

	timeout time.Duration // cancelMax, and less in tests

	mu  sync.Mutex // held during a call
	err error      // why there are no more

	calling sync.Mutex // guards busy
	busy    bool       // something is being done that can be canceled
}

// Start starts the process, which opens the address. What it refuses is a *RefusedError.
func Start(ctx context.Context, cfg Config) (*Blobs, error) {
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
	s := &stream{file: proc.Control, in: make([]byte, messageBytesMax)}
	b := &Blobs{where: cfg.Address, stream: s, timeout: cancelMax, kill: proc.Kill,
		wait: func() string {
			<-ended
			return words
		}}
	b.ahead = newAhead(b.get)
	if err := b.open(ctx, cfg); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// open has the address opened.
func (b *Blobs) open(ctx context.Context, cfg Config) error {
	refused := false
	err := b.call(ctx, &message{kind: kindOpen, name: cfg.Address, text: cfg.Owner}, func(m *message) error {
		if m.kind == kindDone {
			refused = m.end == endError
		} else {
			b.where = m.text
		}
		return nil
	})
	if refused {
		return &RefusedError{err.Error()}
	}
	return err
}

// Close ends the process, which gives a lock back before, and returns when it has ended. Only the first call does
// anything.
func (b *Blobs) Close() {
	b.close.Do(func() {
		b.stream.file.Close()
		late := time.AfterFunc(endMax, b.kill)
		defer late.Stop()
		b.wait()
	})
}

// String is the place's address.
func (b *Blobs) String() string { return b.where }

// call asks for something and waits for its end. on gets what comes until then, and the end; its error ends the
// process.
func (b *Blobs) call(ctx context.Context, m *message, on func(*message) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.err != nil {
		return b.err
	}
	b.setBusy(true)
	err := b.stream.send(m)
	defer context.AfterFunc(ctx, b.cancel)() // behind it: what comes before it cancels nothing
	for err == nil {
		if m, err = b.stream.receive(); err != nil {
			break
		}
		if err = on(m); err == nil && m.kind == kindDone {
			b.setBusy(false)
			err = m.error()
			if m.end == endCanceled && ctx.Err() != nil {
				err = ctx.Err()
			}
			return err
		}
	}
	// Nothing can be asked for any more.
	b.setBusy(false)
	b.kill() // in case it is only stuck
	b.err = fmt.Errorf("%s: the process that reaches it (%s) ended too early: %s", b.where, Command, b.wait())
	if !errors.Is(err, io.EOF) {
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
	b.stream.limit(time.Time{})
}

// cancel has what is being done ended soon.
func (b *Blobs) cancel() {
	b.calling.Lock()
	defer b.calling.Unlock()
	if b.busy {
		b.stream.limit(time.Now().Add(b.timeout))
		_ = b.stream.send(&message{kind: kindCancel}) // where it can't be sent, receive ends, too
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
		return fmt.Errorf("%s/%s: what is to be written: %w", b.where, name, err)
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
			broken = fmt.Errorf("%s/%s: %d bytes before the end of what is to be written: %w", b.where, name, left,
				cmp.Or(err, io.ErrUnexpectedEOF))
			return b.stream.send(&message{kind: kindBroken})
		}
		return b.stream.send(&message{kind: kindData, data: part})
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
