// SPDX-License-Identifier: Apache-2.0

package sim

// action is something that is due at an epoch: a function, a process to be resumed, a timer with data.
type action interface{ fire(c *Context) }

// call is a function as an action.
type call func(c *Context)

func (f call) fire(c *Context) { f(c) }

// schedule is what a node has still to do by itself, in the order (epoch, number): number counts what was asked
// for. Entries lie by value in a heap of four children a node (LaMarca and Ladner, The influence of caches on the
// performance of heaps, 1996); those of the epoch that is being handled lie in a queue, because they come after
// everything else of it. What can't be cancelled, such as that a process goes on, lies in the queue itself, without a
// slot.
//
// What is cancelled stays in heap or queue as an entry of an older generation than its slot's, until it comes first
// or sweep takes it out.
type schedule struct {
	entries int // in heap and queue, cancelled ones included
	heap    []entry
	queue   []soon // due now; queue[head:] is left
	head    int
	slots   []slot
	free    uint32 // first of the list of free slots, 1 + its index; 0: none
	dead    int    // cancelled entries in heap
	next    uint64 // number of the next entry
}

// entry refers to a slot. 24 bytes.
type entry struct {
	epoch      float64
	number     uint64
	slot       uint32
	generation uint32
}

// soon is an entry of the queue: an action, or where that is nil a slot of it.
type soon struct {
	do action
	at Timer
}

func (a *entry) before(b *entry) bool {
	return a.epoch < b.epoch || a.epoch == b.epoch && a.number < b.number
}

// slot holds an action. A slot is used again and again; each use has a generation, so that nobody cancels another's.
type slot struct {
	do         action
	generation uint32
	nextFree   uint32
	queued     bool // its entry lies in queue, not in heap
}

// Timer names something that was asked for with After, At or a Timeout, so that it can be cancelled. The zero Timer
// names nothing. It is a value: copies name the same. It belongs to its node.
type Timer struct{ slot, generation uint32 } // slot: 1 + the index

const heapWidth = 4

// sweepMin is how many cancelled entries are left alone: sweeping costs a pass over the heap.
const sweepMin = 64

// set asks for do at an epoch, which is now or later.
func (s *schedule) set(now, epoch float64, do action) Timer {
	t := s.take(do)
	s.entries++
	if epoch <= now {
		s.slots[t.slot-1].queued = true
		s.push(soon{at: t})
		return t
	}
	s.heap = append(s.heap, entry{epoch: epoch, number: s.next, slot: t.slot - 1, generation: t.generation})
	s.next++
	s.up(len(s.heap) - 1)
	return t
}

// setSoon asks for do at the epoch that is being handled. It can't be cancelled.
func (s *schedule) setSoon(do action) {
	s.entries++
	s.push(soon{do: do})
}

// push puts an entry at the end of the queue, whose memory is used again when half of it has been done.
func (s *schedule) push(e soon) {
	if len(s.queue) == cap(s.queue) && s.head > len(s.queue)/2 {
		left := copy(s.queue, s.queue[s.head:])
		clear(s.queue[left:])
		s.queue, s.head = s.queue[:left], 0
	}
	s.queue = append(s.queue, e)
}

// pop takes out the first entry of the queue, which has one.
func (s *schedule) pop() soon {
	e := s.queue[s.head]
	s.queue[s.head].do = nil
	s.head++
	s.entries--
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
	}
	return e
}

// take finds a free slot for do.
func (s *schedule) take(do action) Timer {
	if s.free == 0 {
		s.slots = append(s.slots, slot{generation: 1})
		s.free = uint32(len(s.slots))
	}
	t := s.free
	p := &s.slots[t-1]
	s.free, p.do, p.queued = p.nextFree, do, false
	return Timer{t, p.generation}
}

// give frees a slot: its entry, wherever it lies, is an old one then.
func (s *schedule) give(i uint32) action {
	p := &s.slots[i]
	do := p.do
	p.do = nil
	p.generation++
	p.nextFree, s.free = s.free, i+1
	return do
}

// live reports whether t names something that is still to be done.
func (s *schedule) live(t Timer) bool {
	return t.slot > 0 && int(t.slot) <= len(s.slots) && s.slots[t.slot-1].generation == t.generation
}

// cancel takes out what t names; false where that is done already, or was cancelled.
func (s *schedule) cancel(t Timer) bool {
	if !s.live(t) {
		return false
	}
	queued := s.slots[t.slot-1].queued
	s.give(t.slot - 1)
	if queued {
		return true
	}
	if s.dead++; s.dead >= sweepMin && 2*s.dead > len(s.heap) {
		s.sweep()
	}
	return true
}

// sweep takes all cancelled entries out of the heap. As many were cancelled since the last time as are swept now,
// so it is O(1) amortised for each.
func (s *schedule) sweep() {
	kept := s.heap[:0]
	for _, e := range s.heap {
		if s.slots[e.slot].generation == e.generation {
			kept = append(kept, e)
		}
	}
	s.entries -= len(s.heap) - len(kept)
	s.heap, s.dead = kept, 0
	for i := (len(kept) - 2) / heapWidth; i >= 0 && len(kept) > 1; i-- {
		s.down(i)
	}
}

// first is the epoch of the earliest entry of the heap; false where there is none.
func (s *schedule) first() (float64, bool) {
	for len(s.heap) > 0 {
		e := &s.heap[0]
		if s.slots[e.slot].generation == e.generation {
			return e.epoch, true
		}
		s.dead--
		s.dropFirst()
	}
	return 0, false
}

// due takes out what is to be done next at now; nil where nothing is.
func (s *schedule) due(now float64) action {
	for len(s.heap) > 0 && s.heap[0].epoch <= now {
		e := s.heap[0]
		s.dropFirst()
		if s.slots[e.slot].generation == e.generation {
			return s.give(e.slot)
		}
		s.dead--
	}
	for s.head < len(s.queue) {
		e := s.pop()
		if e.do != nil {
			return e.do
		}
		if s.live(e.at) {
			return s.give(e.at.slot - 1)
		}
	}
	return nil
}

func (s *schedule) dropFirst() {
	s.entries--
	last := len(s.heap) - 1
	s.heap[0] = s.heap[last]
	s.heap = s.heap[:last]
	if last > 1 {
		s.down(0)
	}
}

func (s *schedule) up(i int) {
	h := s.heap
	e := h[i]
	for i > 0 {
		parent := (i - 1) / heapWidth
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

func (s *schedule) down(i int) {
	h := s.heap
	e := h[i]
	for {
		child := i*heapWidth + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+heapWidth, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
}
