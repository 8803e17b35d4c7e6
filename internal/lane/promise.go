// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/interleave"
	"github.com/disco-sim/disco/internal/race"
)

// The promise slot is two words: levelAt (level, and the position up to which the ring must have been read) and
// epochBits. The writer stores levelAt, then the epoch; the reader loads the epoch, then levelAt. Both words are
// atomic, but the pair is not, and need not be:
//
// Let b1 < b2 < … be the bounds published, in the order (epoch, level). The reader
// loads the epoch of some b_i and, later, the levelAt of some b_j. Since levelAt_i
// was stored before epoch_i, j >= i. So the reader has (epoch_i, level_j), which is
//
//	at most (epoch_j, level_j) = b_j, because epochs never fall.
//
// When levelAt_j was stored, the sender had decided on b_j and everything sent before b_j stood in the ring below
// position_j. So the mixture is a valid bound as soon as the ring has been read up to position_j, and the reader
// has position_j: it is in the same word as level_j.
//
// A mixture can be smaller than a bound that was read before, when the level falls because the epoch rises: after
// (5, level 9) the reader may find (5, level 2) while (7, level 2) is being stored. The earlier bound stays valid,
// so the reader keeps it. An epoch alone never falls: that, NaN and a sign bit are protocol errors.
//
// Rejected: a counter before and after (seqlock) costs the writer two stores more
// and lets a reader spin behind a writer that died between them.

// Promise is a bound as found in the slot: the sender will send nothing earlier
// than (Epoch, Level) beyond what lies below a position of the ring.
type Promise struct {
	Epoch float64 // simulated seconds, >= 0; +Inf: nothing will be sent any more
	Level uint32  // topological level within the epoch

	at uint32 // positionUnits of the position that must have been read
}

const infBits = 0x7FF0_0000_0000_0000 // +Inf; all times are at or below it, as bits

// promiseWriter is the sender's end of the slot.
type promiseWriter struct {
	lines     *promiseLines // immutable
	epochBits uint64        // as last published
	level     uint32
	levelAt   uint64 // as last stored
}

// Promise publishes the bound (epoch, level): nothing that is still to be committed to the forward ring is earlier.
// The stores end with a full fence, so a caller may then check whether the receiver is parked.
//
// Precondition: the bound is a time, not NaN, and not below the one before. Any other bound is a bug of disco and
// panics. The same bound again does nothing and returns false.
func (s *Sender) Promise(epoch float64, level uint32) bool {
	w := &s.slot
	epochBits := math.Float64bits(epoch + 0) // + 0: minus zero becomes plus zero
	if epochBits > infBits || epochBits < w.epochBits || epochBits == w.epochBits && level < w.level {
		panic(fmt.Sprintf("lane: promise (%v, %d) after (%v, %d)", epoch, level, math.Float64frombits(w.epochBits),
			w.level))
	}
	if epochBits == w.epochBits && level == w.level {
		return false
	}
	w.epochBits, w.level = epochBits, level
	w.storeLevelAt(level, positionUnits(s.forward.Position()))
	w.storeEpoch(epochBits)
	return true
}

func (w *promiseWriter) storeLevelAt(level, at uint32) {
	// SYNC POINT promise-level: pairs with the load in promiseReader.loadLevelAt.
	// Every record below position at that is published was published before.
	w.levelAt = uint64(level) | uint64(at)<<32
	race.ReleaseMerge(&w.lines.levelAt)
	interleave.Point()
	atomic.StoreUint64(&w.lines.levelAt, w.levelAt)
}

// check compares the slot with what was stored into it.
func (w *promiseWriter) check() error {
	epochBits, levelAt := atomic.LoadUint64(&w.lines.epochBits), atomic.LoadUint64(&w.lines.levelAt)
	if epochBits == w.epochBits && levelAt == w.levelAt {
		return nil
	}
	return fmt.Errorf("%w: the promise slot was overwritten: words %#x and %#x, want %#x and %#x", ErrProtocol,
		epochBits, levelAt, w.epochBits, w.levelAt)
}

func (w *promiseWriter) storeEpoch(epochBits uint64) {
	// SYNC POINT promise-epoch: pairs with the load in promiseReader.loadEpoch: a load that sees this epoch is
	// followed by one that sees this levelAt or a newer one.
	// SYNC POINT park-handshake: the store is sequentially consistent, and the sender loads the doorbell after it.
	race.ReleaseMerge(&w.lines.epochBits)
	interleave.Point()
	atomic.StoreUint64(&w.lines.epochBits, epochBits)
}

// Reset takes the bound back to (0, 0) for the next replication.
//
// Use: only while the run is at rest: everything sent is published, and the
// receiver neither looks at the slot nor will before both sides have reset.
func (s *Sender) Reset() {
	s.slot.epochBits, s.slot.level = 0, 0
	s.slot.storeLevelAt(0, positionUnits(s.forward.Position()))
	s.slot.storeEpoch(0)
}

// promiseReader is the receiver's end of the slot.
type promiseReader struct {
	lines     *promiseLines // immutable
	capacity  int32         // of the forward ring, in position units; immutable
	epochBits uint64        // as last returned
	level     uint32
	levelAt   uint64 // as last loaded; 0 after Reset, which no bound that is fresh then has
}

func (r *promiseReader) loadEpoch() uint64 {
	// SYNC POINT promise-epoch: pairs with the store in promiseWriter.storeEpoch.
	interleave.Point()
	v := atomic.LoadUint64(&r.lines.epochBits)
	race.Acquire(&r.lines.epochBits)
	return v
}

func (r *promiseReader) loadLevelAt() (level, at uint32) {
	// SYNC POINT promise-level: pairs with the store in promiseWriter.storeLevelAt.
	interleave.Point()
	v := atomic.LoadUint64(&r.lines.levelAt)
	race.Acquire(&r.lines.levelAt)
	r.levelAt = v
	return uint32(v), uint32(v >> 32)
}

// Changed reports whether the slot holds other words than Promise has found there last. As long as it doesn't, Promise
// would return nothing: this is the look for each pass.
func (r *Receiver) Changed() bool {
	// SYNC POINT promise-epoch: only compared; Promise loads both words itself.
	// SYNC POINT promise-level: likewise.
	s := &r.slot
	return atomic.LoadUint64(&s.lines.epochBits) != s.epochBits || atomic.LoadUint64(&s.lines.levelAt) != s.levelAt
}

// Promise reads the promise slot. fresh is true if it holds a higher bound than any returned before; otherwise p is
// not valid. The caller may use the bound once Reached(p). ErrProtocol means that the peer's bound is no time or
// goes backwards.
func (r *Receiver) Promise() (p Promise, fresh bool, err error) {
	epochBits := r.slot.loadEpoch()
	level, at := r.slot.loadLevelAt()
	if epochBits == r.slot.epochBits && level <= r.slot.level {
		return Promise{}, false, nil
	}
	return r.slot.accept(epochBits, level, at, positionUnits(r.forward.Position()))
}

// accept checks a changed bound against the last one and against the position that
// has been read.
//
// How far can the position in the slot be from the one read? Ahead, at most a
// ring's capacity, because more can't be in the ring. Behind, at most what was read
// since the last look at the slot: as long as the receiver looks at the slot after
// each Release of the ring, that is a capacity too. Anything else is damage.
func (r *promiseReader) accept(epochBits uint64, level, at, read uint32) (Promise, bool, error) {
	if epochBits > infBits {
		return Promise{}, false, fmt.Errorf("%w: promise with epoch %v, want a time >= 0 without a sign, or +Inf",
			ErrProtocol, math.Float64frombits(epochBits))
	}
	if epochBits < r.epochBits {
		return Promise{}, false, fmt.Errorf("%w: promise goes back from epoch %v to %v", ErrProtocol,
			math.Float64frombits(r.epochBits), math.Float64frombits(epochBits))
	}
	if ahead := int32(at - read); ahead > r.capacity || ahead < -r.capacity {
		return Promise{}, false, fmt.Errorf("%w: promise at %d bytes from the position read, at most %d are possible",
			ErrProtocol, int64(ahead)*8, int64(r.capacity)*8)
	}
	r.epochBits, r.level = epochBits, level
	return Promise{Epoch: math.Float64frombits(epochBits), Level: level, at: at}, true, nil
}

// Reached reports whether the forward ring has been read as far as it must be before
// p holds: everything sent before p has been returned by Next.
func (r *Receiver) Reached(p Promise) bool {
	return int32(positionUnits(r.forward.Position())-p.at) >= 0
}

// Reset drops the bounds of the last replication.
//
// Use: as Sender.Reset; everything in the forward ring has been read.
func (r *Receiver) Reset() { r.slot.epochBits, r.slot.level, r.slot.levelAt = 0, 0, 0 }
