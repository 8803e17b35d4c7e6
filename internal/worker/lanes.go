// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/idle"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/router"
	"github.com/disco-sim/disco/shm"
)

// lanes is a worker's ends of the ways to and from its peers, and of termination detection:
// everything that is opened once and serves all replications. The duty cycle uses them
// through the interfaces of package router alone. This file is where they are made of
// shared memory, and where another kind of link would be made.
type lanes struct {
	router   *router.Router
	in       router.Receiver
	feed     feed
	detector router.Detector
	pool     *shm.Pool       // of this worker's own blocks; shown, not used; nil where it sends nothing
	bell     *shm.Doorbell   // its own, rung when there is something to take in
	cycles   []*shm.Doorbell // by worker: of its duty cycle
	closed   bool
}

// memory is what lanes are opened from.
type memory struct {
	plan  *node.Plan
	setup *Setup
	segs  Segments

	bells []*shm.Doorbell // by worker: rung when there is something to take in
	// by worker: rung for its duty cycle, which may wait for room; the same where it takes in itself
	cycles []*shm.Doorbell
}

// openLanes opens the ends of all lanes that the plan uses. Lanes between workers
// without links to each other stay untouched. wait is what sends call while there is no
// room in the lane to a peer.
func openLanes(plan *node.Plan, setup *Setup, segs Segments, wait func(peer int) error) (*lanes, error) {
	if err := segs.check(plan, setup); err != nil {
		return nil, err
	}
	m := &memory{plan: plan, setup: setup, segs: segs}
	if err := m.openBells(); err != nil {
		return nil, err
	}
	l := &lanes{bell: m.bells[setup.Worker], cycles: m.cycles}
	if err := m.open(l, wait); err != nil {
		return nil, errors.Join(fmt.Errorf("worker: %w", err), l.close())
	}
	return l, nil
}

func (m *memory) openBells() error {
	for w := range m.setup.Workers {
		if !m.setup.here(w) {
			b, err := m.pumpBell(w)
			if err != nil {
				return err
			}
			m.bells, m.cycles = append(m.bells, b), append(m.cycles, b)
			continue
		}
		comes, room, err := Bells(m.segs.Boards[w], m.setup.Tuning)
		if err != nil {
			return fmt.Errorf("worker: board of worker %d: %w", w, err)
		}
		m.bells, m.cycles = append(m.bells, comes), append(m.cycles, room)
	}
	return nil
}

// pumpBell is the doorbell of the bridge's pump for the machine of a worker elsewhere: on the mirror of the first
// worker there.
func (m *memory) pumpBell(worker int) (*shm.Doorbell, error) {
	first := slices.Index(m.setup.Machine, m.setup.Machine[worker])
	b, err := shm.OpenDoorbell(bell(m.segs.Boards[first]))
	if err != nil {
		return nil, fmt.Errorf("worker: doorbell of the bridge for machine %d: %w", m.setup.Machine[worker], err)
	}
	return b, nil
}

// open opens what l consists of, one after the other.
func (m *memory) open(l *lanes, wait func(peer int) error) (err error) {
	self := m.setup.Worker
	if own := m.segs.Pools[self]; own != nil {
		if l.pool, err = shm.NewGrowingPool(own.Body(), own.Take); err != nil {
			return fmt.Errorf("own pool: %w", err)
		}
	}
	if l.in, err = m.openReceiver(); err != nil {
		return err
	}
	if l.router, err = m.openSenders(l.pool, wait); err != nil {
		return err
	}
	if l.detector, err = m.openDetector(); err != nil {
		return err
	}
	var peers []int
	for peer := range m.setup.Workers {
		if peer != self && m.setup.receives(m.plan, peer) {
			peers = append(peers, peer)
		}
	}
	l.feed, err = newFeed(l.in, peers, m.setup, m.bells[self], m.cycles[self])
	return err
}

func (m *memory) openReceiver() (router.Receiver, error) {
	sizes, err := poolSizes(m.setup.Tuning)
	if err != nil {
		return nil, err
	}
	var sources []ingress.Source
	for peer := range m.setup.Workers {
		if peer != m.setup.Worker && m.setup.receives(m.plan, peer) {
			sources = append(sources, ingress.Source{
				Peer: peer, Lane: m.segs.In[peer].Body(), Pool: m.segs.Pools[peer].Body(),
				PoolSizes: sizes, Parts: true, Bell: m.cycles[peer],
			})
		}
	}
	in, err := ingress.New(ingress.Config{Lanes: sources})
	if err != nil {
		return nil, err
	}
	return in, nil
}

func (m *memory) openSenders(pool *shm.Pool, wait func(peer int) error) (*router.Router, error) {
	byPeer := make([]router.Sender, m.setup.Workers)
	for peer := range byPeer {
		if peer == m.setup.Worker || !m.setup.sends(m.plan, peer) {
			continue
		}
		out, err := egress.New(egress.Config{
			Peer: peer, Lane: m.segs.Out[peer].Body(), Pool: pool, Bell: m.bells[peer],
			InlineMax: m.setup.inlineMax(peer), Parts: true,
			Wait: func() error { return wait(peer) },
		})
		if err != nil {
			return nil, err
		}
		byPeer[peer] = out
	}
	return router.New(m.setup.Worker, byPeer), nil
}

// sends and receives tell whether there is a lane to a peer, and from it: where nodes may move there is any.
func (s *Setup) sends(plan *node.Plan, peer int) bool { return len(s.Shards) > 0 || plan.SendsTo(peer) }
func (s *Setup) receives(plan *node.Plan, peer int) bool {
	return len(s.Shards) > 0 || plan.ReceivesFrom(peer)
}

// inlineMax is the largest data that goes inline to a peer: what the knob says, or an eighth of the ring where that is
// smaller.
func (s *Setup) inlineMax(peer int) int {
	for _, l := range s.Out {
		if int(l.Peer) == peer {
			return min(s.Tuning.InlineMax, l.RingBytes/8)
		}
	}
	return s.Tuning.InlineMax
}

// detector is termination detection through the boards of all workers.
type detector struct {
	*idle.Slot
	*idle.Watch
	others []*shm.Doorbell // of the other workers' duty cycles
}

var _ router.Detector = (*detector)(nil)

func (m *memory) openDetector() (router.Detector, error) {
	if m.setup.far() {
		return m.openFar()
	}
	slots := make([][]byte, m.setup.Workers)
	d := &detector{}
	for w := range slots {
		slots[w] = slot(m.segs.Boards[w])
		if w != m.setup.Worker {
			d.others = append(d.others, m.cycles[w])
		}
	}
	var err error
	if d.Slot, err = idle.NewSlot(slots[m.setup.Worker]); err == nil {
		d.Watch, err = idle.NewWatch(slots)
	}
	return d, err
}

// openFar is termination detection through the slots of this machine and its bridge.
func (m *memory) openFar() (*idle.Far, error) {
	var local [][]byte
	for w := range m.setup.Workers {
		if m.setup.here(w) {
			local = append(local, slot(m.segs.Boards[w]))
		}
	}
	first := m.setup.elsewhere()
	looks, err := m.pumpBell(first)
	if err != nil {
		return nil, err
	}
	return idle.NewFar(slot(m.segs.Boards[m.setup.Worker]), slot(m.segs.Boards[first]), local, looks.Ring)
}

// far tells whether the run is over several machines.
func (s *Setup) far() bool { return len(s.Machine) > 0 && s.Machine[0] != s.Machine[len(s.Machine)-1] }

// here tells whether a worker is on this one's machine.
func (s *Setup) here(worker int) bool { return !s.far() || s.Machine[worker] == s.Machine[s.Worker] }

// elsewhere is the first worker on another machine. Its mirror has the doorbell of the pump that looks for idle
// moments, and in place of a slot the jump words.
func (s *Setup) elsewhere() int {
	return slices.IndexFunc(s.Machine, func(m int32) bool { return m != s.Machine[s.Worker] })
}

// checkMachines reports machines that can't be.
func (s *Setup) checkMachines() error {
	if len(s.Machine) == 0 {
		return nil
	}
	if len(s.Machine) != s.Workers {
		return fmt.Errorf("worker: machines of %d workers, want %d or none", len(s.Machine), s.Workers)
	}
	last := int32(0)
	for w, m := range s.Machine {
		if m < last || m >= WorkersMax {
			return fmt.Errorf("worker: worker %d is on machine %d, want %d to %d", w, m, last, WorkersMax-1)
		}
		last = m
	}
	if !(s.Delay >= 0) {
		return fmt.Errorf("worker: a round trip of %v seconds between machines, want 0 or more", s.Delay)
	}
	return nil
}

// Wake implements router.Detector.
func (d *detector) Wake() {
	for _, b := range d.others {
		b.Ring()
	}
}

// reset brings the worker's ends of its lanes back to the start, for the next
// replication. All events of the one before have arrived; nobody runs meanwhile.
func (l *lanes) reset() error {
	for _, out := range l.router.Senders() {
		out.Reset()
	}
	if err := l.feed.reset(); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// close ends all lanes: nothing more will be sent or read. The segments are
// their maker's to close.
func (l *lanes) close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	if l.feed != nil {
		if err := l.feed.close(); err != nil {
			return err
		}
	}
	if l.router != nil {
		for _, out := range l.router.Senders() {
			out.Close()
		}
	}
	if l.in != nil {
		l.in.Close()
	}
	return nil
}

// largePayloads counts the events whose data went by a block, and in parts, since the
// worker was set up.
func (l *lanes) largePayloads() (blocks, parts uint64) {
	for _, out := range l.router.Senders() {
		b, p := out.LargePayloads()
		blocks, parts = blocks+b, parts+p
	}
	return blocks, parts
}
