// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/state"
)

// StateVersion is that of State.
func (r *router) StateVersion() uint32 { return 1 }

// State is what the router has counted, what lies in its channels, and where its flows are. What follows from the
// schedule and the time isn't saved: routes, the changes that they know, the span, the wakeup that was asked for.
func (r *router) State(p *node.Simproc, c *state.Codec) {
	r.books.state(c)
	for i := range r.flows {
		f := &r.flows[i]
		count(c, &f.hops)
		c.Uint32(&f.hopsMax)
		if r.m.perFlow {
			f.Latencies.State(c)
		} else {
			f.Moments.State(c)
		}
	}
	state.Map(c, &r.lossOf, 4+8*int(causes), func(flow *uint32, losses **flowLosses) {
		if c.Loading() {
			*losses = new(flowLosses)
		}
		r.flow(c, flow)
		counts(c, (*losses)[:])
	})
	for i := range r.all {
		r.all[i].State(c)
		count(c, &r.sentIn[i])
		counts(c, r.lostIn[i][:])
	}
	for i := range r.out {
		r.out[i].state(c, r, p.Now())
	}
	r.windows.State(c)
	r.source.state(c, r.m.spec.Arrivals == Constant, p.Now())
	r.warmState(c, p.Now())
	if text := r.unsound(); text != "" {
		c.Fail("found books that don't add up: %s", text)
	}
	if !c.Loading() || c.Failed() {
		return
	}
	r.seen, r.span, r.stale = 0, 0, true
	r.down = r.schedule.nodeDown[r.self]
	r.asked = r.source.at()
}

// flow is the number of a flow.
func (r *router) flow(c *state.Codec, flow *uint32) {
	c.Uint32(flow)
	r.checkFlow(c, *flow)
}

func (r *router) checkFlow(c *state.Codec, flow uint32) {
	if most := len(r.m.ends)/flowEndBytes - 1; int64(flow) > int64(most) {
		c.Fail("found the flow %d, want 0 to %d", flow, most)
	}
}

func (b *books) state(c *state.Codec) {
	count(c, &b.Born)
	counts(c, b.Received)
	count(c, &b.Delivered)
	counts(c, b.Refused[:])
	count(c, &b.Handed)
}

func (b *channelBooks) state(c *state.Codec) {
	count(c, &b.Handed)
	counts(c, b.Refused[:])
	counts(c, b.Lost[:])
	count(c, &b.Sent)
	count(c, &b.Carried)
	count(c, &b.Bytes)
	count(c, &b.WaitingMax)
	seconds(c, &b.WaitedMax)
}

// state is the channel's at now, the last time at which the router was called.
func (ch *channel) state(c *state.Codec, r *router, now float64) {
	if ch.src != nil {
		c.Source(ch.src)
	}
	passed := uint32(len(ch.outages) - len(ch.down))
	c.Uint32(&passed)
	switch {
	case int64(passed) > int64(len(ch.outages)):
		c.Fail("found %d outages that are over, want at most %d", passed, len(ch.outages))
	case passed > 0 && ch.outages[passed-1].To > now:
		c.Fail("found the outage until %v over at %v", ch.outages[passed-1].To, now)
	default:
		ch.down = ch.outages[passed:]
	}
	ch.ringState(c, r, now)
	state.Words(c, &ch.falling)
	for _, flow := range ch.falling {
		r.checkFlow(c, flow)
	}
	seconds(c, &ch.free)
	count(c, &ch.late)
	ch.channelBooks.state(c)
	seconds(c, &ch.busy)
	seconds(c, &ch.wait)
	for i := range ch.busyIn {
		seconds(c, &ch.busyIn[i])
		seconds(c, &ch.waitIn[i])
		count(c, &ch.carriedIn[i])
		count(c, &ch.lossIn[i])
	}
	switch {
	case len(ch.falling) == 0:
	case len(ch.down) == 0:
		c.Fail("found %d packets that the next outage catches, and no outage", len(ch.falling))
	default:
		ch.fallAt = ch.down[0].From
	}
}

// ringState is the packets that wait, that are sent, or that have been since the books were last brought up to date.
func (ch *channel) ringState(c *state.Codec, r *router, now float64) {
	waiting := uint32(ch.tail - ch.mid)
	c.Uint32(&waiting)
	packets := make([]queuedPacket, 0, ch.tail-ch.head)
	for i := ch.head; i != ch.tail; i++ {
		packets = append(packets, *ch.at(i))
	}
	last := 0.0
	state.List(c, &packets, 3*8+2*4+1, func(e *queuedPacket) {
		c.Float(&e.arrived)
		c.Float(&e.start)
		c.Float(&e.release)
		r.flow(c, &e.flow)
		c.Uint32(&e.bytes)
		how := uint8(e.outcome)
		c.Byte(&how)
		e.outcome = outcome(how)
		if !(e.arrived >= 0 && e.arrived <= now && e.start >= max(e.arrived, last) && e.release >= e.start &&
			e.release <= math.MaxFloat64) || e.bytes < 1 || e.bytes > packetBytesMax || e.outcome > outcomeCutOnLink {
			c.Fail("found a packet of %d bytes in a buffer from %v s on, sent from %v to %v, of outcome %d; want one "+
				"of 1 to %d bytes that came by %v, sent behind the one before, until %v, an outcome of at most %d",
				e.bytes, e.arrived, e.start, e.release, how, packetBytesMax, now, last, outcomeCutOnLink)
		}
		last = e.release
	})
	if int64(waiting) > int64(len(packets)) || uint64(waiting) > ch.packetsMax {
		c.Fail("found %d of %d packets waiting, want at most %d", waiting, len(packets), ch.packetsMax)
	}
	if !c.Loading() || c.Failed() {
		return
	}
	ch.ring, ch.head, ch.mid, ch.tail, ch.waitingBytes = nil, 0, 0, 0, 0
	for _, e := range packets {
		if ch.tail == uint64(len(ch.ring)) {
			ch.grow()
		}
		ch.ring[ch.tail] = e
		ch.tail++
	}
	ch.mid = ch.tail - uint64(waiting)
	for i := ch.mid; i != ch.tail; i++ {
		ch.waitingBytes += int64(ch.at(i).bytes)
	}
}

// state is how far the flows have come: all packets until now were made.
func (s *source) state(c *state.Codec, constant bool, now float64) {
	next := make([]float64, len(s.flows)) // by flow
	for _, i := range s.next.Items() {
		next[i.Value] = i.Key
	}
	for i := range s.flows {
		f := &s.flows[i]
		c.Source(f.src)
		count(c, &f.sent)
		if !constant {
			c.Float(&next[i])
		} else if c.Float(&f.from); f.from >= 0 && f.from <= math.MaxFloat64 {
			next[i] = f.regular()
		} else {
			next[i] = f.from
		}
		if !(next[i] > now && next[i] <= math.MaxFloat64) {
			c.Fail("found the next packet of the flow %d at %v s, want a finite time after %v s", f.id, next[i], now)
		}
	}
	if !c.Loading() || c.Failed() {
		return
	}
	s.next.Clear()
	for i, at := range next {
		s.next.Push(at, int32(i))
	}
}

// count is a number of something.
func count(c *state.Codec, n *int64) {
	if c.Int64(n); *n < 0 {
		c.Fail("found the count %d, want at least 0", *n)
	}
}

func counts(c *state.Codec, n []int64) {
	for i := range n {
		count(c, &n[i])
	}
}

// seconds is a time, or a sum of times.
func seconds(c *state.Codec, x *float64) {
	if c.Float(x); !(*x >= 0 && *x <= math.MaxFloat64) {
		c.Fail("found %v s, want a finite time, at least 0", *x)
	}
}
