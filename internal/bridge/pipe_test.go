// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/session"
)

// network joins bridges by connections in memory, and knows how many messages are under way.
type network struct {
	t       testing.TB
	bridges []*Bridge
	ready   chan struct{}
	mu      sync.Mutex
	conns   []*counted // ends
	serving sync.WaitGroup
	connect func(from, to int, on session.Stream) (dialled, awaited session.Conn, err error)
}

// counted counts what is sent, and what the other end is done with: when it asks for more.
type counted struct {
	session.Conn
	sent, done *atomic.Int64 // of this direction, and of the other one
	taken      bool
	ended      *atomic.Bool
}

func (c *counted) Send(b *session.Buffer) error {
	c.sent.Add(1)
	return c.Conn.Send(b)
}

func (c *counted) Receive() ([]byte, error) {
	if c.taken {
		c.done.Add(1)
	}
	b, err := c.Conn.Receive()
	if c.taken = err == nil; !c.taken {
		c.ended.Store(true)
	}
	return b, err
}

// dial is what Peer.Dial does.
func (n *network) dial(from, to int) func(context.Context, session.Stream) (session.Conn, error) {
	return func(_ context.Context, on session.Stream) (session.Conn, error) {
		<-n.ready
		x, y, err := n.connect(from, to, on)
		if err != nil {
			return nil, err
		}
		var ab, ba [2]atomic.Int64 // sent, done
		var ended atomic.Bool
		a := &counted{Conn: x, sent: &ab[0], done: &ba[1], ended: &ended}
		b := &counted{Conn: y, sent: &ba[0], done: &ab[1], ended: &ended}
		n.mu.Lock()
		n.conns = append(n.conns, a, b)
		n.mu.Unlock()
		n.serving.Go(func() {
			m, err := b.Receive()
			if err != nil {
				b.Close()
				return
			}
			h, err := session.ParseHello(m)
			if err != nil {
				session.Refuse(b, err)
				return
			}
			_ = n.bridges[to].Accept(b, h)
		})
		return a, nil
	}
}

// counts sums up all messages sent so far, and those that nobody is at work on any more, of connections that last.
func (n *network) counts() (sent, done int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := 0; i < len(n.conns); i += 2 {
		a, b := n.conns[i], n.conns[i+1]
		if !a.ended.Load() {
			done += a.done.Load() + b.done.Load() // before sent: the difference is no less than what is under way
			sent += a.sent.Load() + b.sent.Load()
		}
	}
	return sent, done
}

// up waits until so many connections are in use.
func (n *network) up(conns int) {
	n.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Microsecond) {
		n.mu.Lock()
		used := 0
		for _, c := range n.conns {
			if c.done.Load() > 0 {
				used++
			}
		}
		n.mu.Unlock()
		if used == 2*conns {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%d of %d ends of connections are in use", used, 2*conns)
		}
	}
}

// settle works until nothing is under way, or until something has moved. It reports which.
func (n *network) settle() (moved bool) {
	_, before := n.counts()
	for deadline := time.Now().Add(time.Minute); ; {
		sent, done := n.counts()
		if done != before {
			return true
		}
		for _, b := range n.bridges {
			for _, p := range b.peers {
				for _, step := range []func() (bool, error){p.pass, p.carryOnce} {
					work, err := step()
					if err != nil {
						n.t.Error(err)
						return false
					}
					if work {
						return true
					}
				}
			}
		}
		if again, _ := n.counts(); sent == done && again == sent {
			return false
		}
		if time.Now().After(deadline) {
			n.t.Error("messages are under way, and nobody takes them")
			return false
		}
		time.Sleep(10 * time.Microsecond)
	}
}

// close ends all bridges, as they should end: each waits for the others.
func (n *network) close() {
	var all sync.WaitGroup
	for _, b := range n.bridges {
		all.Go(func() {
			if err := b.Close(); err != nil {
				n.t.Errorf("machine %d: %v", b.cfg.Machine, err)
			}
		})
	}
	all.Wait()
	n.serving.Wait()
}

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

var errPipe = errors.New("pipe: closed")

// newPipe makes a connection that holds so many messages each way.
func newPipe(n int) (a, b *pipe) {
	closed, once := make(chan struct{}), new(sync.Once)
	direction := func() *slots {
		s := &slots{make([][]byte, n), make(chan int, n), make(chan int, n), closed, once}
		for i := range n {
			s.free <- i
		}
		return s
	}
	x, y := direction(), direction()
	return &pipe{x, y, -1}, &pipe{y, x, -1}
}

func (p *pipe) Send(b *session.Buffer) error {
	defer b.Free()
	select {
	case <-p.out.closed:
		return errPipe
	case i := <-p.out.free:
		p.out.bytes[i] = append(p.out.bytes[i][:0], b.Bytes()...)
		p.out.full <- i
		return nil
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

func pipes(int, int, session.Stream) (session.Conn, session.Conn, error) {
	x, y := newPipe(8)
	return x, y, nil
}
