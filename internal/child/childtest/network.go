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

	"github.com/disco-sim/disco/internal/bridge/relay"
	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/session/pipetest"
	"github.com/disco-sim/disco/internal/site"
	"github.com/disco-sim/disco/internal/workerproc"
)

// Signals that a child takes for faults of its network.
const (
	Isolate   = syscall.SIGUSR1  // the second machine from all others, until Heal
	Interrupt = syscall.SIGUSR2  // all connections, once
	Heal      = syscall.SIGWINCH // the second machine can be reached again
)

// silence is how long nothing may come from a machine before it counts as cut off.
const silence = 3 * time.Second

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

// launcher is the launcher's machine.
const launcher = -1

// network joins machines, and the launcher with them, by sessions over connections in memory.
type network struct {
	options *Options
	note    func(string)
	away    func(bool)
	all     map[[2]int]*[2]*session.Session // by machine and peer
	hub     *relay.Hub
	ends    []*end        // by machine
	ready   chan struct{} // closed when all is there
	signals chan os.Signal
	serving sync.WaitGroup

	mu    sync.Mutex // guards the rest
	rng   *rand.Rand
	left  int // faults
	conns map[session.Conn][2]int
	gone  bool            // the second machine is cut off
	up    int             // how often a session has come up
	begun bool            // all have
	down  map[[3]int]bool // machine, other machine and stream of sessions that aren't up since
}

// end is one machine.
type end struct {
	spoke *relay.Spoke
	site  *site.Site
}

// open begins the sessions, and what they carry.
func (n *network) open(machines []child.Machine, o *Options, h *host) error {
	exe, err := workerproc.Executable()
	if err != nil {
		return err
	}
	n.options, n.note, n.left, n.rng = o, h.Note, o.Network.Faults, rand.New(rand.NewPCG(o.Network.Seed, 0))
	n.away, n.down = h.Away, map[[3]int]bool{}
	n.conns, n.signals, n.ready = map[session.Conn][2]int{}, make(chan os.Signal, 8), make(chan struct{})
	n.all = map[[2]int]*[2]*session.Session{}
	defer close(n.ready)
	for self := launcher; self < len(machines); self++ {
		for peer := launcher; peer < len(machines); peer++ {
			for _, on := range []session.Stream{session.Express, session.Bulk} {
				if self == peer {
					continue
				}
				s, err := session.New(n.config(self, peer, on))
				if err != nil {
					return err
				}
				if n.all[[2]int{self, peer}] == nil {
					n.all[[2]int{self, peer}] = &[2]*session.Session{}
				}
				n.all[[2]int{self, peer}][on] = s
			}
		}
	}
	var names []string
	hub := relay.HubConfig{To: h, MakeTimeout: time.Minute}
	for self, m := range machines {
		names = append(names, m.Name)
		hub.Machines = append(hub.Machines, relay.Machine{Name: m.Name, Sessions: *n.all[[2]int{launcher, self}]})
	}
	for self, m := range machines {
		at := site.New(site.Config{Machine: self, Names: names, Executable: exe, Processors: m.Processors,
			Memory:   o.Memory,
			Sessions: func(peer int) [2]*session.Session { return *n.all[[2]int{self, peer}] }})
		n.ends = append(n.ends, &end{relay.NewSpoke(relay.SpokeConfig{Machine: self,
			Sessions: *n.all[[2]int{self, launcher}], Site: at}), at})
	}
	n.hub = relay.NewHub(hub)
	signal.Notify(n.signals, Isolate, Interrupt, Heal)
	n.serving.Go(func() {
		for s := range n.signals {
			n.cut(s)
		}
	})
	return nil
}

func (n *network) config(self, peer int, on session.Stream) session.Config {
	o := &n.options.Network
	cfg := session.Config{Self: self, Peer: peer, Stream: on,
		Identity:       session.Identity{Cluster: "test", Incarnation: uint64(self + 2)},
		ConnectTimeout: time.Minute, PeerTimeout: cmp.Or(o.PeerTimeout, silence),
		Window: cmp.Or(o.Window, time.Minute), ResendBytes: 1 << 20,
		Apply:   func(h session.Header, body []byte) error { return n.apply(self, peer, on, h, body) },
		Changed: func(s session.State) { n.changed(self, peer, on, s) },
		Acked:   func() { n.acked(self, peer, on) }}
	if self < peer {
		dials := 0
		cfg.Dial = func(context.Context) (session.Conn, error) {
			<-n.ready
			if dials++; dials > 1 {
				n.note(fmt.Sprintf("machines %d and %d, %v: %s", self, peer, on, AgainText))
			}
			return n.dial(self, peer)
		}
	}
	return cfg
}

// apply, changed and acked are those of session.Config.
func (n *network) apply(self, peer int, on session.Stream, h session.Header, body []byte) error {
	switch {
	case self == launcher:
		return n.hub.Apply(peer, on, h, body)
	case peer == launcher:
		return n.ends[self].spoke.Apply(on, h, body)
	}
	return n.ends[self].site.Apply(peer, on, h, body)
}

func (n *network) changed(self, peer int, on session.Stream, s session.State) {
	<-n.ready
	n.sendAway([3]int{self, peer, int(on)}, s != session.Up)
	switch {
	case self == launcher:
		n.hub.Changed(peer, on, s)
	case peer == launcher:
		n.ends[self].spoke.Changed(on, s)
	default:
		n.ends[self].site.Changed(peer, on, s)
	}
}

func (n *network) acked(self, peer int, on session.Stream) {
	switch {
	case self == launcher:
		n.hub.Acked(peer, on)
	case peer == launcher:
		n.ends[self].spoke.Acked(on)
	default:
		n.ends[self].site.Acked(peer, on)
	}
}

// sendAway says whether there are sessions that aren't up, once all were.
func (n *network) sendAway(of [3]int, down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := len(n.down) > 0
	if delete(n.down, of); down && n.begun {
		n.down[of] = true
	}
	n.up += map[bool]int{false: 1}[down]
	n.begun = n.begun || n.up >= 2*len(n.all)
	if after := len(n.down) > 0; after != before {
		n.away(after)
	}
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
	f := &pipetest.Faults{Left: -1, DelayMax: n.options.Network.DelayMax,
		Rand: rand.New(rand.NewPCG(n.rng.Uint64(), 0))}
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
	_ = n.all[[2]int{to, from}][h.Stream].Accept(c, h) // who is refused dials again
}

// cut does what a signal says.
func (n *network) cut(s os.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s == Heal {
		n.gone = false
		return
	}
	off := s == Isolate
	n.gone = n.gone || off
	for c, of := range n.conns {
		if !off || of[0] == second || of[1] == second {
			c.Close()
		}
	}
}

// close ends all.
func (n *network) close() {
	if n.hub == nil {
		return
	}
	n.mu.Lock()
	n.begun = false // sessions end now
	n.mu.Unlock()
	n.hub.Close()
	for _, e := range n.ends {
		e.spoke.Close()
	}
	var all sync.WaitGroup
	for _, both := range n.all {
		for _, s := range both {
			all.Go(func() { s.Close("the run is over") })
		}
	}
	all.Wait()
	signal.Stop(n.signals)
	close(n.signals)
	n.cut(Interrupt)
	n.serving.Wait()
}
