// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/envelope"
)

// EventQueue holds the pending events of one simproc in the total order (epoch, sender
// node, sender rank, sender's number), and knows from the promises of its predecessors on
// other workers up to which epoch no more can come from them. Every simproc has one where
// workers promise link by link (Plan.PromiseByLink). A predecessor's promise is
//
//	"I have sent you num_events events in total, and nothing that I will still
//	send is earlier than (epoch, level)."
//
// Only the newest promise of a sender matters, so promises may be coalesced,
// overtaken, repeated or lost to a newer one, and events and promises may travel
// on different channels. A promise counts once its num_events have arrived.
//
// What proves a sender wrong is exact: an event beyond the newest promise's count
// must not be earlier than that promise says. Arrivals beyond the count are
// not wrong by themselves: they may have overtaken a promise on another channel,
// as in docs/sync.md, "What breaks a promise".
//
// Owned by the Engine. Nothing allocates once the queue has reached its largest size.
type EventQueue struct {
	target  string
	level   uint32 // of the target
	set     pending
	senders []sender   // by id; empty: nobody on another worker has a link to the target
	last    int        // index of the one that was looked up last
	bounds  tournament // of the senders' bounds
}

// sender is one predecessor on another worker.
type sender struct {
	id        SimprocID
	name      string
	peer      int     // its worker
	lookahead float64 // the least of its links to the target
	seqnr     uint64  // of the newest promise, 0: none
	promised  mark    // what it says
	count     uint64  // events that it counts
	bound     mark    // of the newest promise whose events have all arrived, or of an idle jump
	received  uint64

	// early holds, for events that arrived beyond count, the suffix minima of their
	// epochs: ordinals and epochs both rise. The next promise empties it on a channel that
	// keeps order.
	early []arrival
}

type arrival struct {
	ordinal uint64
	at      mark
}

// Waiting says which predecessor holds an EventQueue back.
type Waiting struct {
	Sender   string
	Missing  string // "event" or "promise"
	Received uint64 // events that have arrived from the sender
	Promised uint64 // events that its newest promise counts
	Bound    float64
}

// String is stable: golden scripts compare it.
func (w Waiting) String() string {
	if w.Missing == "event" {
		return fmt.Sprintf("an event of %s (%d of %d arrived)", w.Sender, w.Received, w.Promised)
	}
	return fmt.Sprintf("a promise of %s beyond epoch %v", w.Sender, w.Bound)
}

// init makes an empty queue that its senders, which it sorts and keeps, hold at epoch 0.
func (q *EventQueue) init(target string, level uint32, senders []sender) {
	q.target, q.level, q.senders = target, level, senders
	slices.SortFunc(senders, func(a, b sender) int { return cmp.Compare(a.id, b.id) })
	q.bounds = newTournament(len(senders), uint64(markOf(0)))
	q.set.init()
}

// Len is the number of pending events and wakeups.
func (q *EventQueue) Len() int { return q.set.len() }

// Bound is what all predecessors allow: nothing that they will still send is earlier.
// Never without predecessors.
func (q *EventQueue) Bound() Bound { return q.least().bound(q.level) }

func (q *EventQueue) least() mark { return mark(min(q.bounds.least(), uint64(markNever))) }

// WaitingFor says which predecessor holds the queue back and what is missing; ok
// is false when nobody does.
func (q *EventQueue) WaitingFor() (w Waiting, ok bool) {
	if q.least() == markNever {
		return Waiting{}, false
	}
	s := &q.senders[q.bounds.first()]
	w = Waiting{Sender: s.name, Missing: "promise", Received: s.received, Promised: s.count, Bound: s.bound.epoch()}
	if s.received < s.count {
		w.Missing = "event"
	}
	return w, true
}

// find is the index of a sender. Its promise often follows its event.
func (q *EventQueue) find(id SimprocID) (int, error) {
	if q.last < len(q.senders) && q.senders[q.last].id == id {
		return q.last, nil
	}
	i, ok := slices.BinarySearchFunc(q.senders, id, func(s sender, id SimprocID) int { return cmp.Compare(s.id, id) })
	if !ok {
		return 0, fmt.Errorf("node: something from simproc %d came for %s, which has %d predecessors on other "+
			"workers and not this one", id, q.target, len(q.senders))
	}
	q.last = i
	return i, nil
}

// arrived counts one event of a sender. raised reports whether the queue's bound has risen
// because a promise had come before it.
func (q *EventQueue) arrived(id SimprocID, epoch float64) (raised bool, err error) {
	i, err := q.find(id)
	if err != nil {
		return false, err
	}
	s, at := &q.senders[i], markOf(epoch)
	if at < s.bound {
		return false, fmt.Errorf("node: event %d of %s to %s at epoch %v breaks its promise: nothing before %v",
			s.received+1, s.name, q.target, epoch, s.bound.bound(q.level))
	}
	s.received++
	if s.received > s.count {
		for n := len(s.early); n > 0 && s.early[n-1].at >= at; n-- {
			s.early = s.early[:n-1]
		}
		s.early = append(s.early, arrival{s.received, at})
	} else if s.received == s.count {
		return q.raise(i, s.promised), nil
	}
	return false, nil
}

// promise takes in one promise. raised reports whether the queue's own bound has risen.
func (q *EventQueue) promise(p *envelope.Promise) (raised bool, err error) {
	i, err := q.find(SimprocID(p.Sender))
	if err != nil {
		return false, err
	}
	s := &q.senders[i]
	if p.Seqnr == 0 || !(p.Epoch >= 0) {
		return false, fmt.Errorf("node: promise of %s to %s has seqnr %d and epoch %v, want seqnr >= 1 and a time "+
			">= 0 or +Inf", s.name, q.target, p.Seqnr, p.Epoch)
	}
	says := markAt(Bound{p.Epoch, p.Level}, q.level)
	switch {
	case p.Seqnr < s.seqnr:
		return false, nil // overtaken
	case p.Seqnr == s.seqnr:
		if says != s.promised || p.NumEvents != s.count {
			return false, fmt.Errorf("node: promise %d of %s to %s came twice and differs: nothing before %v after %d "+
				"events, then %v after "+
				"%d", p.Seqnr, s.name, q.target, s.promised.bound(q.level), s.count, says.bound(q.level), p.NumEvents)
		}
		return false, nil // repeated
	case says < s.promised:
		return false, fmt.Errorf("node: promise %d of %s to %s goes back in time: nothing before %v after promise "+
			"%d said %v", p.Seqnr, s.name, q.target, says.bound(q.level), s.seqnr, s.promised.bound(q.level))
	case p.NumEvents < s.count:
		return false, fmt.Errorf("node: promise %d of %s to %s counts %d events after promise %d counted %d", p.Seqnr,
			s.name, q.target, p.NumEvents, s.seqnr, s.count)
	}
	if err := s.forget(p.NumEvents, says); err != nil {
		return false, fmt.Errorf("node: promise %d of %s to %s counts %d events and nothing more before %v, but %w",
			p.Seqnr, s.name, q.target, p.NumEvents, says.bound(q.level), err)
	}
	s.seqnr, s.promised, s.count = p.Seqnr, says, p.NumEvents
	if s.received >= s.count {
		return q.raise(i, says), nil
	}
	return false, nil
}

// forget drops the early arrivals that a promise of count events covers and
// checks that those beyond it are not earlier than it says.
func (s *sender) forget(count uint64, says mark) error {
	n := 0
	for n < len(s.early) && s.early[n].ordinal <= count {
		n++
	}
	if n < len(s.early) && s.early[n].at < says {
		return fmt.Errorf("%d events have arrived and event %d is at epoch %v", s.received, s.early[n].ordinal,
			s.early[n].at.epoch())
	}
	s.early = s.early[:copy(s.early, s.early[n:])]
	return nil
}

// raise lifts the bound of sender i, if it rises, and reports whether the queue's has risen.
func (q *EventQueue) raise(i int, to mark) bool {
	if to <= q.senders[i].bound {
		return false
	}
	before := q.bounds.least()
	q.senders[i].bound = to
	q.bounds.set(i, uint64(to))
	return q.bounds.least() > before
}

// jump raises all bounds to what an idle moment allows at which the least next activation
// of all workers was at b: everything still to come is caused by something at b or later.
func (q *EventQueue) jump(b Bound) {
	for i := range q.senders {
		to := markOf(b.Epoch)
		if l := q.senders[i].lookahead; l > 0 {
			to = to.ahead(l)
		} else if b.Level >= q.level {
			to = to.after()
		}
		q.raise(i, to)
	}
}

// first is the epoch of the first entry as a key, keyNever when there is none.
func (q *EventQueue) first() uint64 {
	if en := q.set.first(); en != nil {
		return en.key
	}
	return keyNever
}

// earliest is first as a mark; limit is the horizon.
func (q *EventQueue) earliest(horizon float64) mark {
	if k := q.first(); k != keyNever && math.Float64frombits(k) < horizon {
		return markOf(math.Float64frombits(k))
	}
	return markNever
}
