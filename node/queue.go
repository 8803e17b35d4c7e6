// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/envelope"
)

// EventQueue holds the pending events of one simproc in the total order
// (epoch, sender node, sender rank, sender's number), and knows from the promises
// of its predecessors up to which epoch they are complete.
//
// It is the form for whoever files events and promises by hand. In an Engine the queues
// of all simprocs of a class are one pending set, and what is complete is said by the
// order of work and the promises of whole lanes (docs/sync.md), or, where a
// NodeController stands alone, by the same promises as here.
//
// Owned by one goroutine. Nothing on Push, Promise and Pop allocates once the
// queue has reached its largest size.
type EventQueue struct {
	set   pending // all for target 0
	store *store
	preds *predecessors // nil: never held
	done  float64       // last epoch popped, -Inf at first
	refs  []ref         // popped, to be freed by Release
}

// NewEventQueue makes a queue that stands alone. target names the simproc in
// errors; predecessors are those who will send to it, and each holds the queue
// until it has promised. Without predecessors nothing is ever held.
func NewEventQueue(target string, predecessors map[SimprocID]string) *EventQueue {
	q := &EventQueue{store: newStore(), preds: newPredecessors(target, predecessors), done: math.Inf(-1)}
	q.set.init()
	return q
}

// Len is the number of pending events.
func (q *EventQueue) Len() int { return q.set.len() }

// Push files an event; its data is copied. An event from someone who is not a
// predecessor, one at an epoch that was already handed out, and one that breaks
// its sender's promise are errors that name sender and target.
func (q *EventQueue) Push(ev *envelope.Event) error {
	if !(ev.Epoch > q.done) {
		return fmt.Errorf("node: event from simproc %d at epoch %v, but epoch %v was already handled", ev.Sender, ev.Epoch, q.done)
	}
	if q.preds != nil {
		if err := q.preds.event(SimprocID(ev.Sender), ev.Epoch); err != nil {
			return err
		}
	}
	q.set.insert(&entry{key: keyOf(ev.Epoch), number: ev.Number, sender: SimprocID(ev.Sender), ref: q.store.put(ev.Headers, ev.Data)})
	return nil
}

// Promise files the promise of one predecessor; ENGINE order: only the newest
// matters, older and repeated ones change nothing, one that takes back what an
// older one said is an error that names sender and target.
func (q *EventQueue) Promise(p *envelope.Promise) error {
	if q.preds == nil {
		return fmt.Errorf("node: promise from simproc %d to a queue without predecessors", p.Sender)
	}
	return q.preds.promise(SimprocID(p.Sender), p.Seqnr, p.Epoch, p.NumEvents)
}

// Bound is the epoch before which everything is known: the least that all
// predecessors allow, +Inf without predecessors. Epochs earlier than it are
// complete; events at it may still come.
func (q *EventQueue) Bound() float64 {
	if q.preds == nil {
		return math.Inf(1)
	}
	return q.preds.bound()
}

// Next is the least pending epoch and whether it is complete; ok is false when
// nothing is pending or the epoch is held.
func (q *EventQueue) Next() (epoch float64, ok bool) {
	en := q.set.first()
	if en == nil {
		return math.Inf(1), false
	}
	epoch = en.epoch()
	return epoch, epoch < q.Bound()
}

// WaitingFor says which predecessor holds the queue back and what is missing; ok
// is false when nobody does.
func (q *EventQueue) WaitingFor() (w Waiting, ok bool) {
	if q.preds == nil || math.IsInf(q.preds.bound(), 1) {
		return Waiting{}, false
	}
	return q.preds.waiting(), true
}

// Pop appends all events of the least pending epoch to dst, in the total order,
// and takes them out of the queue. The events' memory lives until Release. It is
// for the caller to ask Next first: Pop doesn't look at promises.
func (q *EventQueue) Pop(dst []Event) []Event {
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
func (q *EventQueue) Release() {
	for _, r := range q.refs {
		q.store.free(r)
	}
	q.refs = q.refs[:0]
}
