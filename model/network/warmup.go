// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

// A warm-up is simulated and not counted. A router notes what its books have before the first call at or after the end
// of the warm-up, or when it reports: nothing happens in between that its channels don't know. The books go on, so that
// they add up over the whole run; results have what was added to them since. Maxima, and what is known of flows where
// they end, begin anew; latencies are told apart by the spans of the run, one of which begins at the warm-up's end.

// warmBooks are what the books of a router had at the end of the warm-up.
type warmBooks struct {
	Born      int64
	Delivered int64
	Refused   [causes]int64
}

// warmChannel is the same of a channel.
type warmChannel struct {
	Handed     int64
	Refused    [causes]int64
	Lost       [causes]int64
	Carried    int64
	Bytes      int64
	Busy, Wait float64 // seconds, and packet seconds
}

// warmFrom is when a router begins to count: never where there is no warm-up, or where it is over.
func warmFrom(warmup, now float64) float64 {
	if warmup > 0 && now < warmup {
		return warmup
	}
	return math.Inf(1)
}

// begin begins to count at a time.
func (r *router) begin(at float64) {
	r.warm = math.Inf(1)
	for i := range r.out {
		r.out[i].begin(r, at)
	}
	r.before = warmBooks{r.Born, r.Delivered, r.Refused}
	for i := range r.source.flows {
		r.source.flows[i].before = r.source.flows[i].sent
	}
	for i := range r.flows {
		f := &r.flows[i]
		*f = flowEnd{before: f.Count}
	}
	for flow, lost := range r.lossOf {
		r.lossBefore[flow] = lossesIn(lost)
	}
	clear(r.lossOf)
}

// begin brings the channel up to a time, and begins to count.
func (c *channel) begin(r *router, at float64) {
	c.advance(r, at)
	b := warmChannel{Handed: c.Handed, Refused: c.Refused, Lost: c.Lost, Carried: c.Carried, Bytes: c.Bytes,
		Busy: c.busy, Wait: c.wait}
	for i := c.head; i != c.mid; i++ {
		b.Busy += at - c.at(i).start
	}
	for i := c.mid; i != c.tail; i++ {
		b.Wait += at - c.at(i).arrived
	}
	c.before, c.WaitingMax, c.WaitedMax = b, int64(c.tail-c.mid), 0
}

func lossesIn(l *flowLosses) (n int64) {
	for _, k := range l {
		n += k
	}
	return n
}

// lost is what was lost before the end of the warm-up.
func (r *router) lost() (l flowLosses) {
	for why := range causes {
		l[why] = r.before.Refused[why]
		for i := range r.out {
			l[why] += r.out[i].before.Refused[why] + r.out[i].before.Lost[why]
		}
	}
	return l
}

func (b *warmBooks) fields(c *wire.Codec) {
	c.Varint(&b.Born)
	c.Varint(&b.Delivered)
	varints(c, &b.Refused)
}

func (b *warmChannel) fields(c *wire.Codec) {
	c.EachVarint(&b.Handed, &b.Carried, &b.Bytes)
	varints(c, &b.Refused)
	varints(c, &b.Lost)
	c.Float(&b.Busy)
	c.Float(&b.Wait)
}

// warmBytesMin is what a warmChannel has at least.
const warmBytesMin = 3 + 2*int(causes) + 2*8

// warmState is what a router saves of its warm-up.
func (r *router) warmState(c *state.Codec, now float64) {
	if !(r.m.spec.Warmup > 0) {
		return
	}
	notAbove(c, &r.before.Born, r.Born)
	notAbove(c, &r.before.Delivered, r.Delivered)
	for why := range causes {
		notAbove(c, &r.before.Refused[why], r.Refused[why])
	}
	for i := range r.out {
		r.out[i].warmState(c)
	}
	for i := range r.source.flows {
		notAbove(c, &r.source.flows[i].before, r.source.flows[i].sent)
	}
	for i := range r.flows {
		count(c, &r.flows[i].before)
	}
	state.Map(c, &r.lossBefore, 4+8, func(flow *uint32, lost *int64) {
		r.flow(c, flow)
		count(c, lost)
	})
	if c.Loading() {
		r.warm = warmFrom(r.m.spec.Warmup, now)
		if r.lossBefore == nil {
			r.lossBefore = map[uint32]int64{}
		}
	}
}

func (c *channel) warmState(codec *state.Codec) {
	b := &c.before
	notAbove(codec, &b.Handed, c.Handed)
	notAbove(codec, &b.Carried, c.Carried)
	notAbove(codec, &b.Bytes, c.Bytes)
	for why := range causes {
		notAbove(codec, &b.Refused[why], c.Refused[why])
		notAbove(codec, &b.Lost[why], c.Lost[why])
	}
	seconds(codec, &b.Busy)
	seconds(codec, &b.Wait)
}

// notAbove is a count that was part of another.
func notAbove(c *state.Codec, n *int64, all int64) {
	if count(c, n); *n > all {
		c.Fail("found the count %d at the end of the warm-up, want at most %d", *n, all)
	}
}

// spansWith are spans, one of which begins at the end of a warm-up.
func spansWith(s timeline.Spans, warmup, horizon float64) timeline.Spans {
	if warmup > 0 && warmup < horizon {
		s = s.Divided(warmup)
	}
	return s
}

// measured is how much of the time up to end is counted, in seconds.
func (m *maker) measured(end float64) float64 { return max(0, end-m.spec.Warmup) }

// Warmup is the simulated time before which nothing is counted, in seconds.
func (m *Model) Warmup() float64 { return m.spec.Warmup }

// Settles implements scenario.Settler.
func (m *Model) Settles() bool { return m.spec.Settles }

// Course implements scenario.Settler.
func (m *Model) Course(s *scenario.Series) bool { return s.Of == "" && s.Name == "latency_mean" }
