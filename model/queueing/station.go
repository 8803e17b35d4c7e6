// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/node"
)

// station is one waiting line with its servers. Service is in the order of arrival, so
// everything about a customer is known when he arrives: when a server will be free for
// him, how long it will take and where he goes then. He is sent on at once, for the
// time at which he gets there, and the station needs no event of its own for his
// departure (Kiefer and Wolfowitz, On the theory of queues with many servers, 1955).
//
// The next service time is drawn one customer ahead. With one server no customer can then
// leave before the servers' next free moment plus that time, which is what the station
// promises its successors: lookahead that the distribution alone doesn't give.
type station struct {
	spec      *Station
	transit   float64
	lookahead float64
	least     float64 // service time
	service   sampler
	arrivals  sampler
	choice    *rand.Rand
	ways      []way
	promises  bool
	observe   func(arrival, wait, service float64)

	nextService float64
	free        times // when each server is free next
	leaving     times // limited buffers: when those inside leave
	tally       tally
	data        [customerBytes]byte // of the customer who is sent on
	route       rand.Source         // of choice
}

// times is a heap of times, the least first.
type times = heap.Heap[struct{}]

// way is one way on, taken by a number below below and not below the one before.
type way struct {
	below   float64
	link    node.LinkID
	station int32
	self    bool
}

// A customer on his way carries the time at which he entered the network. One who
// comes from outside carries nothing: he enters now.
const customerBytes = 8

// Handle takes in the customers of one instant.
func (s *station) Handle(p *node.Simproc, events []node.Event) error {
	now := p.Now()
	if now == 0 {
		if err := s.begin(p); err != nil {
			return err
		}
	}
	for i := range events {
		entered := now
		if len(events[i].Data) == customerBytes {
			entered = math.Float64frombits(binary.LittleEndian.Uint64(events[i].Data))
		} else if err := s.scheduleArrival(p); err != nil {
			return err
		}
		if err := s.take(p, entered); err != nil {
			return err
		}
	}
	return s.promise(p)
}

// begin lets in those who are there at the start.
func (s *station) begin(p *node.Simproc) error {
	for range s.spec.Initial {
		if err := s.take(p, 0); err != nil {
			return err
		}
	}
	if s.spec.Arrivals != nil {
		return s.scheduleArrival(p)
	}
	return nil
}

// scheduleArrival lets the next customer come from outside.
func (s *station) scheduleArrival(p *node.Simproc) error {
	return p.Schedule(later(p.Now(), s.arrivals.draw()), nil)
}

// later is from + seconds, and in any case later than from.
func later(from, seconds float64) float64 {
	if t := from + seconds; t > from {
		return min(t, math.MaxFloat64)
	}
	return math.Nextafter(from, math.Inf(1))
}

// take handles the arrival of one customer.
func (s *station) take(p *node.Simproc, entered float64) error {
	now := p.Now()
	t := &s.tally
	t[offered].At(now, 1)
	if s.full(now) {
		if p.Recording() {
			p.Record(node.Row{math.Float64bits(entered), 3: lost})
		}
		return nil
	}
	start := max(now, s.free.First().Key)
	leaves := later(start, s.nextService)
	if s.observe != nil {
		s.observe(now, start-now, s.nextService)
	}
	s.nextService = s.service.draw()
	if invariants.Enabled {
		invariants.Assert(leaves > now && start >= now, "queueing: %s at %v: service from %v to %v", s.spec.ID, now,
			start, leaves)
	}
	s.free.Fix(0, leaves)
	if s.spec.Buffer != Unlimited {
		s.leaving.Push(leaves, struct{}{})
	}
	t[accepted].At(now, 1)
	if start > now {
		t[waited].At(now, 1)
		t[waiting].At(now, start-now)
	}
	t[residence].At(now, leaves-now)
	t[present].Over(now, leaves, 1)
	t[busy].Over(start, leaves, 1)
	t[served].At(leaves, 1)
	return s.send(p, entered, start, leaves)
}

// full reports whether all servers and all places to wait are taken. A customer who leaves at this
// instant has left.
func (s *station) full(now float64) bool {
	if s.spec.Buffer == Unlimited {
		return false
	}
	for s.leaving.Len() > 0 && s.leaving.First().Key <= now {
		s.leaving.Pop()
	}
	return s.leaving.Len() >= s.spec.Servers+s.spec.Buffer
}

// send sends a customer, whose service has a begin and an end, to where he goes.
func (s *station) send(p *node.Simproc, entered, start, leaves float64) error {
	var to *way
	if len(s.ways) > 0 {
		u := s.choice.Float64()
		for i := range s.ways {
			if u < s.ways[i].below {
				to = &s.ways[i]
				break
			}
		}
	}
	if p.Recording() {
		s.record(p, entered, start, leaves, to)
	}
	if to == nil {
		s.tally[exits].At(leaves, 1)
		s.tally[sojourn].At(leaves, leaves-entered)
		return nil
	}
	binary.LittleEndian.PutUint64(s.data[:], math.Float64bits(entered))
	// The sum may be rounded below what the lookahead, rounded otherwise, allows.
	at := min(max(leaves+s.transit, p.Now()+s.lookahead), math.MaxFloat64)
	s.tally[moving].Over(leaves, at, 1)
	if to.self {
		return p.Schedule(at, s.data[:])
	}
	return p.Send(to.link, at, s.data[:])
}

// promise sends the successors a lower bound on the time of the next customer.
func (s *station) promise(p *node.Simproc) error {
	if !s.promises {
		return nil
	}
	seconds := s.least
	if s.free.Len() == 1 {
		seconds = s.nextService
	}
	first := max(p.Now(), s.free.First().Key) + seconds + s.transit
	for i := range s.ways {
		if s.ways[i].self {
			continue
		}
		if err := p.AdvancePromise(s.ways[i].link, first); err != nil {
			return err
		}
	}
	return nil
}

// Report is the tally: how often its batches may still double, then number by number.
func (s *station) Report(p *node.Simproc) ([]byte, error) {
	doublings := s.tally.align(p.Now())
	b := make([]byte, 0, 8+8*int(tallyFields)*len(s.tally[0].Sums()))
	b = binary.LittleEndian.AppendUint64(b, uint64(doublings))
	for _, sums := range &s.tally {
		for _, x := range sums.Sums() {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	return b, nil
}
