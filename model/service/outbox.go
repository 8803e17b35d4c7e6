// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math/rand/v2"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
)

// outbox is the sending end of all edges that leave one box. The sender draws what
// happens to a request on its way, so the time of arrival is known at once and it can
// keep count of those in transit: no event ever has to come back.
//
// Time never goes back from call to call.
type outbox struct {
	edges    []edge
	passages heap.Heap[passage] // by arrival
	ticks    ticks
	horizon  float64
	least    *leastIndex // of a least_connection balancer, else nil
	sampled  []int32     // edges that were entered since the last tick
	data     [requestBytes]byte
	box      string   // the box's id, for messages
	audit    *audit   // checked build only
	books    []ledger // of the edges; checked build only
}

// edge is one network edge at its sender, in two cache lines. Counts are requests.
type edge struct {
	latency sampler
	events  *edgeEvents // nil: neither spikes nor outages touch it
	dropout float64

	link     node.LinkID
	transit  int32   // under way now
	area     float64 // integral of transit over time, for those that have left
	sent     int64   // entered or dropped
	tickSum  int64   // of transit over the ticks
	peak     int32
	tickPeak int32
	dropped  int64
	entered  bool // is in outbox.sampled
	chance   rand.PCG
}

// edgeEvents is what an edge keeps when the file has spikes on it, or outages of
// what it leads to.
type edgeEvents struct {
	extra   timeline.Reader // of the spikes, seconds
	spans   timeline.Cursor
	sent    []int64   // per span
	passed  []int64   // per span: sent and not dropped
	transit []float64 // per span: seconds under way, as far as the run goes
}

// send sends r on edge i, or loses it.
func (o *outbox) send(p simproc, i int32, now float64, r request) error {
	o.advance(now)
	e := &o.edges[i]
	e.sent++
	dropped := e.dropout > 0 && rand.New(&e.chance).Float64() < e.dropout
	if dropped {
		e.dropped++
		if invariants.Enabled {
			o.audit.Left.add(1, now)
		}
		if e.events != nil {
			e.events.count(now, -1)
		}
		return nil
	}
	transit := e.latency.draw()
	if e.events != nil {
		transit += e.events.extra.At(now)
	}
	arrival := now + transit
	if e.events != nil {
		e.events.count(now, min(arrival, o.horizon)-now)
	}
	if arrival > now {
		o.enter(i, now, min(arrival, o.horizon))
	}
	if !(arrival < o.horizon) {
		return nil // never handled
	}
	r.put(&o.data)
	return p.Send(e.link, arrival, o.data[:])
}

// enter puts a request on its way. An arrival at the horizon stands for all that
// the run doesn't see.
func (o *outbox) enter(i int32, now, arrival float64) {
	e := &o.edges[i]
	e.transit++
	e.peak = max(e.peak, e.transit)
	if arrival > o.ticks.at {
		e.tickSum += o.ticks.first(arrival) - o.ticks.next
	}
	if !e.entered && o.ticks.at < o.horizon {
		e.entered = true
		o.sampled = append(o.sampled, i)
	}
	o.passages.Push(arrival, passage{entry: now, edge: i})
	if o.least != nil {
		o.least.changed(i)
	}
	if invariants.Enabled {
		o.books[i].enter(now, 1)
	}
}

// advance lets everything arrive that is due at now.
func (o *outbox) advance(now float64) {
	if o.ticks.at < now {
		o.sample(now)
	}
	for o.passages.Len() > 0 && o.passages.First().Key <= now {
		o.leave()
	}
}

// sample accounts for the ticks before now. An edge's count only falls after the
// last activation, so the first of the ticks sees the most, and only on edges that
// were entered since the tick before.
func (o *outbox) sample(now float64) {
	for o.passages.Len() > 0 && o.passages.First().Key <= o.ticks.at {
		o.leave()
	}
	for _, i := range o.sampled {
		e := &o.edges[i]
		e.tickPeak = max(e.tickPeak, e.transit)
		e.entered = false
	}
	o.sampled = o.sampled[:0]
	o.ticks.pass(now)
}

// leave takes the request that arrives first off its edge.
func (o *outbox) leave() {
	arrival, p := o.passages.Pop()
	e := &o.edges[p.edge]
	e.transit--
	e.area += arrival - p.entry
	if o.least != nil {
		o.least.changed(p.edge)
	}
	if invariants.Enabled {
		o.books[p.edge].leave(p.entry, arrival, 1)
	}
}

// report closes the edges' accounts at end.
func (o *outbox) report(end float64) []edgeReport {
	if o.ticks.at < end {
		o.sample(end)
	}
	for o.passages.Len() > 0 && o.passages.First().Key < end {
		o.leave()
	}
	parts := make([]edgeReport, len(o.edges))
	for i := range o.edges {
		e := &o.edges[i]
		parts[i] = edgeReport{
			Sent: e.sent, Dropped: e.dropped, Transit: int64(e.transit), Area: e.area, Peak: int64(e.peak),
			Samples: o.ticks.next - 1, TickSum: e.tickSum, TickPeak: int64(e.tickPeak),
		}
		if e.events != nil {
			parts[i].SentIn, parts[i].PassedIn, parts[i].TransitIn = e.events.sent, e.events.passed, e.events.transit
		}
	}
	for _, item := range o.passages.Items() {
		arrival, p := item.Key, item.Value
		part := &parts[p.edge]
		part.Area += end - p.entry
		if arrival > o.ticks.at {
			part.TickSum -= o.ticks.first(arrival) - o.ticks.next
		}
		if invariants.Enabled {
			o.books[p.edge].stay(p.entry, end, 1)
		}
	}
	if invariants.Enabled {
		for i := range o.edges {
			book := &o.books[i]
			book.check(o.box, "an edge", end, parts[i].Area, parts[i].Sent)
			o.audit.Area.plus(&book.area)
		}
	}
	return parts
}

// count files one request under the span of now. A negative transit: dropped.
func (v *edgeEvents) count(now, transit float64) {
	i := v.spans.At(now)
	v.sent[i]++
	if transit >= 0 {
		v.passed[i]++
		v.transit[i] += transit
	}
}

// passage is one request on its way.
type passage struct {
	entry float64
	edge  int32
}
