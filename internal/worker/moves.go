// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/disco-sim/disco/node"
)

// How nodes move between two legs, when all workers stand still and nothing is under way (docs/checkpoints.md,
// section 9):
//
//  1. Move says which worker each shard belongs to from now on. A worker encodes the nodes that leave it and sends
//     them in parts, each with the worker that gets it: Moved; then it is Ready.
//  2. The launcher passes the parts on, as Load.
//  3. Leg with Moved: each worker makes a Plan for the nodes that are here now, and an Engine, which takes over what
//     stays as it is and loads what has come. Its lanes begin anew as for a replication.

// ShardsMax bounds the number of shards.
const ShardsMax = 1 << 16

// movedBytes is how large a part becomes before it is sent: 256 KiB.
const movedBytes = 256 << 10

// LoadMax bounds what may come for one worker in one move: 4 GiB.
const LoadMax = 4 << 30

// moves is what a worker has for nodes that move.
type moves struct {
	of        []uint32 // shard of each node
	owners    []int32  // by shard: its worker
	placement []int32  // by node: its worker
	send      func(*Moved) error

	version uint64       // of the allocation
	next    *node.Placed // where Move has put the nodes; nil: it hasn't come
	coming  []byte       // what Load has brought
}

// newMoves is nil where nodes stay where they are.
func newMoves(plan *node.Plan, setup *Setup) (*moves, error) {
	if len(setup.Shards) == 0 {
		return nil, nil
	}
	if len(setup.Shards) != plan.NumNodes() {
		return nil, fmt.Errorf("worker: shards of %d nodes, want %d", len(setup.Shards), plan.NumNodes())
	}
	m := &moves{of: setup.Shards, placement: make([]int32, plan.NumNodes())}
	for n, s := range m.of {
		if s >= ShardsMax {
			return nil, fmt.Errorf("worker: node %d is in shard %d, want 0 to %d", n, s, ShardsMax-1)
		}
		for int(s) >= len(m.owners) {
			m.owners = append(m.owners, -1)
		}
		w := int32(plan.WorkerOf(n))
		if m.owners[s] >= 0 && m.owners[s] != w {
			return nil, fmt.Errorf("worker: shard %d has nodes on workers %d and %d, want one", s, m.owners[s], w)
		}
		m.owners[s], m.placement[n] = w, w
	}
	return m, nil
}

// What of a node stands in Moved: a kind, the node, a length, and what the Engine has written.
const (
	movedState    = 1
	movedPending  = 2
	movedHeadByte = 1 + 4 + 4
)

// handOver encodes the nodes that leave.
func (r *replications) handOver(m *Move) error {
	v, c := r.moves, r.cycle
	if v == nil || c.engine == nil || !c.ended || !c.held() || v.next != nil {
		return errors.New("worker: nodes were to move when no leg had ended, or twice")
	}
	if len(m.Owners) != len(v.owners) {
		return fmt.Errorf("worker: found the workers of %d shards, want %d", len(m.Owners), len(v.owners))
	}
	before := v.placement
	v.placement = make([]int32, len(before))
	for n, s := range v.of {
		if v.placement[n] = m.Owners[s]; v.placement[n] < 0 || int(v.placement[n]) >= r.setup.Workers {
			return fmt.Errorf("worker: shard %d is to be on worker %d, want 0 to %d", s, m.Owners[s], r.setup.Workers-1)
		}
	}
	v.owners, v.coming, v.version = m.Owners, nil, m.Version
	c.engine.OwnPayloads()
	out := outgoing{parts: make([][]byte, r.setup.Workers), send: v.send}
	for _, n := range r.plan.Nodes() {
		to := v.placement[n]
		if int(to) == r.setup.Worker {
			continue
		}
		err := out.add(to, movedState, n, func(b []byte) ([]byte, error) { return c.engine.AppendNode(b, int(n)) })
		if err != nil {
			return err
		}
	}
	err := c.engine.EachPendingOf(func(n int) bool { return int(v.placement[n]) != r.setup.Worker },
		func(n int, encoded []byte) error {
			return out.add(v.placement[n], movedPending, uint32(n), func(b []byte) ([]byte, error) {
				return append(b, encoded...), nil
			})
		})
	if err == nil {
		err = out.flush()
	}
	if err == nil {
		v.next, err = r.plan.Placed.Move(v.placement)
	}
	return err
}

// outgoing collects what goes to other workers.
type outgoing struct {
	parts [][]byte // by worker
	send  func(*Moved) error
}

func (o *outgoing) add(to int32, kind byte, n uint32, encode func(b []byte) ([]byte, error)) error {
	b := o.parts[to]
	at := len(b)
	b = append(b, kind, 0, 0, 0, 0, 0, 0, 0, 0)
	b, err := encode(b)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(b[at+1:], n)
	binary.LittleEndian.PutUint32(b[at+5:], uint32(len(b)-at-movedHeadByte))
	if o.parts[to] = b; len(b) >= movedBytes {
		return o.flushTo(int32(to))
	}
	return nil
}

func (o *outgoing) flushTo(to int32) error {
	data := o.parts[to]
	o.parts[to] = o.parts[to][:0]
	return o.send(&Moved{To: to, Data: data})
}

func (o *outgoing) flush() error {
	for to := range o.parts {
		if len(o.parts[to]) > 0 {
			if err := o.flushTo(int32(to)); err != nil {
				return err
			}
		}
	}
	return nil
}

// take keeps a part of what comes from others.
func (r *replications) take(l *Load) error {
	if r.moves == nil || r.moves.next == nil {
		return errors.New("worker: nodes came that weren't to move")
	}
	if len(l.Data) > LoadMax-len(r.moves.coming) {
		return fmt.Errorf("worker: more than %d bytes of nodes came in one move: want fewer shards to move at a time",
			LoadMax)
	}
	r.moves.coming = append(r.moves.coming, l.Data...)
	return nil
}

// each yields what has come, nodes first.
func (v *moves) each(state, pending func(n int, encoded []byte) error) error {
	for b := v.coming; len(b) > 0; {
		if len(b) < movedHeadByte {
			return fmt.Errorf("worker: nodes that came end with %d bytes, want %d", len(b), movedHeadByte)
		}
		kind, n, size := b[0], binary.LittleEndian.Uint32(b[1:]), binary.LittleEndian.Uint32(b[5:])
		if b = b[movedHeadByte:]; uint64(size) > uint64(len(b)) || int64(n) >= int64(len(v.of)) {
			return fmt.Errorf("worker: %d bytes came of node %d, want at most %d of node 0 to %d", size, n, len(b),
				len(v.of)-1)
		}
		load := state
		switch kind {
		case movedState:
		case movedPending:
			load = pending
		default:
			return fmt.Errorf("worker: found a part of kind %d of a node that came, want %d or %d", kind, movedState,
				movedPending)
		}
		if err := load(int(n), b[:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// adopt makes plan and Engine for the nodes that are here now.
func (r *replications) adopt() error {
	v, c := r.moves, r.cycle
	if v == nil || v.next == nil {
		return errors.New("worker: a leg was to begin with nodes that have moved, but none have")
	}
	plan, err := newPlan(v.next, r.setup)
	if err != nil {
		return err
	}
	if err := c.lanes.reset(); err != nil {
		return err
	}
	cfg := r.config(r.replication)
	cfg.Resume = &node.Resume{Epoch: c.until, From: c.engine, Each: v.each}
	cfg.Resident = r.scratch.resident(r.setup.Tuning.Resident, plan)
	e, err := node.NewEngine(plan, cfg)
	if err != nil {
		return r.wrongUse(err, true)
	}
	r.plan, v.next, v.coming = plan, nil, nil
	if r.saver != nil {
		r.saver.move(plan)
	}
	c.counters.At(showMap).Set(v.version)
	c.move(plan, e)
	return nil
}

// move makes the cycle ready for an Engine that has taken over from the one before.
func (c *cycle) move(plan *node.Plan, e *node.Engine) {
	c.withdraw()
	s := c.engine.Stats()
	c.before.Sent, c.before.Received = c.before.Sent+s.Sent, c.before.Received+s.Received
	c.engine = e
	c.ask.engine.Store(e)
	c.jumped = node.Bound{Epoch: math.Inf(-1)}
	clear(c.published)
	c.pace = plan.Pace()
	for peer := range c.receives {
		c.receives[peer] = peer != c.self && plan.ReceivesFrom(peer)
	}
	c.samples.reset()
	c.startLead()
	c.show()
}

// move has the next checkpoint be of the nodes that are here now, all of them anew.
func (s *saver) move(plan *node.Plan) {
	s.writing.Wait()
	s.plan, s.nodes = plan, plan.Nodes()
	s.newest, s.kept = saved{}, saved{}
}
