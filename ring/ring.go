// SPDX-License-Identifier: Apache-2.0

// Package ring hands variable-length records from one producer to one consumer through a byte slice, which is
// usually memory that two processes share. It uses nothing of the operating system: it never maps, sleeps, logs or
// starts a goroutine, and works on heap memory too.
//
// Guarantee: the consumer sees exactly the records that were published, whole, in order and once each. What was
// claimed or committed but never published, because the producer died or aborted, is never seen. Neither side
// trusts the other's words: each is loaded once and checked against the loading side's own capacity and position,
// and damage ends in ErrCorrupt, not in a panic, an endless loop or an access outside the slice. Nothing allocates
// after the ring is open.
//
//	mem := aligned.Bytes(ring.Size(1<<16), ring.Alignment)
//	err := ring.Init(mem, ring.Config{})
//
//	p, err := ring.OpenProducer(mem)      // one process or goroutine
//	buf, err := p.Claim(len(text))        // ErrFull: later
//	copy(buf, text)
//	p.Commit()                            // any number of records, then
//	p.Publish()                           // all of them at once
//
//	c, err := ring.OpenConsumer(mem)      // the other one
//	rec, err := c.Next()                  // nil, nil: nothing there
//	c.Release()                           // rec must not be used any more
//
// The layout, the invariants and the ordering edges are in docs/format/ring.md.
package ring

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/aligned"
)

// The errors of a ring. ErrFull is returned as it is; the others are mostly wrapped, with where, what was found and
// what is allowed: compare with errors.Is.
var (
	// ErrFull means that the record doesn't fit until the consumer releases more: back-pressure. It is cheap and no
	// fault: the caller waits, or does something else.
	ErrFull = errors.New("ring: full")

	// ErrTooLarge says that the record is longer than MaxRecord and will never fit.
	ErrTooLarge = errors.New("ring: record too large")

	// ErrClosed says that the other side has closed the ring. The consumer gets it
	// only after the last published record.
	ErrClosed = errors.New("ring: closed")

	// ErrCorrupt means that the other side has written an invalid word. The ring stays broken: every later call on
	// the same side returns the same error.
	ErrCorrupt = errors.New("ring: corrupt")

	// ErrFormat means that the memory is not a ring, or has another version, size or alignment.
	ErrFormat = errors.New("ring: not a ring")

	// ErrTaken says that this side of the ring was acquired before.
	ErrTaken = errors.New("ring: side already taken")
)

// Config configures Init.
type Config struct {
	// Start is the position of the first record, in bytes; a multiple of 8.
	// Default 0. The value makes no difference to users; tests start close to
	// where the index or the 64-bit position wraps around.
	Start uint64
}

// validate reports the first field that can't be.
func (cfg Config) validate() error {
	if cfg.Start%headerBytes != 0 {
		return fmt.Errorf("ring: start position %d, want a multiple of %d", cfg.Start, headerBytes)
	}
	return nil
}

// Size is the number of bytes of memory that a ring with capacity bytes of data
// area takes. The capacity must be a power of two from CapacityMin to CapacityMax;
// anything else is our own bug and panics.
func Size(capacity int) int {
	if err := CheckCapacity(capacity, CapacityMin, CapacityMax); err != nil {
		panic("ring: " + err.Error())
	}
	return ControlBytes + capacity
}

// MaxRecord is the length of the longest record that a ring with capacity bytes of
// data area takes: a little less than half of it.
func MaxRecord(capacity int) int {
	Size(capacity)
	return int(maxRecord(uint64(capacity)))
}

// CheckCapacity reports a capacity that is no power of two from least to most, which who uses the ring may choose
// within CapacityMin and CapacityMax.
func CheckCapacity(capacity, least, most int) error {
	if capacity < least || capacity > most || bits.OnesCount(uint(capacity)) != 1 {
		return fmt.Errorf("ring of %d bytes, want a power of two from %d to %d", capacity, least, most)
	}
	return nil
}

// Init formats mem, whose length must be Size of some capacity, as an empty ring with both sides free. What was in
// mem before is lost; it needs no zeroing, and only the control area and one word of the data area are written.
//
// Use: by the owner of the memory, while no producer and no consumer works on it. Use it also after one side's
// process has died, or between two replications: once both sides are known to have stopped, call Init and let both
// open again. The ring itself doesn't show that a process is dead.
func Init(mem []byte, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	if err := checkMemory(mem); err != nil {
		return err
	}
	capacity := uint64(len(mem) - ControlBytes)
	ctl := controlOf(mem)
	atomic.StoreUint64(&ctl.identity.format, 0)
	atomic.StoreUint64(&ctl.identity.capacity, capacity)
	atomic.StoreUint64(&ctl.identity.start, cfg.Start)
	atomic.StoreUint64(&ctl.producer.owner, 0)
	atomic.StoreUint64(&ctl.consumer.head, cfg.Start)
	atomic.StoreUint64(&ctl.consumer.owner, 0)
	atomic.StoreUint64(memoryOf(mem[ControlBytes:]).word(cfg.Start&(capacity-1)), 0)

	// SYNC POINT ring-formatted: everything above is seen by a process that loads the format word in attach.
	atomic.StoreUint64(&ctl.identity.format, formatWord)
	return nil
}

// checkMemory reports whether mem can hold a ring at all.
func checkMemory(mem []byte) error {
	if CheckCapacity(len(mem)-ControlBytes, CapacityMin, CapacityMax) != nil {
		return fmt.Errorf("%w: memory of %d bytes, want %d and a power of two from %d to %d", ErrFormat, len(mem),
			ControlBytes, CapacityMin, CapacityMax)
	}
	if !aligned.Is(mem, Alignment) {
		return fmt.Errorf("%w: memory that doesn't start at a multiple of %d bytes", ErrFormat, Alignment)
	}
	return nil
}

// view is one side's own description of the ring's memory. Immutable. The capacity
// comes from the length of the slice, never from a word inside it.
type view struct {
	memory   memory // the data area
	mask     uint64 // capacity - 8: a position & mask is the index of a whole word, always
	shift    uint   // log2 of the capacity
	capacity uint64
	maxBody  uint64 // maxRecord(capacity)
	line     uint64 // lineOf(capacity)
	ctl      *control
	data     []byte // the data area again, as a slice, off the event path
}

// attach checks that mem was formatted as a ring and gives its view and the
// position of the first record.
func attach(mem []byte) (v view, start uint64, err error) {
	if err := checkMemory(mem); err != nil {
		return view{}, 0, err
	}
	ctl := controlOf(mem)
	// SYNC POINT ring-formatted: pairs with the last store of Init.
	if format := atomic.LoadUint64(&ctl.identity.format); format != formatWord {
		return view{}, 0, fmt.Errorf("%w: format word %#x, want %#x (version %d)", ErrFormat, format,
			uint64(formatWord), formatVersion)
	}
	data := mem[ControlBytes:]
	capacity := atomic.LoadUint64(&ctl.identity.capacity)
	if capacity != uint64(len(data)) {
		return view{}, 0, fmt.Errorf("%w: capacity word %d in memory for %d", ErrFormat, capacity, len(data))
	}
	start = atomic.LoadUint64(&ctl.identity.start)
	if start%headerBytes != 0 {
		return view{}, 0, fmt.Errorf("%w: start position %d, want a multiple of %d", ErrFormat, start, headerBytes)
	}
	capacity = uint64(len(data))
	return view{
		memory:   memoryOf(data),
		mask:     capacity - headerBytes,
		shift:    uint(bits.TrailingZeros64(capacity)),
		capacity: capacity,
		maxBody:  maxRecord(capacity),
		line:     lineOf(capacity),
		ctl:      ctl,
		data:     data,
	}, start, nil
}

// word is the header word at a position.
func (v *view) word(position uint64) *uint64 { return v.memory.word(position & v.mask) }

// lineUp rounds a position up to the next line.
func (v *view) lineUp(position uint64) uint64 { return (position + v.line - 1) &^ (v.line - 1) }

// slot is the index of that word in words.
func (v *view) slot(position uint64) uint64 { return position & v.mask / headerBytes }

// acquire takes one side of the ring for good. If two processes try, the swap succeeds for one; it orders nothing
// else.
func acquire(owner *uint64, side string) error {
	if !atomic.CompareAndSwapUint64(owner, 0, sideTaken) {
		return fmt.Errorf("%w: %s, owner word %d: a ring is opened once on each side until Init", ErrTaken, side,
			atomic.LoadUint64(owner))
	}
	return nil
}
