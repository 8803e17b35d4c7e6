// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"time"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/idle"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/shm"
)

// lanes is one worker's hold on its segments: everything that is opened once and
// serves all replications.
type lanes struct {
	plan  *node.Plan
	setup *Setup
	segs  Segments

	bells  []*shm.Doorbell // by worker: rung when there is something to take in
	cycles []*shm.Doorbell // by worker: rung for its duty cycle, which may wait for room; the same where it takes in itself
	pool   *shm.Pool
	out    []*egress.Egress // by peer; nil where no link leads
	in     *ingress.Ingress
	feed   feed
	cycle  *cycle
	closed bool
}

// openLanes opens the ends of all lanes that the plan uses. Lanes between workers
// without links to each other stay untouched.
func openLanes(plan *node.Plan, setup *Setup, segs Segments) (*lanes, error) {
	if err := segs.check(setup.Worker, setup.Workers); err != nil {
		return nil, err
	}
	l := &lanes{plan: plan, setup: setup, segs: segs, out: make([]*egress.Egress, setup.Workers)}
	for w := range setup.Workers {
		b, err := shm.OpenDoorbell(bell(segs.Boards[w]))
		if err != nil {
			return nil, fmt.Errorf("worker: doorbell of worker %d: %w", w, err)
		}
		l.bells, l.cycles = append(l.bells, b), append(l.cycles, b)
		if setup.Tuning.Ingress == IngressGoroutine {
			if l.cycles[w], err = shm.OpenDoorbell(spareBell(segs.Boards[w])); err != nil {
				return nil, fmt.Errorf("worker: second doorbell of worker %d: %w", w, err)
			}
		}
	}
	var err error
	if l.pool, err = shm.NewPool(segs.Pools[setup.Worker].Body()); err != nil {
		return nil, fmt.Errorf("worker: own pool: %w", err)
	}
	var sources []ingress.Source
	for peer := range setup.Workers {
		if peer == setup.Worker || !plan.HearsFrom(peer) {
			continue
		}
		sources = append(sources, ingress.Source{
			Peer: peer, Lane: segs.In[peer].Body(), Pool: segs.Pools[peer].Body(), Parts: true, Bell: l.cycles[peer],
		})
	}
	if l.in, err = ingress.New(ingress.Config{Lanes: sources}); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return l, nil
}

// newCycle wires the duty cycle: egresses that wait through it, links, idle slots.
func (l *lanes) newCycle() (*cycle, error) {
	self, t := l.setup.Worker, l.setup.Tuning
	c := &cycle{self: self, plan: l.plan, now: time.Now, batch: t.BatchMax, pace: l.plan.Pace(), out: l.out, pool: l.pool, bells: l.cycles, published: make([]node.Bound, l.setup.Workers)}
	c.ask.answer = make(chan Status, 1)
	l.cycle = c
	for peer := range l.setup.Workers {
		if peer == self || !l.plan.SendsTo(peer) {
			continue
		}
		var err error
		l.out[peer], err = egress.New(egress.Config{
			Peer: peer, Lane: l.segs.Out[peer].Body(), Pool: l.pool, Bell: l.bells[peer], InlineMax: t.InlineMax, Parts: true,
			Wait: func() error { return c.room(peer) },
		})
		if err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
	}
	slots := make([][]byte, l.setup.Workers)
	for w := range slots {
		slots[w] = slot(l.segs.Boards[w])
	}
	var err error
	if c.slot, err = idle.NewSlot(slots[self]); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if c.watch, err = idle.NewWatch(slots); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if c.router, err = l.newRouter(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if c.counters, err = openCounters(l.segs.Boards[self]); err != nil {
		return nil, err
	}
	if l.feed, err = newFeed(l.in, l.setup, l.bells[self], l.cycles[self]); err != nil {
		return nil, err
	}
	c.feed = l.feed
	mode, err := shm.ParseMode(t.Wait)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if c.waiter, err = shm.NewWaiter(shm.WaiterConfig{Bell: c.feed.bell(), Mode: mode, Goroutines: l.setup.OneProcess}); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return c, nil
}

// reset brings the worker's ends of its lanes back to the start, for the next
// replication. All events of the one before have arrived; nobody runs meanwhile.
func (l *lanes) reset() error {
	for _, out := range l.out {
		if out != nil {
			out.Reset()
		}
	}
	if err := l.feed.reset(); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// close tells the peers that nothing more will come or be read. The segments are
// their maker's to close.
func (l *lanes) close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	var err error
	if l.feed != nil {
		err = l.feed.close()
	}
	for _, out := range l.out {
		if out != nil {
			out.Close()
		}
	}
	l.in.Close()
	return err
}
