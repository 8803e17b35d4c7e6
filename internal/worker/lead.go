// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"time"
)

// A worker that depends on nobody could run ahead of the others until it has filled what holds its events. Then the
// end of a run that is interrupted, which is behind everything that any worker has handled, is far away for the
// others. So each worker shows how far it has come, and a worker that is too far ahead of the slowest one waits for
// it (docs/sync.md, "Run-ahead in time"). What is handled doesn't depend on it, only when.

const (
	// leadTime is how far ahead of the slowest worker another one may be: as far as that comes in this time, and in
	// leadTurns where there are more threads than processors. Less makes workers wait that only have the processor
	// at other times than the slowest one; more makes an interrupted run end later.
	leadTime  = 40 * time.Millisecond
	leadTurns = 100 * time.Millisecond
	// leadCalls is of how many calls of handlers for each worker, of all together, the slowest worker's speed is
	// taken at the least. Less would make workers take turns where one call takes longer than leadTime.
	leadCalls = 4
	// leadMany is of how many calls it is taken where these don't take longer than leadLong. Where threads are many
	// more than the processors, a turn of all workers may take longer than leadTime: with nothing but that each
	// turn would allow the next one less, down to leadCalls, although calls are short.
	leadMany = 64
	leadLong = time.Second
)

// lead says how far ahead of the slowest worker this one may be. Owned by the cycle.
type lead struct {
	time  time.Duration // leadTime or leadTurns, but in tests; 0: the others are not waited for
	calls uint64        // leadCalls for each worker
	many  uint64        // leadMany for each worker
	// The slowest worker's speed is taken from here, and from the next sample when that is long enough ago.
	from, next leadSample
	ahead      float64 // how far ahead of it this worker may be, simulated seconds
	end        float64 // nothing at it or later is handled; it only rises
}

// leadSample is how far the slowest worker had come at a moment, and how many handlers all had called.
type leadSample struct {
	at    time.Time
	place float64
	calls uint64
}

func newLead(workers int, crowded bool) lead {
	l := lead{time: leadTime, calls: leadCalls * uint64(workers), many: leadMany * uint64(workers)}
	if crowded {
		l.time = leadTurns
	}
	return l
}

// start allows what is at epoch 0.
func (l *lead) start(now time.Time) {
	l.from = leadSample{at: now}
	l.next, l.ahead, l.end = l.from, 0, 0
	l.allow(0)
}

// allow makes end later than an epoch.
func (l *lead) allow(epoch float64) { l.end = max(l.end, math.Nextafter(epoch, math.Inf(1))) }

// look takes in how far the slowest worker has come, and allows what is no more ahead of it than it has come lately.
func (l *lead) look(s leadSample) {
	if !(s.place >= 0) {
		return // no worker has come so far: another process has written it
	}
	if s.place > l.from.place {
		share := 1.0
		if took, done := s.at.Sub(l.from.at), s.calls-l.from.calls; took > 0 && done > 0 {
			many := min(float64(l.many)/float64(done), float64(leadLong)/float64(took))
			share = min(1, max(float64(l.time)/float64(took), float64(l.calls)/float64(done), many))
		}
		l.ahead = share * (s.place - l.from.place)
		l.allow(s.place + l.ahead)
	} else {
		l.allow(s.place)
	}
	took, done := s.at.Sub(l.next.at), s.calls-l.next.calls
	if took >= l.time && done >= l.calls && (done >= l.many || took >= leadLong) {
		l.from, l.next = l.next, s
	}
}

// leads tells whether this worker could be too far ahead of others.
func (c *cycle) leads() bool { return len(c.peers) > 1 && c.lead.time > 0 }

// startLead begins a replication: all workers are at epoch 0. None runs before all have begun.
func (c *cycle) startLead() {
	c.place, c.lowest, c.waitsAt, c.heldAt = 0, 0, math.Inf(1), math.Inf(1)
	c.counters.At(showPlace).SetFloat(0)
	c.counters.At(showWaitsAt).SetFloat(math.Inf(1))
	if c.leads() {
		c.lead.start(c.now())
		c.engine.SetWindow(c.lead.end)
	}
}

// showProgress shows the others how far this worker has come.
func (c *cycle) showProgress() {
	if !c.leads() {
		return
	}
	place := c.engine.Next().Epoch
	if math.IsInf(place, 1) {
		// Events may be under way to it: it is done up to here only.
		place = c.engine.Reached()
	}
	if place == c.place {
		return
	}
	c.place, c.lowest = place, min(c.lowest, place)
	c.counters.At(showActivations).Set(c.engine.Stats().Activations)
	// SYNC POINT place-shown: stored before callAhead looks for who waits for it; mayGoOn does it the other way
	// round.
	c.counters.At(showPlace).SetFloat(place)
}

// mayGoOn looks how far the others have come where nothing else keeps this worker from handling something, and tells
// whether it may, or is to look again. While it waits for the others to have come somewhere it doesn't go on before:
// it is rung there and nowhere else, so what it shows is always later than the least place that it has seen.
func (c *cycle) mayGoOn() bool {
	at, any := c.engine.Ahead()
	if !any {
		c.stopWaiting()
		return false
	}
	s := c.slowest()
	if at == c.heldAt && s.place < c.waitsAt {
		return false
	}
	c.lead.look(s)
	c.engine.SetWindow(c.lead.end)
	if at < c.lead.end {
		c.stopWaiting()
		return true
	}
	// A quarter of the way from where it would be held again. What it may be ahead is less than it was when the
	// slowest worker needs more time than before, and is not known anew where that has come no further at all.
	c.waitFor(at, max(at-0.75*c.lead.ahead, math.Nextafter(s.place, at)))
	return c.slowest().place >= c.waitsAt
}

// slowest looks how far all have come.
func (c *cycle) slowest() leadSample {
	s := leadSample{at: c.now(), place: math.Inf(1)}
	for _, peer := range c.peers {
		s.calls += peer.calls.Load()
		if place := peer.place.LoadFloat(); place < s.place {
			s.place = place
		}
	}
	return s
}

// waitFor shows the others how far they have to come for this worker to go on with an activation.
func (c *cycle) waitFor(at, place float64) {
	c.heldAt = at
	if place != c.waitsAt {
		c.waitsAt = place
		// SYNC POINT place-shown: stored before the others' places are read.
		c.counters.At(showWaitsAt).SetFloat(place)
	}
}

func (c *cycle) stopWaiting() { c.waitFor(math.Inf(1), math.Inf(1)) }

// callAhead wakes the workers that wait for this one to have come as far as it has since the last call.
func (c *cycle) callAhead() {
	if c.lowest == c.place {
		return
	}
	for i, peer := range c.peers {
		if at := peer.waitsAt.LoadFloat(); i != c.self && c.lowest < at && at <= c.place {
			c.lanes.cycles[i].Ring()
		}
	}
	c.lowest = c.place
}
