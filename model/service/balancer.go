// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	"github.com/disco-sim/disco/node"
)

// list is the ordered list of live edges of a balancer, with its algorithm.
type list interface {
	empty() bool
	take() int32      // the edge for the next request
	pushBack(i int32) // i isn't in the list
	remove(i int32)
	order() []int32 // all edges in it, first to last
}

// change takes one edge out of the list, or puts it back at its end.
type change struct {
	at   float64
	edge int32
	up   bool
}

// balancer sends each request on over one of its live edges. Outages reach it as
// changes of its list only: they are known beforehand, so they need no
// events, and are applied, in order, before the first request at or after their time.
type balancer struct {
	out      outbox
	list     list
	changes  []change // still to come, by time; at equal times ends before starts
	received int64
}

// Handle is called by the engine only.
func (b *balancer) Handle(p *node.Simproc, events []node.Event) error { return b.handle(p, events) }

// Report is called by the engine only, once, after the last Handle.
func (b *balancer) Report(p *node.Simproc) ([]byte, error) { return reportOn(b, p, b.out.reporter) }

func (b *balancer) handle(p simproc, events []node.Event) error {
	now := p.Now()
	if now >= b.out.warm {
		b.forget(b.out.warm)
	}
	if b.out.least != nil {
		b.out.advance(now)
	}
	for len(b.changes) > 0 && b.changes[0].at <= now {
		b.apply(b.changes[0])
		b.changes = b.changes[1:]
	}
	for i := range events {
		r, err := getRequest(events[i].Data)
		if err != nil {
			return err
		}
		if b.list.empty() {
			return fmt.Errorf("service: load balancer %q has nothing left that it could send to: something that it "+
				"covers must be up at every time", b.out.box)
		}
		b.received++
		if err := b.out.send(p, b.list.take(), now, r); err != nil {
			return err
		}
	}
	return nil
}

// apply makes one change. An edge that comes back is put at the end, wherever it was.
func (b *balancer) apply(c change) {
	b.list.remove(c.edge)
	if c.up {
		b.list.pushBack(c.edge)
	}
}

func (b *balancer) report(end float64, r *reporter) {
	if at, begins := closing(b.out.warm, end); begins {
		b.forget(at)
	}
	r.boxReport = boxReport{End: end, Received: b.received, Passed: b.received, Edges: b.out.report(end, r),
		Audit: b.out.audit, Windows: closed(b.out.windows, end)}
}
