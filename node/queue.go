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
// Inside a worker no predecessors are declared: the Engine's own order and the
// promises of whole lanes say what is complete (docs/sync.md). A queue that is
// used alone, or by a NodeController that stands alone, declares them.
//
// Owned by one goroutine. Nothing on Push, Promise and Pop allocates once the
// queue has reached its largest size.
type EventQueue struct {
	heap  []entry // 4-ary: children of i at 4i+1 … 4i+4
	store *store
	preds *predecessors // nil: never held
	done  float64       // last epoch popped, -Inf at first
	woken bool          // the last Pop took a wakeup
	refs  []ref         // popped, to be freed by Release
}

// entry is one pending event, 24 bytes, without pointers.
type entry struct {
	epoch  float64
	number uint64
	sender SimprocID
	ref    ref
}

// wakeSender marks an entry that only asks for a call at its epoch. It sorts
// behind all events of the epoch.
const wakeSender = SimprocID(math.MaxUint32)

func (a *entry) before(b *entry) bool {
	if a.epoch != b.epoch {
		return a.epoch < b.epoch
	}
	if a.sender != b.sender {
		return a.sender < b.sender
	}
	return a.number < b.number
}

// NewEventQueue makes a queue that stands alone. target names the simproc in
// errors; predecessors are those who will send to it, and each holds the queue
// until it has promised. Without predecessors nothing is ever held.
func NewEventQueue(target string, predecessors map[SimprocID]string) *EventQueue {
	q := &EventQueue{}
	q.init(newStore())
	q.preds = newPredecessors(target, predecessors)
	return q
}

func (q *EventQueue) init(s *store) {
	q.store = s
	q.done = math.Inf(-1)
}

// Len is the number of pending events and wakeups.
func (q *EventQueue) Len() int { return len(q.heap) }

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
	q.push(entry{epoch: ev.Epoch, number: ev.Number, sender: SimprocID(ev.Sender), ref: q.store.put(ev.Headers, ev.Data)})
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
	if len(q.heap) == 0 {
		return math.Inf(1), false
	}
	e := q.heap[0].epoch
	return e, e < q.Bound()
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
	if len(q.heap) == 0 {
		return dst
	}
	epoch := q.heap[0].epoch
	q.done, q.woken = epoch, false
	for len(q.heap) > 0 && q.heap[0].epoch == epoch {
		e := q.heap[0]
		q.drop()
		if e.sender == wakeSender {
			q.woken = true
			continue
		}
		headers, data := q.store.get(e.ref)
		dst = append(dst, Event{Epoch: epoch, Sender: e.sender, Number: e.number, Headers: headers, Data: data})
		q.refs = append(q.refs, e.ref)
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

// push puts e into the heap and tells whether it became the first.
func (q *EventQueue) push(e entry) bool {
	q.heap = append(q.heap, e)
	h := q.heap
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) >> 2
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	return i == 0
}

// drop takes the first entry out. The hole it leaves sinks to a leaf along the
// least children, and the last entry rises from there: the last entry is nearly
// always a late one, so comparing it on the way down would be wasted.
func (q *EventQueue) drop() {
	h := q.heap
	n := len(h) - 1
	last := h[n]
	h = h[:n]
	q.heap = h
	if n == 0 {
		return
	}
	i := 0
	for {
		c := i<<2 + 1
		if c >= n {
			break
		}
		least := c
		for j, end := c+1, min(c+4, n); j < end; j++ {
			if h[j].before(&h[least]) {
				least = j
			}
		}
		h[i] = h[least]
		i = least
	}
	for i > 0 {
		parent := (i - 1) >> 2
		if !last.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = last
}
