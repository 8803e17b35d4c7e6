// SPDX-License-Identifier: Apache-2.0

package blobproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/workerproc"
)

// Place is what the process has.
type Place interface {
	checkpoint.Blobs
	Close()
}

// Open opens the place that an address names. owner is whose lock it will be, for people.
type Open func(ctx context.Context, address, owner string) (Place, error)

// partingMax is how long the process may take to give its lock back, and to close the place, when its user is gone. A
// store that doesn't answer would hold it up for longer: the lock ends by itself then.
const partingMax = 5 * time.Second

// Inherit takes over the stream that this process was started with.
func Inherit() (*os.File, error) {
	if !workerproc.Started(Command) {
		return nil, errors.New("blobproc: nothing has started this process")
	}
	files, control, err := workerproc.InheritParting(partingMax)
	for _, f := range files {
		f.Close() // there are none
	}
	return control, err
}

// server is the process that has a place.
type server struct {
	stream *stream
	limit  time.Duration // partingMax, and less in tests
	data   chan *message // what was wanted
	gone   chan struct{} // closed when nothing more is received
	place  Place         // nil: not opened yet
	unlock func() error  // nil: there is no lock
	buf    []byte        // of Get
}

// request is something that is to be done.
type request struct {
	*message
	ctx    context.Context
	cancel context.CancelFunc
}

// Serve does what the other end of a control stream asks for until that is closed; then it gives the lock back, where
// there is one, closes the place and the stream, and returns within partingMax. An error is a fault of the other end,
// or of giving the lock back.
func Serve(control *os.File, open Open) error { return newServer(control, partingMax).serve(open) }

func newServer(control *os.File, limit time.Duration) *server {
	return &server{stream: &stream{file: control}, limit: limit, data: make(chan *message, 1),
		gone: make(chan struct{})}
}

// serve is Serve.
func (s *server) serve(open Open) error {
	requests := make(chan *request)
	received := make(chan error, 1)
	go func() {
		received <- s.receive(requests)
		close(requests)
	}()
	for r := range requests {
		err := s.do(r, open)
		answer := done(err, r.ctx.Err() != nil)
		r.cancel()
		if s.stream.send(answer) != nil {
			break // the other end is gone, which receive finds
		}
	}
	s.stream.file.Close() // ends receive, where sending has failed
	for r := range requests {
		r.cancel()
	}
	return errors.Join(<-received, s.leave())
}

// leave gives the lock back and closes the place, unless that takes too long: this process ends then, and with it what
// still waits for the store.
func (s *server) leave() error {
	if s.place == nil {
		return nil
	}
	left := make(chan error, 1)
	go func() {
		var err error
		if s.unlock != nil {
			err = s.unlock()
		}
		s.place.Close()
		left <- err
	}()
	select {
	case err := <-left:
		return err
	case <-time.After(s.limit):
		return fmt.Errorf("blobproc: %v isn't closed within %v: its lock, if it had one, ends by itself", s.place,
			s.limit)
	}
}

// receive takes messages until the other end has closed the stream.
func (s *server) receive(requests chan<- *request) error {
	cancel := func() {}
	defer func() {
		cancel()
		close(s.gone)
	}()
	for {
		m, err := s.stream.receive()
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			return nil
		}
		switch {
		case err != nil:
			return err
		case m.kind == kindCancel: // of what has ended by now, perhaps
			cancel()
		case m.kind == kindData, m.kind == kindBroken:
			select {
			case s.data <- m:
			default:
				return errors.New("blobproc: found bytes that nobody wants")
			}
		case m.kind > kindCancel:
			return fmt.Errorf("blobproc: found a message of kind %d, which the other end doesn't send", m.kind)
		default:
			r := &request{message: m}
			r.ctx, r.cancel = context.WithCancel(context.Background())
			cancel = r.cancel
			requests <- r
		}
	}
}

// do does what is asked for.
func (s *server) do(r *request, open Open) (err error) {
	if r.kind == kindOpen {
		if s.place != nil {
			return fmt.Errorf("blobproc: %v is open", s.place)
		}
		place, err := open(r.ctx, r.name, r.text)
		if err == nil {
			s.place = place
			err = s.stream.send(&message{kind: kindData, text: place.String()})
		}
		return err
	}
	if s.place == nil {
		return errors.New("blobproc: nothing is open")
	}
	switch r.kind {
	case kindPut:
		return s.put(r)
	case kindGet:
		return s.get(r)
	case kindList:
		return s.list(r)
	case kindDelete:
		return s.place.Delete(r.ctx, r.names...)
	case kindLock:
		unlock, err := s.place.Lock(r.ctx)
		if err == nil {
			s.unlock = unlock
		}
		return err
	case kindUnlock:
		if unlock := s.unlock; unlock != nil {
			s.unlock = nil
			return unlock()
		}
	}
	return nil
}

func (s *server) put(r *request) error {
	return s.place.Put(r.ctx, r.name, &puller{s, r.ctx, nil, r.size}, r.size, r.onlyNew)
}

// puller reads the blob that the other end puts: it asks for what it reads.
type puller struct {
	*server
	ctx  context.Context
	data []byte // that are here
	left int64  // bytes that aren't
}

// errBroken says that the other end has no more bytes, and knows why.
var errBroken = errors.New("blobproc: what is to be written can't be read")

// Read implements io.Reader.
func (p *puller) Read(b []byte) (int, error) {
	if len(p.data) == 0 && p.left == 0 {
		return 0, io.EOF
	}
	if len(p.data) == 0 {
		want := min(p.left, dataBytesMax)
		if err := p.stream.send(&message{kind: kindWant, size: want}); err != nil {
			return 0, err
		}
		// The other end answers also what was canceled, so that the next one doesn't get the answer.
		select {
		case m := <-p.server.data:
			if m.kind == kindBroken {
				return 0, errBroken
			}
			if int64(len(m.data)) != want {
				return 0, fmt.Errorf("blobproc: found %d bytes, want %d", len(m.data), want)
			}
			p.data, p.left = m.data, p.left-want
		case <-p.gone:
			return 0, io.ErrUnexpectedEOF
		}
		if err := p.ctx.Err(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	return n, nil
}

func (s *server) get(r *request) (err error) {
	if s.buf, err = s.place.Get(r.ctx, r.name, r.from, min(r.size, pieceBytesMax), s.buf); err != nil {
		return err
	}
	for data := s.buf; len(data) > 0; {
		n := min(len(data), dataBytesMax)
		if err := s.stream.send(&message{kind: kindData, data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (s *server) list(r *request) error {
	blobs, err := s.place.List(r.ctx, r.name)
	for len(blobs) > 0 && err == nil {
		n := min(len(blobs), namesInMessage)
		err = s.stream.send(&message{kind: kindBlobs, blobs: blobs[:n]})
		blobs = blobs[n:]
	}
	return err
}
