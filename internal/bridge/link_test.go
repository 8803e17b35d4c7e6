// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/idle"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/linktest"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/router"
	"github.com/disco-sim/disco/shm"
)

const (
	kindLane shm.Kind = 'l'
	kindBell shm.Kind = 'b'
)

// kind is how workers, each on a machine of its own, are joined.
type kind struct {
	window  int
	park    time.Duration // of pumps, if it isn't the usual
	timeout time.Duration // of peers; 0: a minute
	lost    time.Duration // window to reconnect in; 0: a minute
	shown   func(self int) func([]Status) []Status
	remote  func(self int) func(Status)
	blind   bool // workers don't make and compare data, which takes longer than sending them
	before  bool // sessions are there before the bridges
	dialler func(*network) func(way) (session.Conn, error)
}

// mesh is the memory of all machines, which happen to be in one process.
type mesh struct {
	*network
	k     kind
	o     linktest.Options
	bells [][]*shm.Doorbell // [machine][other]: of the pump there; at itself: the worker's
	lanes [][][2][]byte     // [from][to]: at the sender, at the receiver
	own   []*shm.Segment    // pools, by worker
	far   [][]*shm.Segment  // [machine][other]: the bridge's, for what comes from there
	slots []byte            // by worker
	jumps []byte            // by machine

	stopped atomic.Bool // workers that wait end
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *mesh) segment(what shm.Kind, size int) *shm.Segment {
	m.t.Helper()
	s, err := shm.Heap(shm.Config{Name: "bridge", Kind: what, Size: size})
	must(m.t, err)
	m.t.Cleanup(func() { must(m.t, s.Close()) })
	return s
}

func (m *mesh) pool() *shm.Segment {
	if m.o.Blocks == 0 {
		return nil
	}
	classes := []shm.BlockSize{{BlockBytes: m.o.BlockBytes, Count: m.o.Blocks}}
	size, err := shm.PoolBytes(classes)
	must(m.t, err)
	s := m.segment(shm.KindPool, size)
	must(m.t, shm.FormatPool(s.Body(), classes))
	return s
}

func (m *mesh) lane() []byte {
	cfg := lane.Config{RingBytes: m.o.RingBytes, ReturnBlocks: m.o.Blocks, Start: m.o.Start}
	size, err := lane.Size(cfg)
	must(m.t, err)
	s := m.segment(kindLane, size)
	must(m.t, lane.Format(s.Body(), cfg))
	return s.Body()
}

func (m *mesh) bell() *shm.Doorbell {
	b, err := shm.OpenDoorbell(m.segment(kindBell, shm.DoorbellBytes).Body())
	must(m.t, err)
	return b
}

func newMesh(t testing.TB, k kind, o linktest.Options) *mesh {
	t.Helper()
	m := &mesh{network: &network{t: t, ready: make(chan struct{}), ways: map[way]*counts{}}, k: k, o: o}
	dial := k.dialler(m.network)
	m.slots = m.segment(kindBell, o.Workers*idle.SlotBytes).Body()
	m.jumps = m.segment(kindBell, o.Workers*idle.JumpBytes).Body()
	for w := range o.Workers {
		m.own = append(m.own, m.pool())
		m.bells = append(m.bells, nil)
		m.lanes = append(m.lanes, make([][2][]byte, o.Workers))
		m.far = append(m.far, nil)
		for v := range o.Workers {
			m.bells[w] = append(m.bells[w], m.bell())
			m.far[w] = append(m.far[w], m.pool())
			m.lanes[w][v] = [2][]byte{m.lane(), m.lane()}
		}
	}
	for w := range o.Workers {
		m.bridges = append(m.bridges, m.bridge(w, dial))
	}
	close(m.ready)
	m.up(o.Workers * (o.Workers - 1))
	t.Cleanup(m.close)
	m.replicate(func() {})
	return m
}

// replicate begins a replication; between is what workers do when they get ready.
func (m *mesh) replicate(between func()) {
	for _, b := range m.bridges {
		must(m.t, b.Prepare())
	}
	between()
	for _, b := range m.bridges {
		b.Go()
	}
}

func (m *mesh) bridge(w int, dial func(way) (session.Conn, error)) *Bridge {
	cfg := Config{Machine: w, Crowded: true, park: m.k.park, First: w, Jump: m.jump(w),
		Workers: []Worker{{Slot: m.slot(w), Bell: m.bells[w][w]}}}
	if m.k.shown != nil {
		cfg.Shown, cfg.Remote = m.k.shown(w), m.k.remote(w)
	}
	for v := range m.o.Workers {
		if v == w {
			continue
		}
		p := Peer{Machine: v, First: v, Workers: 1, Bell: m.bells[w][v], Session: session.Config{
			Identity:       session.Identity{Cluster: "c", Incarnation: uint64(w + 10)},
			ConnectTimeout: time.Minute, PeerTimeout: cmp.Or(m.k.timeout, time.Minute),
			Window: cmp.Or(m.k.lost, time.Minute), ResendBytes: 1 << 20,
		}}
		if w < v {
			p.Dial = func(_ context.Context, on session.Stream) (session.Conn, error) {
				<-m.ready
				return dial(way{w, v, on})
			}
		}
		if m.k.before {
			p.Sessions = m.begin(w, v, p)
		}
		cfg.Peers = append(cfg.Peers, p)
		cfg.Out = append(cfg.Out, Lane{From: w, To: v, Machine: v, Window: m.k.window, Body: m.lanes[w][v][0],
			Bell: m.bells[w][w], Pool: m.own[w]})
		cfg.In = append(cfg.In, Lane{From: v, To: w, Machine: v, Window: m.k.window, Body: m.lanes[v][w][1],
			Bell: m.bells[w][w], Pool: m.far[w][v]})
	}
	b, err := New(cfg)
	must(m.t, err)
	return b
}

// begin starts the sessions with a machine, which are up before any bridge is.
func (m *mesh) begin(w, v int, p Peer) (both [2]*session.Session) {
	for _, on := range []session.Stream{session.Express, session.Bulk} {
		cfg := p.Session
		cfg.Self, cfg.Peer, cfg.Stream = w, v, on
		if p.Dial != nil {
			cfg.Dial = func(ctx context.Context) (session.Conn, error) { return p.Dial(ctx, on) }
		}
		cfg.Apply = func(h session.Header, body []byte) error {
			<-m.ready
			return m.bridges[w].Apply(v, on, h, body)
		}
		cfg.Changed = func(s session.State) {
			<-m.ready
			m.bridges[w].Changed(v, on, s)
		}
		cfg.Acked = func() { m.bridges[w].Acked(v, on) }
		var err error
		both[on], err = session.New(cfg)
		must(m.t, err)
		m.begun = append(m.begun, both[on])
	}
	return both
}

func (m *mesh) slot(w int) []byte { return m.slots[w*idle.SlotBytes : (w+1)*idle.SlotBytes] }
func (m *mesh) jump(w int) []byte { return m.jumps[w*idle.JumpBytes : (w+1)*idle.JumpBytes] }

// sender is a worker's egress. Where it finds no room it waits until nothing is under way.
type sender struct {
	*egress.Egress
	m *mesh
}

// Reset is the worker's part of it; the other end's is behind it.
func (s sender) Reset() {
	for _, b := range s.m.bridges {
		must(s.m.t, b.Prepare())
	}
	s.Egress.Reset()
}

// receiver is a worker's ingress. A Poll that finds nothing waits until nothing is under way.
type receiver struct {
	*ingress.Ingress
	m *mesh
}

func (r receiver) Poll(sink router.Sink) (n int, err error) {
	for {
		if n, err = r.Ingress.Poll(sink); n > 0 || err != nil {
			return n, err
		}
		if !r.m.settle() {
			return r.Ingress.Poll(sink) // what came before it settled
		}
	}
}

func (r receiver) Reset() error {
	err := r.Ingress.Reset()
	for _, b := range r.m.bridges {
		b.Go()
	}
	return err
}

func body(s *shm.Segment) []byte {
	if s == nil {
		return nil
	}
	return s.Body()
}

// join opens the ends of one worker.
func (m *mesh) join(w int, wait func() error) (out []router.Sender, in router.Receiver) {
	var pool *shm.Pool
	var err error
	if m.o.Blocks > 0 {
		pool, err = shm.NewPool(m.own[w].Body())
		must(m.t, err)
	}
	out = make([]router.Sender, m.o.Workers)
	var sources []ingress.Source
	for v := range m.o.Workers {
		if v == w {
			continue
		}
		e, err := egress.New(egress.Config{Peer: v, Lane: m.lanes[w][v][0], Pool: pool, Bell: m.bells[w][v],
			InlineMax: m.o.InlineMax, Parts: m.o.Parts, PublishRecords: m.o.PublishRecords,
			Wait: wait})
		must(m.t, err)
		out[v] = sender{e, m}
		sources = append(sources, ingress.Source{Peer: v, Lane: m.lanes[v][w][1], Pool: body(m.far[w][v]), Parts: true,
			Bell: m.bells[w][v]})
	}
	i, err := ingress.New(ingress.Config{Lanes: sources, RecordsMax: m.o.RecordsMax})
	must(m.t, err)
	return out, receiver{i, m}
}

// waiter waits until nothing is under way, or until there may be room.
func (m *mesh) waiter(w int) func() error {
	seen := int64(-1)
	return func() error {
		if m.settle() {
			return nil
		}
		if _, done := m.messages(); done != seen { // what was done before it settled may have made room
			seen = done
			return nil
		}
		return m.o.Wait(w)
	}
}

func (k kind) open(t testing.TB, o linktest.Options) *linktest.Ends {
	t.Helper()
	m := newMesh(t, k, o)
	e := &linktest.Ends{Out: make([][]router.Sender, o.Workers), In: make([]router.Receiver, o.Workers)}
	for w := range o.Workers {
		e.Out[w], e.In[w] = m.join(w, m.waiter(w))
	}
	// Where what a worker has sent can be read: at the first machine that is not its own.
	e.Pool = func(owner int) []byte { return body(m.far[1-min(owner, 1)][owner]) }
	return e
}

func (k kind) factory(name string) linktest.Factory {
	return linktest.Factory{Name: name, Errors: linktest.Errors{
		TooLarge: egress.ErrTooLarge, Closed: lane.ErrClosed, PeerDead: lane.ErrPeerDead, Protocol: lane.ErrProtocol,
		Refused: lane.ErrRefused,
	}, Open: k.open, Relays: true, Allocates: race.Enabled}
}

func pipes(n *network) func(way) (session.Conn, error) { return n.pipes(nil) }

// Over connections in memory, with windows from the smallest to one that nothing here fills.
func TestPipes(t *testing.T) {
	for name, window := range map[string]int{"smallest window": WindowMin, "wide window": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			linktest.Run(t, kind{window: window, dialler: pipes}.factory("bridge over pipes"))
		})
	}
}
