// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing/iotest"
	"time"
)

// pipe is one end of a connection in memory: messages wait in slots, which are used again.
type pipe struct {
	out, in *slots
	taken   int // slot that the reader has, or -1
}

type slots struct {
	bytes      [][]byte
	full, free chan int
	closed     chan struct{}
	once       *sync.Once // of both directions
}

var errClosed = errors.New("pipe: closed")

// newPipe makes a connection that holds so many messages each way.
func newPipe(n int) (a, b *pipe) {
	closed, once := make(chan struct{}), new(sync.Once)
	make1 := func() *slots {
		s := &slots{make([][]byte, n), make(chan int, n), make(chan int, n), closed, once}
		for i := range n {
			s.bytes[i] = make([]byte, 0, 1<<12)
			s.free <- i
		}
		return s
	}
	x, y := make1(), make1()
	return &pipe{x, y, -1}, &pipe{y, x, -1}
}

func (p *pipe) Send(b *Buffer) error {
	defer b.Free()
	select {
	case <-p.out.closed:
		return errClosed
	default:
	}
	select {
	case i := <-p.out.free:
		p.out.bytes[i] = append(p.out.bytes[i][:0], b.Bytes()...)
		p.out.full <- i
		return nil
	case <-p.out.closed:
		return errClosed
	}
}

func (p *pipe) Receive() ([]byte, error) {
	if p.taken >= 0 {
		p.in.free <- p.taken
		p.taken = -1
	}
	select {
	case p.taken = <-p.in.full:
		return p.in.bytes[p.taken], nil
	default:
	}
	select {
	case p.taken = <-p.in.full:
		return p.in.bytes[p.taken], nil
	case <-p.in.closed:
	}
	select { // what was sent before
	case p.taken = <-p.in.full:
		return p.in.bytes[p.taken], nil
	default:
		return nil, io.EOF
	}
}

func (p *pipe) Close() { p.in.once.Do(func() { close(p.in.closed) }) }

// bytewise is a connection over a stream of which each read gives one byte.
type bytewise struct {
	net.Conn
	in     io.Reader
	buffer []byte
}

func newBytewise() (a, b *bytewise) {
	x, y := net.Pipe()
	return &bytewise{x, iotest.OneByteReader(x), nil}, &bytewise{y, iotest.OneByteReader(y), nil}
}

func (c *bytewise) Send(b *Buffer) error {
	defer b.Free()
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(b.Bytes())))
	_, err := c.Write(append(head, b.Bytes()...))
	return err
}

func (c *bytewise) Receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	c.buffer = make([]byte, min(binary.LittleEndian.Uint32(head[:]), messageMax))
	_, err := io.ReadFull(c.in, c.buffer)
	return c.buffer, err
}

func (c *bytewise) Close() { _ = c.Conn.Close() }

// faults are those of one connection, in both directions.
type faults struct {
	mu       sync.Mutex
	rng      *rand.Rand
	left     int           // messages until it happens; below 0: never
	what     fault         // that happens
	delayMax time.Duration // of a message
}

type fault int

const (
	noFault  fault = iota
	cutOff         // both ends see an end
	halfOpen       // nothing arrives any more, and nobody sees it
	stuck          // likewise, and Send doesn't return
	faultEnd
)

// faulty is an end of a connection with faults.
type faulty struct {
	Conn
	f      *faults
	closed chan struct{}
	once   sync.Once
}

func withFaults(f *faults, a, b Conn) (*faulty, *faulty) {
	return &faulty{Conn: a, f: f, closed: make(chan struct{})}, &faulty{Conn: b, f: f, closed: make(chan struct{})}
}

// happens counts a message, and gives the fault that it meets, and its delay.
func (f *faults) happens() (fault, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var delay time.Duration
	if f.delayMax > 0 {
		delay = time.Duration(f.rng.Int64N(int64(f.delayMax)))
	}
	if f.left != 0 {
		f.left--
		return noFault, delay
	}
	return f.what, delay
}

func (c *faulty) Send(b *Buffer) error {
	what, delay := c.f.happens()
	time.Sleep(delay)
	switch what {
	case cutOff:
		b.Free()
		c.Conn.Close()
		return errClosed
	case halfOpen:
		b.Free()
		return nil
	case stuck:
		b.Free()
		<-c.closed
		return errClosed
	}
	return c.Conn.Send(b)
}

// Receive doesn't see an end that is behind a fault.
func (c *faulty) Receive() ([]byte, error) {
	b, err := c.Conn.Receive()
	c.f.mu.Lock()
	hidden := err != nil && c.f.left == 0 && c.f.what >= halfOpen
	c.f.mu.Unlock()
	if hidden {
		<-c.closed
	}
	return b, err
}

func (c *faulty) Close() {
	c.once.Do(func() { close(c.closed) })
	c.Conn.Close()
}
