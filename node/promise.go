// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// predecessors tracks what each sender has promised to one target:
//
//	"I have sent you num_events events in total, and nothing that I will still
//	send is earlier than epoch."
//
// Only the newest promise of a sender matters, so promises may be coalesced,
// overtaken, repeated or lost to a newer one, and events and promises may travel
// on different channels. A promise counts once its num_events have arrived.
//
// What proves a sender wrong is exact: an event beyond the newest promise's count
// must not be earlier than that promise's epoch. Arrivals beyond the count are
// not wrong by themselves: they may have overtaken a promise on another channel,
// as in docs/sync.md, "What breaks a promise".
type predecessors struct {
	target string
	list   []predecessor // by sender
	last   int           // index of the one that was looked up last
	seen   float64       // bound, when an Engine last looked
	bounds tournament    // of list's bounds
}

type predecessor struct {
	sender   SimprocID
	name     string
	seqnr    uint64 // of the newest promise, 0: none
	epoch    float64
	count    uint64
	bound    float64 // epoch of the newest promise whose events have all arrived
	received uint64

	// early holds, for events that arrived beyond count, the suffix minima of their
	// epochs: ordinals and epochs both rise. Empty on a channel that keeps order.
	early []arrival
}

type arrival struct {
	ordinal uint64
	epoch   float64
}

// Waiting says who holds an EventQueue back.
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

func newPredecessors(target string, names map[SimprocID]string) *predecessors {
	if len(names) == 0 {
		return nil
	}
	p := &predecessors{target: target}
	for id, name := range names {
		p.list = append(p.list, predecessor{sender: id, name: name})
	}
	slices.SortFunc(p.list, func(a, b predecessor) int { return cmp.Compare(a.sender, b.sender) })
	p.bounds = newTournament(len(p.list))
	return p
}

// find is the index of a sender in list. Its promise often follows its event.
func (ps *predecessors) find(sender SimprocID) (int, error) {
	if ps.list[ps.last].sender == sender {
		return ps.last, nil
	}
	low, high := 0, len(ps.list)
	for low < high {
		if mid := (low + high) / 2; ps.list[mid].sender < sender {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(ps.list) || ps.list[low].sender != sender {
		return 0, fmt.Errorf("node: %s heard from simproc %d, which is not one of its %d predecessors", ps.target, sender, len(ps.list))
	}
	ps.last = low
	return low, nil
}

// event counts one event of sender.
func (ps *predecessors) event(sender SimprocID, epoch float64) error {
	i, err := ps.find(sender)
	if err != nil {
		return err
	}
	p := &ps.list[i]
	if epoch < p.bound {
		return fmt.Errorf("node: event %d of %s to %s at epoch %v breaks its promise: nothing earlier than %v", p.received+1, p.name, ps.target, epoch, p.bound)
	}
	p.received++
	if p.received > p.count {
		for n := len(p.early); n > 0 && p.early[n-1].epoch >= epoch; n-- {
			p.early = p.early[:n-1]
		}
		p.early = append(p.early, arrival{p.received, epoch})
	} else if p.received == p.count {
		ps.raise(i)
	}
	return nil
}

// promise takes in one promise of sender.
func (ps *predecessors) promise(sender SimprocID, seqnr uint64, epoch float64, count uint64) error {
	i, err := ps.find(sender)
	if err != nil {
		return err
	}
	p := &ps.list[i]
	switch {
	case seqnr == 0 || !(epoch >= 0):
		return fmt.Errorf("node: promise of %s to %s has seqnr %d and epoch %v, want seqnr >= 1 and a time >= 0 or +Inf", p.name, ps.target, seqnr, epoch)
	case seqnr < p.seqnr:
		return nil // overtaken
	case seqnr == p.seqnr:
		if epoch != p.epoch || count != p.count {
			return fmt.Errorf("node: promise %d of %s to %s came twice and differs: epoch %v after %d events, then epoch %v after %d", seqnr, p.name, ps.target, p.epoch, p.count, epoch, count)
		}
		return nil // repeated
	case epoch < p.epoch:
		return fmt.Errorf("node: promise %d of %s to %s goes back in time: epoch %v after promise %d said %v", seqnr, p.name, ps.target, epoch, p.seqnr, p.epoch)
	case count < p.count:
		return fmt.Errorf("node: promise %d of %s to %s counts %d events after promise %d counted %d", seqnr, p.name, ps.target, count, p.seqnr, p.count)
	}
	if err := p.forget(count, epoch); err != nil {
		return fmt.Errorf("node: promise %d of %s to %s counts %d events and nothing more before epoch %v, but %w", seqnr, p.name, ps.target, count, epoch, err)
	}
	p.seqnr, p.epoch, p.count = seqnr, epoch, count
	if p.received >= count {
		ps.raise(i)
	}
	return nil
}

// forget drops the early arrivals that a promise of count events covers and
// checks that those beyond it keep its epoch.
func (p *predecessor) forget(count uint64, epoch float64) error {
	n := 0
	for n < len(p.early) && p.early[n].ordinal <= count {
		n++
	}
	if n < len(p.early) && p.early[n].epoch < epoch {
		return fmt.Errorf("%d events have arrived and event %d is at epoch %v", p.received, p.early[n].ordinal, p.early[n].epoch)
	}
	p.early = p.early[:copy(p.early, p.early[n:])]
	return nil
}

// raise lifts the bound of predecessor i to its newest promise.
func (ps *predecessors) raise(i int) {
	ps.list[i].bound = ps.list[i].epoch
	ps.bounds.set(i, ps.list[i].epoch)
}

func (ps *predecessors) bound() float64 { return ps.bounds.least() }

// waiting describes the first predecessor with the least bound.
func (ps *predecessors) waiting() Waiting {
	least := math.Inf(1)
	at := 0
	for i := range ps.list {
		if ps.list[i].bound < least {
			least, at = ps.list[i].bound, i
		}
	}
	p := &ps.list[at]
	w := Waiting{Sender: p.name, Missing: "promise", Received: p.received, Promised: p.count, Bound: p.bound}
	if p.received < p.count {
		w.Missing = "event"
	}
	return w
}
