// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
)

// outbox is the sending end of all edges that leave one box. The sender draws what
// happens to a request on its way, so the time of arrival is known at once and it can
// keep count of those in transit: no event ever has to come back.
//
// Nothing but a least_connection balancer asks for that count before the run ends, so
// departures are noted in a log, and the accounts are kept a logful at a time: what they
// need is in the nearest cache then, and of a server's memory a call touches less.
//
// Time never goes back from call to call.
type outbox struct {
	edges    []edge
	log      []departure // not in the accounts yet
	full     int32       // length of log at which it is taken into the accounts
	alone    [1]int32    // memory of sampled: more only where there are several edges
	horizon  float64
	warm     float64 // when the accounts begin; +Inf: they have
	data     [requestBytes]byte
	least    *leastIndex        // of a least_connection balancer, whose log holds one departure; else nil
	accounts []account          // of the edges
	carried  []int64            // by edge: requests under way at the end of the warm-up; nil: there is none
	passages heap.Heap[passage] // by arrival; empty where there is a batch
	batch    *batch             // of a box with many under way; nil: of a server, or a least_connection balancer
	ticks    ticks
	sampled  []int32 // edges that were entered since the last tick
	box      string  // the box's id, for messages
	audit    *audit  // checked build only
	reporter *reporter
	windows  *measure.Windows // nil: no time series are asked for
}

// edge is what a request that enters one network edge needs, in one cache line.
type edge struct {
	latency sampler
	events  *edgeEvents // nil: neither spikes nor outages touch it
	dropout float64
	link    node.LinkID
}

// account is one edge's, in one cache line. Counts are requests.
type account struct {
	area     float64 // integral of transit over time, for those that have left
	sent     int64   // entered or dropped
	tickSum  int64   // of transit over the ticks
	dropped  int64
	transit  int32 // under way now
	peak     int32
	tickPeak int32
	entered  bool     // is in outbox.sampled
	chance   rand.PCG // of being dropped
}

// departure is one request that was sent and not dropped.
type departure struct {
	at, arrival float64
	edge        int32
}

// Departures that a log holds: of a box with one edge, of which there may be millions, and of the others.
const (
	logOfOne  = 4
	logOfMany = 64
)

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
	e := &o.edges[i]
	if e.dropout > 0 && o.drops(i, now) {
		record(p, recordDropped, r.number, i)
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
	o.depart(departure{now, arrival, i})
	if !(arrival < o.horizon) {
		return nil // never handled
	}
	r.put(&o.data)
	return p.Send(e.link, arrival, o.data[:])
}

// depart notes a request in the log.
func (o *outbox) depart(d departure) {
	if o.log = append(o.log, d); len(o.log) >= int(o.full) {
		o.settle()
	}
}

// drops draws whether edge i loses a request.
func (o *outbox) drops(i int32, now float64) bool {
	e, a := &o.edges[i], &o.accounts[i]
	if rand.New(&a.chance).Float64() >= e.dropout {
		return false
	}
	a.sent++
	a.dropped++
	o.windows.At(now, droppedHere, 1)
	if invariants.Enabled {
		o.audit.Left.add(1, now)
	}
	if e.events != nil {
		e.events.count(now, -1)
	}
	return true
}

// settle takes the log into the accounts.
func (o *outbox) settle() {
	if b := o.batch; b != nil && len(o.log) > 0 {
		b.collect(o.log, o.log[len(o.log)-1].at, o.horizon)
	}
	for i := range o.log {
		d := &o.log[i]
		o.advance(d.at)
		o.accounts[d.edge].sent++
		if d.arrival > d.at {
			o.enter(d.edge, d.at, min(d.arrival, o.horizon))
		}
	}
	if o.log = o.log[:0]; o.batch != nil {
		o.full = o.batch.full()
		o.log = slices.Grow(o.log, int(o.full))
	}
}

// enter puts a request on its way. An arrival at the horizon stands for all that
// the run doesn't see.
func (o *outbox) enter(i int32, now, arrival float64) {
	a := &o.accounts[i]
	a.transit++
	a.peak = max(a.peak, a.transit)
	if arrival > o.ticks.at {
		a.tickSum += o.ticks.first(arrival) - o.ticks.next
	}
	if !a.entered && o.ticks.at < o.horizon {
		a.entered = true
		o.sampled = append(o.sampled, i)
	}
	if o.batch == nil {
		o.passages.Push(arrival, passage{entry: now, edge: i})
	}
	if o.least != nil {
		o.least.changed(i)
	}
	if invariants.Enabled {
		o.audit.books[i].enter(now, 1)
	}
}

// advance lets everything arrive that is due at now. The log is empty up to there.
func (o *outbox) advance(now float64) {
	if o.ticks.at < now {
		o.sample(now)
	}
	for first := o.first(); first != nil && first.Key <= now; first = o.first() {
		o.leave()
	}
}

// sample accounts for the ticks before now. An edge's count only falls after the
// last departure, so the first of the ticks sees the most, and only on edges that
// were entered since the tick before.
func (o *outbox) sample(now float64) {
	for first := o.first(); first != nil && first.Key <= o.ticks.at; first = o.first() {
		o.leave()
	}
	for _, i := range o.sampled {
		a := &o.accounts[i]
		a.tickPeak = max(a.tickPeak, a.transit)
		a.entered = false
	}
	o.sampled = o.sampled[:0]
	o.ticks.pass(now)
}

// leave takes the request that arrives first off its edge.
func (o *outbox) leave() {
	arrival, p := o.take()
	a := &o.accounts[p.edge]
	a.transit--
	a.area += arrival - p.entry
	if o.least != nil {
		o.least.changed(p.edge)
	}
	if invariants.Enabled {
		o.audit.books[p.edge].leave(p.entry, arrival, 1)
	}
}

// first is the request that arrives first, of a batch: of those that are due; nil: none.
func (o *outbox) first() *heap.Item[passage] {
	if b := o.batch; b != nil {
		if b.at < len(b.due) {
			return &b.due[b.at]
		}
		return nil
	}
	if o.passages.Len() > 0 {
		return o.passages.First()
	}
	return nil
}

// take takes out first.
func (o *outbox) take() (arrival float64, p passage) {
	if b := o.batch; b != nil {
		x := &b.due[b.at]
		b.at++
		return x.Key, x.Value
	}
	return o.passages.Pop()
}

// under are all requests under way, in the order in which they departed where there is a batch.
func (o *outbox) under() []heap.Item[passage] {
	if o.batch != nil {
		return o.batch.waiting
	}
	return o.passages.Items()
}

// report closes the edges' accounts at end, in r's memory.
func (o *outbox) report(end float64, r *reporter) []edgeReport {
	o.settle()
	if o.batch != nil {
		o.batch.collect(nil, math.Nextafter(end, 0), o.horizon)
	}
	if o.ticks.at < end {
		o.sample(end)
	}
	for first := o.first(); first != nil && first.Key < end; first = o.first() {
		o.leave()
	}
	r.edges = slices.Grow(r.edges[:0], len(o.edges))
	parts := r.edges[:len(o.edges)]
	for i := range o.edges {
		e, a := &o.edges[i], &o.accounts[i]
		parts[i] = edgeReport{
			Sent: a.sent, Dropped: a.dropped, Transit: int64(a.transit), Area: a.area, Peak: int64(a.peak),
			Samples: o.ticks.counted(), TickSum: a.tickSum, TickPeak: int64(a.tickPeak),
		}
		if o.carried != nil {
			parts[i].Carried = o.carried[i]
		}
		if e.events != nil {
			parts[i].SentIn, parts[i].PassedIn, parts[i].TransitIn = e.events.sent, e.events.passed, e.events.transit
		}
	}
	for _, item := range o.under() {
		arrival, p := item.Key, item.Value
		part := &parts[p.edge]
		part.Area += end - p.entry
		if arrival > o.ticks.at {
			part.TickSum -= o.ticks.first(arrival) - o.ticks.next
		}
		if invariants.Enabled {
			o.audit.books[p.edge].stay(p.entry, end, 1)
		}
	}
	if invariants.Enabled {
		for i := range o.edges {
			book := &o.audit.books[i]
			book.check(o.box, "an edge", end, parts[i].Area, parts[i].Sent+parts[i].Carried)
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
