// SPDX-License-Identifier: Apache-2.0

// Package pipetest has connections in memory for tests of sessions and of what uses them, with the faults that real
// ones have.
//
// It doesn't import package session, whose own tests use it: M is *session.Buffer, and what New gives is then a
// session.Conn.
//
// Guarantee: without a fault each message arrives whole, once, in order. Close ends every wait of both ends.
//
//	a, b := pipetest.New[*session.Buffer](8)
//	x, y := pipetest.WithFaults(&pipetest.Faults{Left: 20, What: pipetest.Ends}, a, b)
package pipetest

import (
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// Message is what is sent; the connection gets one reference to it.
type Message interface {
	Bytes() []byte
	Free()
}

// Conn is a connection, as session.Conn says.
type Conn[M Message] interface {
	Send(M) error
	Receive() ([]byte, error)
	Close()
}

// ErrClosed is what sending over a connection returns that was closed, or cut.
var ErrClosed = errors.New("pipetest: closed")

// Pipe is one end of a connection in memory: messages wait in slots, which are used again.
type Pipe[M Message] struct {
	out, in *slots
	taken   int // slot that the reader has, or -1
}

type slots struct {
	bytes      [][]byte
	full, free chan int
	closed     chan struct{}
	once       *sync.Once // of both directions
}

// New makes a connection that holds so many messages each way.
func New[M Message](n int) (a, b *Pipe[M]) {
	closed, once := make(chan struct{}), new(sync.Once)
	direction := func() *slots {
		s := &slots{make([][]byte, n), make(chan int, n), make(chan int, n), closed, once}
		for i := range n {
			s.bytes[i] = make([]byte, 0, 1<<12)
			s.free <- i
		}
		return s
	}
	x, y := direction(), direction()
	return &Pipe[M]{x, y, -1}, &Pipe[M]{y, x, -1}
}

// Send copies the message into a slot, when there is one.
func (p *Pipe[M]) Send(m M) error {
	defer m.Free()
	select {
	case <-p.out.closed:
		return ErrClosed
	default:
	}
	select {
	case i := <-p.out.free:
		p.out.bytes[i] = append(p.out.bytes[i][:0], m.Bytes()...)
		p.out.full <- i
		return nil
	case <-p.out.closed:
		return ErrClosed
	}
}

// Receive gives the next message; behind the last one io.EOF.
func (p *Pipe[M]) Receive() ([]byte, error) {
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

// Close closes both directions.
func (p *Pipe[M]) Close() { p.in.once.Do(func() { close(p.in.closed) }) }

// Fault is what happens to a connection.
type Fault int

// Faults of a connection.
const (
	None     Fault = iota
	Ends           // both ends see an end
	HalfOpen       // nothing arrives any more, and nobody sees it
	Stuck          // likewise, and Send doesn't return
	End            // above all others
)

// Faults are those of one connection, in both directions.
type Faults struct {
	Rand     *rand.Rand    // of delays
	Left     int           // messages until it happens; below 0: never
	What     Fault         // that happens
	DelayMax time.Duration // of a message

	mu sync.Mutex
}

// Faulty is an end of a connection with faults.
type Faulty[M Message] struct {
	Conn[M]
	f      *Faults
	closed chan struct{}
	once   sync.Once
}

// WithFaults gives both ends of a connection the same faults.
func WithFaults[M Message](f *Faults, a, b Conn[M]) (x, y *Faulty[M]) {
	end := func(c Conn[M]) *Faulty[M] { return &Faulty[M]{Conn: c, f: f, closed: make(chan struct{})} }
	return end(a), end(b)
}

// happens counts a message, and gives the fault that it meets, and its delay.
func (f *Faults) happens() (Fault, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var delay time.Duration
	if f.DelayMax > 0 {
		delay = time.Duration(f.Rand.Int64N(int64(f.DelayMax)))
	}
	if f.Left != 0 {
		f.Left--
		return None, delay
	}
	return f.What, delay
}

// Send sends, unless the fault happens.
func (c *Faulty[M]) Send(m M) error {
	what, delay := c.f.happens()
	time.Sleep(delay)
	switch what {
	case Ends:
		m.Free()
		c.Conn.Close()
		return ErrClosed
	case HalfOpen:
		m.Free()
		return nil
	case Stuck:
		m.Free()
		<-c.closed
		return ErrClosed
	}
	return c.Conn.Send(m)
}

// Receive doesn't see an end that is behind a fault.
func (c *Faulty[M]) Receive() ([]byte, error) {
	b, err := c.Conn.Receive()
	c.f.mu.Lock()
	hidden := err != nil && c.f.Left == 0 && c.f.What >= HalfOpen
	c.f.mu.Unlock()
	if hidden {
		<-c.closed
	}
	return b, err
}

// Close closes the connection, also for who waits in a fault.
func (c *Faulty[M]) Close() {
	c.once.Do(func() { close(c.closed) })
	c.Conn.Close()
}
