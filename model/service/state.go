// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"math/rand/v2"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/state"
)

// What boxes save of themselves (docs/checkpoints.md). What follows from the rest and the scenario isn't saved: free
// cores and levels follow from the slots, counts in transit from the requests under way, changes to come from the time
// of the last call, the spans that are being filled likewise. So a state may go on with other cores, memory and
// latencies.

// stateVersion is that of all boxes.
const stateVersion = 1

// Bytes that the elements of lists have at least.
const (
	slotStateBytes    = 8 + 8 + 8 + 4 + 4 + 4 + 1
	passageStateBytes = 8 + 8 + 4
	sinceStateBytes   = 4 + 8
	seenStateBytes    = 8 + 8
)

// StateVersion is that of State.
func (idle) StateVersion() uint32 { return stateVersion }

// State is nothing.
func (idle) State(*node.Simproc, *state.Codec) {}

// StateVersion is that of State.
func (g *generator) StateVersion() uint32 { return stateVersion }

// State is the window, and what was drawn for it. The first one has begun at epoch 0.
func (g *generator) State(p *node.Simproc, c *state.Codec) {
	g.out.state(c, p.Now())
	stream(c, g.users.stream())
	c.PCG(&g.gaps)
	c.Int64(&g.windows)
	c.Float(&g.active)
	c.Float(&g.due)
	c.Int64(&g.made)
	c.Float(&g.userSum)
	if g.out.carried != nil { // else a state has nothing of a warm-up
		count(c, &g.before.Made)
		count(c, &g.before.Windows)
		c.Float(&g.before.UserSum)
	}
	if !c.Loading() || c.Failed() {
		return
	}
	g.started, g.windowEnd = true, float64(g.windows)*g.window
	if now := p.Now(); !(g.windowEnd > now && g.due > now) || !(g.active >= 0) || g.made < 0 ||
		g.before.Made > g.made || g.before.Windows > g.windows || !(math.Abs(g.before.UserSum) <= math.MaxFloat64) {
		c.Fail("found %v users and %d requests, the next at %v, in window %d, which ends at %v: want later than %v",
			g.active, g.made, g.due, g.windows, g.windowEnd, now)
	}
}

// StateVersion is that of State.
func (f *forwarder) StateVersion() uint32 { return stateVersion }

// State is what was passed on.
func (f *forwarder) State(p *node.Simproc, c *state.Codec) {
	f.out.state(c, p.Now())
	count(c, &f.received)
}

// StateVersion is that of State.
func (b *balancer) StateVersion() uint32 { return stateVersion }

// State is what was passed on, and the list of live edges.
func (b *balancer) State(p *node.Simproc, c *state.Codec) {
	b.out.state(c, p.Now())
	count(c, &b.received)
	var live []int32
	if !c.Loading() {
		live = b.list.order()
	}
	state.Words(c, &live)
	if !c.Loading() || c.Failed() {
		return
	}
	n := len(b.out.edges)
	for i := range n {
		b.list.remove(int32(i))
	}
	there := make([]bool, n)
	for _, i := range live {
		if uint64(i) >= uint64(n) || there[i] {
			c.Fail("found the live edges %.20v, want different ones of %d", live, n)
			return
		}
		there[i] = true
		b.list.pushBack(i)
	}
	for len(b.changes) > 0 && b.changes[0].at <= p.Now() {
		b.changes = b.changes[1:]
	}
}

// StateVersion is that of State.
func (l *collector) StateVersion() uint32 { return stateVersion }

// State is the latencies so far.
func (l *collector) State(p *node.Simproc, c *state.Codec) {
	count(c, &l.received)
	r := l.recorder
	r.latencies.State(c)
	c.Bytes(&r.encoded)
	l.windows.State(c)
	sameBuild(c)
	if invariants.Enabled {
		l.audit.state(c)
		state.Map(c, &l.seen, seenStateBytes, func(word, bits *uint64) {
			c.Uint64(word)
			c.Uint64(bits)
		})
	}
	if !c.Loading() || c.Failed() {
		return
	}
	l.warm = warmFrom(l.warm, p.Now())
	r.open = r.spans.At(p.Now())
	r.done = r.open
	rest := r.encoded
	for range r.done {
		var err error
		if rest, err = new(measure.Latencies).Read(rest); err != nil {
			c.Fail("found latencies that can't be read: %w", err)
			return
		}
	}
	if len(rest) > 0 {
		c.Fail("found %d bytes behind the latencies of %d spans, want none", len(rest), r.done)
	}
}

// StateVersion is that of State.
func (s *server) StateVersion() uint32 { return stateVersion }

// State is the requests in the server and where each of them is, and what was counted.
func (s *server) State(p *node.Simproc, c *state.Codec) {
	s.out.state(c, p.Now())
	c.Float(&s.residence)
	count(c, &s.passed)
	if s.out.carried != nil {
		count(c, &s.held)
	}
	for i := range s.byEndpoint {
		count(c, &s.byEndpoint[i])
	}
	for i := range s.programs {
		s.programs[i].state(c)
	}
	if s.choice != nil {
		c.PCG(s.choice)
	}
	s.gauges.state(c, s.out.horizon)
	c.Int32(&s.free)
	c.Int32(&s.ramQueue.head)
	c.Int32(&s.ready.head)
	state.List(c, &s.slots, slotStateBytes, func(q *slot) { q.state(c) })
	if invariants.Enabled {
		s.out.audit.server.state(c)
		c.Int64(&s.gauges.terms)
	}
	if c.Loading() && !c.Failed() {
		s.restore(c, p.Now())
	}
}

func (q *slot) state(c *state.Codec) {
	c.Float(&q.born)
	c.Uint64(&q.number)
	c.Float(&q.arrived)
	c.Int32(&q.next)
	c.Int32(&q.endpoint)
	c.Int32(&q.burst)
	c.Bool(&q.core)
}

// state are the streams of what is drawn: none of programs that servers share.
func (p *program) state(c *state.Codec) {
	for i := range p.bursts {
		for k := range p.bursts[i].draws {
			stream(c, p.bursts[i].draws[k].stream())
		}
	}
}

// state leaves out the time and the levels: they are settled at each call, and follow from the slots.
func (g *gauges) state(c *state.Codec, horizon float64) {
	g.ticks.state(c, horizon)
	for l := range levelCount {
		c.Float(&g.area[l])
		c.Int64(&g.peak[l])
		c.Float(&g.sum[l])
		c.Int64(&g.top[l])
	}
}

// place is where a slot is, between two calls.
type place uint8

const (
	inBurst place = iota // holds a core, or is in I/O
	isFree
	waitsForRAM
	waitsForCore
)

// restore works out what follows from the slots. Precondition: those that are taken are in the server since before now.
func (s *server) restore(c *state.Codec, now float64) {
	places := make([]place, len(s.slots))
	s.follow(c, s.free, isFree, places)
	s.ramQueue.tail = s.follow(c, s.ramQueue.head, waitsForRAM, places)
	s.ready.tail = s.follow(c, s.ready.head, waitsForCore, places)
	if c.Failed() {
		return
	}
	s.gauges.last, s.gauges.warm = now, warmFrom(s.gauges.warm, now)
	level, used := &s.gauges.level, int32(0)
	for i := range s.slots {
		q := &s.slots[i]
		switch at := places[i]; {
		case at == isFree:
			continue
		case !s.sound(q, at, now):
			c.Fail("found in slot %d, place %d, %+v, want a burst of %d endpoints, and times up to %v", i, at, *q,
				len(s.programs), now)
			return
		case at == waitsForRAM:
			level[levelRAMWait]++
		case at == waitsForCore:
			level[levelReady]++
		case q.core:
			level[levelCPU]++
			used++
		default:
			level[levelIO]++
		}
		level[levelWhole]++
		if places[i] != waitsForRAM {
			level[levelRAM] += s.programs[q.endpoint].ram
		}
	}
	if used > s.cores || level[levelRAM] > s.ramTotal {
		c.Fail("found %d cores and %v MB of memory in use, want at most %d and %v: what the server has", used,
			float64(level[levelRAM])/ramUnits, s.cores, float64(s.ramTotal)/ramUnits)
		return
	}
	if s.cores -= used; invariants.Enabled {
		s.out.audit.server.raised = s.cores > 0 && !s.ready.empty()
	}
}

// follow notes the place of all slots of a list, and returns 1 + the last of them, 0: none.
func (s *server) follow(c *state.Codec, head int32, at place, places []place) (tail int32) {
	for i := head; i != 0; i = s.slots[i-1].next {
		if i < 0 || int(i) > len(places) || places[i-1] != inBurst {
			c.Fail("found slot %d in list %d, want one of %d that is in no list", i-1, at, len(places))
			return 0
		}
		places[i-1], tail = at, i
	}
	return tail
}

// sound reports whether a slot that isn't free can be where it is.
func (s *server) sound(q *slot, at place, now float64) bool {
	if !(q.born >= 0 && q.born <= q.arrived && q.arrived <= now) || uint32(q.endpoint) >= uint32(len(s.programs)) {
		return false
	}
	if at == waitsForRAM {
		return q.burst == 0 && !q.core && s.programs[q.endpoint].ram > 0
	}
	bursts := s.programs[q.endpoint].bursts
	if uint32(q.burst) >= uint32(len(bursts)) {
		return false
	}
	cpu := bursts[q.burst].cpu
	if at == waitsForCore {
		return cpu && !q.core
	}
	return cpu == q.core
}

// state takes the log into the accounts first: they are the same whenever that is done, and the log is empty then.
func (o *outbox) state(c *state.Codec, now float64) {
	if !c.Loading() {
		o.settle()
	}
	sameBuild(c)
	o.ticks.state(c, o.horizon)
	until := 0.0
	if o.batch != nil {
		c.Float(&o.batch.until)
		until = o.batch.until
	}
	under := o.under()
	state.List(c, &under, passageStateBytes, func(x *heap.Item[passage]) {
		c.Float(&x.Key)
		c.Float(&x.Value.entry)
		c.Int32(&x.Value.edge)
		if v := x.Value; !(v.entry >= 0 && v.entry < x.Key && x.Key > until && x.Key <= o.horizon) ||
			uint32(v.edge) >= uint32(len(o.edges)) {
			c.Fail("found a request on edge %d from %v to %v, want one of %d edges, to a time later than %v and %v, "+
				"at most %v", v.edge, v.entry, x.Key, len(o.edges), v.entry, until, o.horizon)
		}
	})
	for i := range o.edges {
		e, a := &o.edges[i], &o.accounts[i]
		a.state(c)
		if o.carried != nil {
			count(c, &o.carried[i])
		}
		stream(c, e.latency.stream())
		if e.dropout > 0 {
			stream(c, &a.chance)
		} else {
			stream(c, nil)
		}
		if e.events != nil {
			e.events.state(c)
		}
	}
	if c.Loading() && !c.Failed() {
		o.warm = warmFrom(o.warm, now)
		o.restore(c, under)
	}
	if invariants.Enabled {
		o.audit.state(c)
	}
	o.windows.State(c)
}

// restore works out what follows from the requests under way.
func (o *outbox) restore(c *state.Codec, under []heap.Item[passage]) {
	for i := range under {
		o.accounts[under[i].Value.edge].transit++
	}
	for i := range o.accounts {
		if o.accounts[i].entered {
			o.sampled = append(o.sampled, int32(i))
		}
	}
	if o.batch != nil {
		o.batch.waiting = under
		o.full = o.batch.full()
	} else if wrong, ok := o.passages.Set(under); !ok {
		c.Fail("found the request %d under way, with arrival %v, before one that arrives earlier", wrong,
			under[wrong].Key)
	}
}

// state leaves out those in transit, which are under way.
func (a *account) state(c *state.Codec) {
	c.Float(&a.area)
	count(c, &a.sent)
	c.Int64(&a.tickSum)
	count(c, &a.dropped)
	c.Int32(&a.peak)
	c.Int32(&a.tickPeak)
	c.Bool(&a.entered)
}

func (v *edgeEvents) state(c *state.Codec) {
	for i := range v.sent {
		count(c, &v.sent[i])
		count(c, &v.passed[i])
		c.Float(&v.transit[i])
	}
}

// state is which tick comes next.
func (k *ticks) state(c *state.Codec, horizon float64) {
	c.Int64(&k.next)
	if !c.Loading() || c.Failed() {
		return
	}
	if k.next != 1 && !(k.next > 1 && float64(k.next-1)*k.period < horizon) {
		c.Fail("found tick %d, want 1 or one whose forerunner is before %v, each %v s", k.next, horizon, k.period)
		return
	}
	k.at = float64(k.next) * k.period
}

// count is a number of requests.
func count(c *state.Codec, v *int64) {
	if c.Int64(v); *v < 0 {
		c.Fail("found %d requests, want at least 0", *v)
	}
}

// stream is a generator of random numbers, nil where nothing is drawn. Whether there is one is written, too, so that a
// scenario in which something is drawn can go on from one in which it wasn't, and the other way round.
func stream(c *state.Codec, g *rand.PCG) {
	there := g != nil
	if c.Bool(&there); !there {
		return
	}
	if g == nil {
		g = new(rand.PCG)
	}
	c.PCG(g)
}

// sameBuild refuses what the other build has saved: only the checked one has audits.
func sameBuild(c *state.Codec) {
	checked := invariants.Enabled
	if c.Bool(&checked); checked != invariants.Enabled {
		c.Fail("found checked %v, want %v: the plain and the checked build (-tags invariants) can't go on with what "+
			"the other one has saved", checked, invariants.Enabled)
	}
}
