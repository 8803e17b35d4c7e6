// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/envelope"
)

// aloneQueue is an EventQueue without an Engine: events, promises and complete epochs go in
// and out of it by hand.
type aloneQueue struct {
	EventQueue
	store *store
	done  float64 // last epoch popped, -Inf at first
	refs  []ref   // popped, to be freed by Release
}

// newAloneQueue makes the queue of a simproc whose predecessors have lookahead 1.
func newAloneQueue(target string, predecessors map[SimprocID]string) *aloneQueue {
	q := &aloneQueue{store: newStore(), done: math.Inf(-1)}
	var senders []sender
	for id, name := range predecessors {
		senders = append(senders, sender{id: id, name: name, lookahead: 1})
	}
	q.init(target, 0, senders)
	return q
}

// Push files an event.
func (q *aloneQueue) Push(ev *envelope.Event) error {
	if !(ev.Epoch > q.done) {
		return fmt.Errorf("node: event from simproc %d at epoch %v, but epoch %v was already handled", ev.Sender,
			ev.Epoch, q.done)
	}
	if _, err := q.arrived(SimprocID(ev.Sender), ev.Epoch); err != nil {
		return err
	}
	q.set.insert(entry{keyOf(ev.Epoch), ev.Number, route{sender: SimprocID(ev.Sender)},
		load{ref: q.store.put(ev.Headers, ev.Data)}})
	return nil
}

// Promise files the promise of one predecessor.
func (q *aloneQueue) Promise(p *envelope.Promise) error {
	before := q.Bound()
	raised, err := q.promise(p)
	if now := q.Bound(); err == nil && raised != before.Before(now) {
		return fmt.Errorf("the bound was %v and is %v, and promise says that it rises: %v", before, now, raised)
	}
	return err
}

// Next is the least pending epoch and whether it is complete.
func (q *aloneQueue) Next() (epoch float64, ok bool) {
	en := q.set.first()
	if en == nil {
		return math.Inf(1), false
	}
	return en.epoch(), en.epoch() < q.Bound().Epoch
}

// Pop appends all events of the least pending epoch to dst. Their memory lives until
// Release.
func (q *aloneQueue) Pop(dst []Event) []Event {
	en := q.set.first()
	if en == nil {
		return dst
	}
	q.done = en.epoch()
	for key := en.key; en != nil && en.key == key; en = q.set.first() {
		headers, data := q.store.get(en.ref)
		dst = append(dst, Event{Epoch: q.done, Sender: en.sender, Number: en.number, Headers: headers, Data: data})
		q.refs = append(q.refs, en.ref)
		q.set.drop()
	}
	return dst
}

// Release ends the life of the memory behind all events popped so far.
func (q *aloneQueue) Release() {
	for _, r := range q.refs {
		q.store.free(r)
	}
	q.refs = q.refs[:0]
}
