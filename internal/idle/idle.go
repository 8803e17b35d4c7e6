// SPDX-License-Identifier: Apache-2.0

// Package idle finds the moments at which every worker of a run is blocked and no
// event is under way between them. At such a moment the least next activation of all
// workers is known to all: the run may jump to it, or has ended when there is none.
//
// Every worker has one Slot in memory that all can read. It posts what it waits for
// before it blocks, and withdraws the post before it does anything else. A worker that
// is blocked looks at all slots: when all are posted, all sent events have arrived, and
// a second look finds the same posts, then there was a moment between the two looks at
// which all of it was true.
//
// Guarantee: Look never answers true for a state that the workers were not in
// together; it takes no lock and never waits. What a slot's owner relies on it keeps in
// private memory and only stores into the slot; bytes that another process has written
// there are ErrCorrupt, for the owner from Check and for the others from Look.
//
//	slot.Post(idle.State{Next: …, Sent: …, Received: …})
//	err := slot.Check()
//	if next, ok, err := watch.Look(); ok { … jump … }
//	slot.Withdraw()   // before the next event is handled or taken in
//
// Where a run is over several machines, each worker has a Far in place of Slot and Watch,
// each machine a Site, and one of them the Leader: far.go.
//
// It is the double-scan form of termination detection by counting (Mattern, Algorithms
// for distributed termination detection, Distributed Computing 2, 1987).
package idle

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/disco-sim/disco/router"
)

// SlotBytes is the size of one slot: one line pair, written by its worker alone.
const SlotBytes = 128

// State is what a blocked worker posts.
type State = router.State

// ErrCorrupt says that a slot holds what its worker has not written there.
var ErrCorrupt = errors.New("idle: slot was overwritten")

// Slot is a worker's own slot. One goroutine. The slot in memory is only stored to, and
// compared by Check: a peer's stray write changes nothing of what this worker does.
type Slot struct {
	w     *words
	wrote content // what stands in the slot, if no other process has written there
}

// content is the words of a slot.
type content struct{ turn, epoch, level, sent, received, round uint64 }

// sum is the word behind the others: bytes that another process has written don't match it.
func (c *content) sum() uint64 {
	return sumOf(c.turn, c.epoch, c.level, c.sent, c.received, c.round)
}

func sumOf(words ...uint64) uint64 {
	h := uint64(sumStart)
	for _, v := range words {
		h = bits.RotateLeft64((h^v)*sumFactor, 29)
	}
	return h
}

// Any odd factor and any start other than 0 do.
const sumStart, sumFactor = 0x4449_5343_4f49_444c, 0x9E37_79B9_7F4A_7C15

// NewSlot opens the slot in mem, SlotBytes long and 8-byte aligned, and withdraws
// whatever it says.
func NewSlot(mem []byte) (*Slot, error) {
	w, err := view(mem)
	if err != nil {
		return nil, err
	}
	s := &Slot{w: w, wrote: w.load()}
	s.wrote.turn = (s.wrote.turn + 1) &^ 1
	s.store()
	return s, nil
}

// Posted reports whether the slot's last word was Post.
func (s *Slot) Posted() bool { return s.wrote.turn&1 == 1 }

// Post says that the worker is blocked in this state. A worker that is posted already
// withdraws first.
func (s *Slot) Post(st State) { s.post(st, 0) }

// post is Post by a worker that has taken so many jumps.
func (s *Slot) post(st State, round uint64) {
	if s.Posted() {
		panic("idle: Post on a posted slot")
	}
	// + 0: minus zero becomes plus zero
	epoch := math.Float64bits(st.Epoch + 0)
	s.wrote = content{s.wrote.turn + 1, epoch, uint64(st.Level), st.Sent, st.Received, round}
	s.store()
}

// store writes the slot, the turn last.
func (s *Slot) store() {
	c := &s.wrote
	store(&s.w.epoch, c.epoch)
	store(&s.w.level, c.level)
	store(&s.w.sent, c.sent)
	store(&s.w.received, c.received)
	store(&s.w.round, c.round)
	store(&s.w.sum, c.sum())
	// SYNC POINT idle-posted: whoever reads the odd turn sees the six words above.
	store(&s.w.turn, c.turn)
}

// Withdraw says that the worker is no longer blocked. Everything that it does from
// here on comes after.
func (s *Slot) Withdraw() {
	if !s.Posted() {
		panic("idle: Withdraw on a slot that is not posted")
	}
	s.wrote.turn++
	// SYNC POINT idle-withdrawn: a full fence, so that no event is taken in or sent by
	// this worker while others still see it blocked.
	store(&s.w.turn, s.wrote.turn)
}

// Check compares the slot with what its worker has written. A difference is ErrCorrupt:
// others may have read wrong values, or be waiting for a post that was overwritten.
func (s *Slot) Check() error {
	if found := s.w.load(); found != s.wrote {
		return fmt.Errorf("%w: found %v, want %v: some worker writes where it must not", ErrCorrupt, found, s.wrote)
	}
	return nil
}

// String is the words in hexadecimal: what overwrote them may be recognised.
func (c content) String() string {
	return fmt.Sprintf("turn %#x, epoch %#x, level %#x, sent %#x, received %#x, round %#x", c.turn, c.epoch, c.level,
		c.sent, c.received, c.round)
}

// Watch looks at the slots of all workers. One goroutine.
type Watch struct {
	slots []*words
	turns []uint64
}

// NewWatch opens the slots of all workers, in their order.
func NewWatch(slots [][]byte) (*Watch, error) {
	views, err := viewAll(slots, 0)
	return &Watch{slots: views, turns: make([]uint64, len(slots))}, err
}

// viewAll opens the slots of some workers, of which the first has a number.
func viewAll(slots [][]byte, first int) (views []*words, err error) {
	for i, mem := range slots {
		v, err := view(mem)
		if err != nil {
			return nil, fmt.Errorf("slot of worker %d: %w", first+i, err)
		}
		views = append(views, v)
	}
	return views, nil
}

// Look reports whether there was a moment during the call at which all workers were
// posted and every event sent had been taken in; then epoch and level are the least
// next activation of all, +Inf when no worker has one. ErrCorrupt names the worker whose
// slot holds what it can't have posted.
func (w *Watch) Look() (epoch float64, level uint32, ok bool, err error) {
	next, over := least{math.Inf(1), math.MaxUint32}, uint64(0)
	for i, s := range w.slots {
		c, ok, err := s.posted()
		if err != nil {
			err = fmt.Errorf("slot of worker %d: %w", i, err)
		}
		if !ok {
			return 0, 0, false, err
		}
		w.turns[i] = c.turn
		next.take(&c)
		over += c.sent - c.received
	}
	if over != 0 || !unchanged(w.slots, w.turns) {
		return 0, 0, false, nil
	}
	return next.epoch, next.level, true, nil
}

// least is the least next activation that was found.
type least struct {
	epoch float64
	level uint32
}

func (l *least) take(c *content) { l.min(math.Float64frombits(c.epoch), uint32(c.level)) }

func (l *least) min(epoch float64, level uint32) {
	if epoch < l.epoch || epoch == l.epoch && level < l.level {
		l.epoch, l.level = epoch, level
	}
}

// posted takes what a slot says; ok: that its worker is blocked. The error is ErrCorrupt.
func (w *words) posted() (c content, ok bool, err error) {
	// SYNC POINT idle-posted: an odd turn comes before the words below.
	c = w.load()
	if c.turn&1 == 0 {
		return c, false, nil
	}
	if sum := load(&w.sum); sum != c.sum() || c.level > math.MaxUint32 || !isTime(c.epoch) {
		if load(&w.turn) != c.turn {
			return c, false, nil // posted anew in between
		}
		return c, false, fmt.Errorf("%w: found %v, sum %#x", ErrCorrupt, c, sum)
	}
	return c, true, nil
}

// unchanged tells whether the slots have the turns that were found at a first look.
func unchanged(slots []*words, turns []uint64) bool {
	for i, s := range slots {
		// SYNC POINT idle-withdrawn: the same odd turn means that the worker has been
		// blocked all the time since the first look.
		if load(&s.turn) != turns[i] {
			return false
		}
	}
	return true
}

// isTime reports whether the bits are a time or +Inf.
func isTime(epochBits uint64) bool { return epochBits <= 0x7FF0_0000_0000_0000 }
