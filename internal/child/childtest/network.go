// SPDX-License-Identifier: Apache-2.0

package childtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/session/pipetest"
	"github.com/disco-sim/disco/internal/site"
)

// Signals that a child takes for faults of its network.
const (
	Isolate   = syscall.SIGUSR1 // the second machine from all others, for good
	Interrupt = syscall.SIGUSR2 // all connections, once
)

// AgainText is what a child says when a connection has taken the place of another one.
const AgainText = "connected again"

// Network is the network between the machines of a child.
type Network struct {
	Seed     uint64
	Faults   int           // connections that end, or fall silent, at a random message
	DelayMax time.Duration // of a message, at random from 0

	PeerTimeout time.Duration // of sessions; 0: 3 s
	Window      time.Duration // to reconnect in; 0: a minute
}

// network joins sites by sessions over connections in memory.
type network struct {
	options Network
	all     [][][2]*session.Session // [machine][other]
	signals chan os.Signal
	serving sync.WaitGroup

	note func(string)

	mu    sync.Mutex // guards the rest
	rng   *rand.Rand
	left  int // faults
	conns map[session.Conn][2]int
	gone  bool // the second machine is cut off
}

// of gives the sessions of one machine with another one.
func (n *network) of(machine int) func(int) [2]*session.Session {
	return func(other int) [2]*session.Session { return n.all[machine][other] }
}

// open begins the sessions.
func (n *network) open(sites []*site.Site, o Network) error {
	n.options, n.left, n.rng = o, o.Faults, rand.New(rand.NewPCG(o.Seed, 0))
	n.conns, n.signals = map[session.Conn][2]int{}, make(chan os.Signal, 8)
	for range sites {
		n.all = append(n.all, make([][2]*session.Session, len(sites)))
	}
	n.mu.Lock()
	defer n.mu.Unlock() // who dials waits
	for self := range sites {
		for peer := range sites {
			for _, on := range []session.Stream{session.Express, session.Bulk} {
				if self == peer {
					continue
				}
				s, err := session.New(n.config(sites[self], self, peer, on))
				if err != nil {
					return err
				}
				n.all[self][peer][on] = s
			}
		}
	}
	signal.Notify(n.signals, Isolate, Interrupt)
	n.serving.Go(func() {
		for s := range n.signals {
			n.cut(s == Isolate)
		}
	})
	return nil
}

func (n *network) config(at *site.Site, self, peer int, on session.Stream) session.Config {
	o := &n.options
	cfg := session.Config{Self: self, Peer: peer, Stream: on,
		Identity:       session.Identity{Cluster: "test", Incarnation: uint64(self + 1)},
		ConnectTimeout: time.Minute, PeerTimeout: cmp.Or(o.PeerTimeout, 3*time.Second),
		Window: cmp.Or(o.Window, time.Minute), ResendBytes: 1 << 20,
		Apply:   func(h session.Header, body []byte) error { return at.Apply(peer, on, h, body) },
		Changed: func(s session.State) { at.Changed(peer, on, s) },
		Acked:   func() { at.Acked(peer, on) }}
	if self < peer {
		dials := 0
		cfg.Dial = func(context.Context) (session.Conn, error) {
			if dials++; dials > 1 {
				n.note(fmt.Sprintf("machines %d and %d, %v: %s", self, peer, on, AgainText))
			}
			return n.dial(self, peer)
		}
	}
	return cfg
}

// second is the machine that Isolate is about.
const second = 1

// dial makes a connection, with its fault if it is to have one.
func (n *network) dial(from, to int) (session.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone && (from == second || to == second) {
		return nil, errors.New("no route")
	}
	f := &pipetest.Faults{Left: -1, DelayMax: n.options.DelayMax, Rand: rand.New(rand.NewPCG(n.rng.Uint64(), 0))}
	if n.left > 0 {
		n.left--
		f.Left = n.rng.IntN(200)
		f.What = pipetest.Ends + pipetest.Fault(n.rng.IntN(int(pipetest.End-pipetest.Ends)))
	}
	x, y := pipetest.New[*session.Buffer](8)
	a, b := pipetest.WithFaults[*session.Buffer](f, x, y)
	n.conns[a], n.conns[b] = [2]int{from, to}, [2]int{from, to}
	n.serving.Go(func() {
		n.accept(b, from, to)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.conns, a)
		delete(n.conns, b)
	})
	return a, nil
}

// accept is the awaiting end of a connection.
func (n *network) accept(c session.Conn, from, to int) {
	m, err := c.Receive()
	if err != nil {
		c.Close()
		return
	}
	h, err := session.ParseHello(m)
	if err != nil {
		session.Refuse(c, err)
		return
	}
	_ = n.all[to][from][h.Stream].Accept(c, h) // who is refused dials again
}

// cut ends connections: all, or those of the second machine, which gets no more.
func (n *network) cut(off bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = n.gone || off
	for c, of := range n.conns {
		if !off || of[0] == second || of[1] == second {
			c.Close()
		}
	}
}

// close ends all sessions.
func (n *network) close() {
	var all sync.WaitGroup
	for _, peers := range n.all {
		for _, both := range peers {
			for _, s := range both {
				if s != nil {
					all.Go(func() { s.Close("the run is over") })
				}
			}
		}
	}
	all.Wait()
	if n.signals != nil {
		signal.Stop(n.signals)
		close(n.signals)
	}
	n.cut(false)
	n.serving.Wait()
}
