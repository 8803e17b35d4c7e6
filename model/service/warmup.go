// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"

	"github.com/disco-sim/disco/internal/invariants"
)

// A warm-up is simulated and not counted. Each box begins its accounts anew before the first call at or after its end,
// or when it reports: the state is constant in between, so that no event is needed for it. Requests that are in a box
// or on an edge at that time stay there; the accounts know how many they were (held, carried), and that they came at
// that time. Latencies are told apart by the spans of the run, one of which begins at the end of the warm-up.

// warmFrom is when a box begins to count anew: never where there is no warm-up, or where it is over.
func warmFrom(warmup, now float64) float64 {
	if warmup > 0 && now < warmup {
		return warmup
	}
	return math.Inf(1)
}

// closing is when a box that closes its accounts at end, without having begun to count, begins: at once where that is
// earlier.
func closing(warm, end float64) (at float64, begins bool) {
	return min(warm, end), !math.IsInf(warm, 1)
}

// forget begins the accounts of the edges anew at a time before which everything was sent that was. What would arrive
// at that time is taken in by the next box behind it, so it was carried over.
func (o *outbox) forget(at float64) {
	o.warm = math.Inf(1)
	o.settle()
	if o.batch != nil {
		o.batch.collect(nil, at, o.horizon)
	}
	if o.ticks.at < at {
		o.sample(at)
	}
	for first := o.first(); first != nil && first.Key < at; first = o.first() {
		o.leave()
	}
	there := int64(0)
	for i := range o.accounts {
		o.carried[i] = int64(o.accounts[i].transit)
		there += o.carried[i]
	}
	o.enterAnew(at)
	for first := o.first(); first != nil && first.Key <= at; first = o.first() {
		o.leave()
	}
	o.accountAnew()
	if invariants.Enabled {
		o.audit.forget(at, there)
	}
}

// enterAnew has all requests under way enter at a time.
func (o *outbox) enterAnew(at float64) {
	under := o.under()
	for i := range under {
		under[i].Value.entry = at
	}
	if b := o.batch; b != nil {
		for i := b.at; i < len(b.due); i++ {
			b.due[i].Value.entry = at
		}
	}
	if invariants.Enabled {
		for i := range o.audit.books {
			o.audit.books[i].forget(at)
		}
	}
}

// accountAnew makes the accounts those of the requests under way.
func (o *outbox) accountAnew() {
	o.sampled = o.sampled[:0]
	for i := range o.accounts {
		a := &o.accounts[i]
		*a = account{transit: a.transit, peak: a.transit, chance: a.chance}
		if a.transit > 0 && o.ticks.at < o.horizon {
			a.entered = true
			o.sampled = append(o.sampled, int32(i))
		}
	}
	for _, item := range o.under() {
		if item.Key > o.ticks.at {
			o.accounts[item.Value.edge].tickSum += o.ticks.first(item.Key) - o.ticks.next
		}
	}
}

// forget begins the accounts of the server anew.
func (s *server) forget(at float64) {
	s.gauges.settle(at)
	s.gauges.forget()
	s.gauges.warm = math.Inf(1)
	s.held, s.passed, s.residence = s.gauges.level[levelWhole], 0, 0
	clear(s.byEndpoint)
	if invariants.Enabled {
		s.out.audit.server.forget(at)
	}
	s.out.forget(at)
	if invariants.Enabled {
		s.out.audit.Came.add(s.held, at)
	}
}

// forget begins the ledgers anew.
func (a *serverAudit) forget(at float64) {
	a.residence = exactSum{}
	for level := range a.books {
		a.books[level].forget(at)
		for i := range a.since[level] {
			a.since[level][i] = at
		}
	}
}

// forget begins the generator's accounts anew. Requests keep their numbers.
func (g *generator) forget(at float64) {
	g.before = generatorReport{Made: g.made, Windows: g.windows, UserSum: g.userSum}
	g.out.forget(at)
}

// counted is what was made since.
func (g *generator) counted() generatorReport {
	return generatorReport{Made: g.made - g.before.Made, Windows: g.windows - g.before.Windows,
		UserSum: g.userSum - g.before.UserSum}
}

// forget begins the accounts of the client's request side anew.
func (f *forwarder) forget(at float64) {
	f.received = 0
	f.out.forget(at)
}

// forget begins the balancer's accounts anew.
func (b *balancer) forget(at float64) {
	b.received = 0
	b.out.forget(at)
}

// forget begins the accounts of the client's response side anew, but for the latencies: they are kept by spans.
func (c *collector) forget(at float64) {
	c.received, c.warm = 0, math.Inf(1)
	if invariants.Enabled {
		c.audit.forget(at, 0)
	}
}

// measured is how much of the time up to end is counted, in seconds.
func (m *common) measured(end float64) float64 { return max(0, end-m.warmup) }
