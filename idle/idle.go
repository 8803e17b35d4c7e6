// Package idle finds the moments at which every worker of a run is blocked and no
// event is under way between them. At such a moment the least next activation of all
// workers is known to all: the run may jump to it, or has ended when there is none.
//
// Every worker has one Slot in memory that all can read. It posts what it waits for
// before it blocks, and withdraws the post before it does anything else. A worker that
// is blocked looks at all slots: when all are posted, all sent events have arrived, and
// a second look finds the same posts, then there was a moment between the two looks at
// which all of it was true at once.
//
// Guarantee: Look never answers true for a state that the workers were not in
// together; it takes no lock and never waits; a peer that writes nonsense can make it
// answer false, or make its own run wrong, but never harm the reader.
//
//	slot.Post(idle.State{Next: …, Sent: …, Received: …})
//	if next, ok := watch.Look(); ok { … jump … }
//	slot.Withdraw()   // before the next event is handled or taken in
//
// It is the double-scan form of termination detection by counting (Mattern, Algorithms
// for distributed termination detection, Distributed Computing 2, 1987).
package idle

import (
	"fmt"
	"math"
)

// SlotBytes is the size of one slot: one line pair, written by its worker alone.
const SlotBytes = 128

// State is what a blocked worker says of itself.
type State struct {
	Epoch    float64 // of its next activation, +Inf: none
	Level    uint32
	Sent     uint64 // events that it has sent to other workers so far
	Received uint64 // events that it has taken in from other workers so far
}

// Slot is a worker's own slot. One goroutine.
type Slot struct{ w *words }

// NewSlot opens the slot in mem, SlotBytes long and 8-byte aligned, and withdraws
// whatever it says.
func NewSlot(mem []byte) (*Slot, error) {
	w, err := view(mem)
	if err != nil {
		return nil, err
	}
	s := &Slot{w}
	if s.Posted() {
		s.Withdraw()
	}
	return s, nil
}

// Posted tells whether the slot's last word was Post.
func (s *Slot) Posted() bool { return load(&s.w.turn)&1 == 1 }

// Post says that the worker is blocked in this state. A worker that is posted already
// withdraws first.
func (s *Slot) Post(st State) {
	turn := load(&s.w.turn)
	if turn&1 == 1 {
		panic("idle: Post on a posted slot")
	}
	store(&s.w.epoch, math.Float64bits(st.Epoch))
	store(&s.w.level, uint64(st.Level))
	store(&s.w.sent, st.Sent)
	store(&s.w.received, st.Received)
	// SYNC POINT idle-posted: whoever reads the odd turn sees the four words above.
	store(&s.w.turn, turn+1)
}

// Withdraw says that the worker is no longer blocked. Everything that it does from
// here on comes after.
func (s *Slot) Withdraw() {
	turn := load(&s.w.turn)
	if turn&1 == 0 {
		panic("idle: Withdraw on a slot that is not posted")
	}
	// SYNC POINT idle-withdrawn: a full fence, so that no event is taken in or sent by
	// this worker while others still see it blocked.
	store(&s.w.turn, turn+1)
}

// Watch looks at the slots of all workers. One goroutine.
type Watch struct {
	slots []*words
	turns []uint64
}

// NewWatch opens the slots of all workers, in their order.
func NewWatch(slots [][]byte) (*Watch, error) {
	w := &Watch{turns: make([]uint64, len(slots))}
	for i, mem := range slots {
		v, err := view(mem)
		if err != nil {
			return nil, fmt.Errorf("slot of worker %d: %w", i, err)
		}
		w.slots = append(w.slots, v)
	}
	return w, nil
}

// Look tells whether there was a moment during the call at which all workers were
// posted and every event sent had been taken in; then epoch and level are the least
// next activation of all, +Inf when nobody has one.
func (w *Watch) Look() (epoch float64, level uint32, ok bool) {
	epoch, level = math.Inf(1), math.MaxUint32
	var sent, received uint64
	for i, s := range w.slots {
		// SYNC POINT idle-posted: an odd turn comes before the words below.
		turn := load(&s.turn)
		if turn&1 == 0 {
			return 0, 0, false
		}
		w.turns[i] = turn
		e, l := math.Float64frombits(load(&s.epoch)), uint32(load(&s.level))
		if e < epoch || e == epoch && l < level {
			epoch, level = e, l
		}
		sent += load(&s.sent)
		received += load(&s.received)
	}
	if sent != received {
		return 0, 0, false
	}
	for i, s := range w.slots {
		// SYNC POINT idle-withdrawn: the same odd turn means that the worker has been
		// blocked all the time since the first look.
		if load(&s.turn) != w.turns[i] {
			return 0, 0, false
		}
	}
	return epoch, level, true
}
