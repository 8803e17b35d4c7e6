// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/session/pipetest"
)

// network joins bridges, and knows how many messages are under way.
type network struct {
	t       testing.TB
	bridges []*Bridge
	begun   []*session.Session // before the bridges
	ready   chan struct{}
	mu      sync.Mutex
	ways    map[way]*counts
	serving sync.WaitGroup
	failing bool // bridges end with errors
}

// way is a session's connections in one direction.
type way struct {
	from, to int
	on       session.Stream
}

// counts are of the newest connection of a session: messages that were sent, and those that nobody is at work on any
// more, by direction, that of who has dialled first.
type counts struct {
	sent, done [2]atomic.Int64
	ended      atomic.Bool
}

// counted is an end that counts what it sends, and what it is done with: when it asks for more.
type counted struct {
	session.Conn
	*counts
	own   int // direction
	taken bool
}

// dialled is the end of who has dialled, and awaited the other one, whose hello was received before.
func (n *network) dialled(w way, c session.Conn) session.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ways[w] = &counts{}
	return &counted{c, n.ways[w], 0, false}
}

func (n *network) awaited(w way, c session.Conn) session.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &counted{c, n.ways[w], 1, true}
}

func (c *counted) Send(b *session.Buffer) error {
	c.sent[c.own].Add(1)
	return c.Conn.Send(b)
}

func (c *counted) Receive() ([]byte, error) {
	if c.taken {
		c.done[1-c.own].Add(1)
	}
	b, err := c.Conn.Receive()
	if c.taken = err == nil; !c.taken {
		c.ended.Store(true)
	}
	return b, err
}

// pipes gives dialling by connections in memory, which change what they get, if it isn't nil.
func (n *network) pipes(change func(session.Conn) session.Conn) func(way) (session.Conn, error) {
	return func(w way) (session.Conn, error) {
		x, y := pipetest.New[*session.Buffer](8)
		a := n.dialled(w, x)
		n.serving.Go(func() {
			m, err := y.Receive()
			if err != nil {
				y.Close()
				return
			}
			h, err := session.ParseHello(m)
			if err != nil {
				session.Refuse(y, err)
				return
			}
			b := n.awaited(w, y)
			if change != nil {
				b = change(b)
			}
			_ = n.bridges[w.to].Accept(b, h)
		})
		if change != nil {
			a = change(a)
		}
		return a, nil
	}
}

// messages sums up those sent so far, and those that nobody is at work on any more, of connections that last.
func (n *network) messages() (sent, done int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.ways {
		if !c.ended.Load() {
			done += c.done[0].Load() + c.done[1].Load() // before sent: what is under way isn't missed
			sent += c.sent[0].Load() + c.sent[1].Load()
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
		for _, c := range n.ways {
			if c.done[0].Load() > 0 && c.done[1].Load() > 0 {
				used++
			}
		}
		n.mu.Unlock()
		if used == conns {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%d of %d connections are in use", used, conns)
		}
	}
}

// settle works until nothing is under way, or until something has moved. It reports which.
func (n *network) settle() (moved bool) {
	_, before := n.messages()
	for deadline := time.Now().Add(time.Minute); ; {
		sent, done := n.messages()
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
		if again, _ := n.messages(); sent == done && again == sent {
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
			if err := b.Close(); err != nil && !n.failing {
				n.t.Errorf("machine %d: %v", b.cfg.Machine, err)
			}
		})
	}
	all.Wait()
	for _, s := range n.begun {
		all.Go(func() { s.Close("") })
	}
	all.Wait()
	n.serving.Wait()
}
