// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"fmt"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/race"
)

// Consumer is the reading side of a ring. One goroutine at a time may call it.
// Records that Next returns may be read until Release; after that their bytes
// belong to the producer again (the checked build overwrites them). See the
// package's example.
//
// Bytes in [released, position) belong to the consumer until Release.
type Consumer struct {
	probe probe
	view  // immutable

	// Owned by the consumer.
	position uint64 // behind the last record that Next returned
	alone    uint64 // behind the last header with lineBit; another position if there was none
	second   uint64 // from a header to the other word that Look loads
	bound    uint64 // Invariant: position never passes it; as computed by turn, or less
	expect   uint64 // header word of a record up to bound, without its length
	released uint64 // the head as stored
	same     uint64 // header of the last record that NextAlone returned, if it was in this lap; else no header
	length   uint64 // of that record's body
	err      error  // why no more records come, nil while they may
	closed   bool   // Close has been called
}

// OpenConsumer acquires the reading side of the ring in mem, which Init has formatted. It fails with ErrTaken when
// it was acquired before, by any process, and with ErrFormat when mem is not such a ring.
func OpenConsumer(mem []byte) (*Consumer, error) {
	v, start, err := attach(mem)
	if err != nil {
		return nil, err
	}
	if err := acquire(&v.ctl.consumer.owner, "consumer"); err != nil {
		return nil, err
	}
	c := &Consumer{view: v, position: start, alone: start - 1, released: start}
	c.second = c.line
	c.turn()
	return c, nil
}

// Next returns the next published record, in place, or nil, nil when there is none now. An empty record is not nil.
// The slice may be read until Release; a write to it is seen by its readers only.
//
// It returns ErrClosed once the producer has closed and all its records have been returned, or once this side has
// closed, and a wrapped ErrCorrupt when the next word of the ring can't be a header.
func (c *Consumer) Next() ([]byte, error) {
	// SYNC POINT record-published: pairs with the store in Publish. A header that
	// isn't zero says that its body, the records staged behind it and the cleared
	// word behind the last of them are complete.
	index := c.position & c.mask
	word := c.memory.word(index)
	c.probe.step(loadHeader, index/headerBytes)
	header := atomic.LoadUint64(word)
	length := header & lengthMask
	next := c.position + headerBytes + alignUp(length)
	if header&lineBit != 0 {
		next = c.lineUp(next)
		c.alone, c.second, c.same = next, c.secondOf(length), noHeader
		if next-c.position > c.line {
			// Whoever decodes the record needs its second line too: it is on its way then. The value isn't used.
			at := c.position + c.line
			c.probe.step(touchLine, c.slot(at))
			atomic.LoadUint64(c.word(at))
		}
	}
	// Loaded once, bounded by our own capacity and position before it is used: up to bound the record ends within
	// the data area, and with it not more is unreleased than a producer can have published. A header of 0 differs
	// from expect too.
	if header&^(lengthMask|lineBit) != c.expect || length > c.maxBody || next-c.position > c.bound-c.position {
		return c.nextSlow(header)
	}
	race.Acquire(word)
	c.position = next
	return c.memory.body(index+headerBytes, length), nil
}

// NextAlone is Next in fewer steps for a record that was published alone, by a producer that saw this side wait for
// each. It returns nil for everything else, which Next tells apart.
func (c *Consumer) NextAlone() []byte {
	index := c.position & c.mask
	word := c.memory.word(index)
	c.probe.step(loadHeader, index/headerBytes)
	// The length is this side's own, and the header is only compared. Records mostly are as long as the one before, and
	// what the caller does with one then needn't wait until its line is there: the processor begins with it beforehand.
	if header := atomic.LoadUint64(word); header != c.same && !c.differs(header) {
		return nil
	}
	next := c.lineUp(c.position + headerBytes + alignUp(c.length))
	if next-c.position > c.bound-c.position { // as in Next
		return nil
	}
	// SYNC POINT record-published: as in Next.
	race.Acquire(word)
	c.position, c.alone = next, next
	return c.memory.body(index+headerBytes, c.length)
}

// differs takes over another header than the one before, and reports whether it is that of a record alone. It is
// bounded as in Next.
func (c *Consumer) differs(header uint64) bool {
	length := header & lengthMask
	if header&^lengthMask != c.expect|lineBit || length > c.maxBody {
		return false
	}
	c.same, c.length, c.second = header, length, c.secondOf(length)
	return true
}

// noHeader is a word that no header is, and that differs from 0.
const noHeader = ^uint64(0)

// secondOf is c.second after a record alone of length bytes: its second line, if the next one will be as short. The
// lines of a long one are better left to their writer until they are there: each load takes one from it. Where the
// writer gives lines away the second one is near by then, and a load in vain costs more.
func (c *Consumer) secondOf(length uint64) uint64 {
	if length > shortMax || demotes {
		return 0
	}
	return c.line
}

// turn computes the header of a record at the present position, and how far it may reach: to the end of the data
// area, and not so far that more is unreleased than a producer can have published. Both stay true until the next
// lap; a Release in between only makes bound less than it could be.
func (c *Consumer) turn() {
	c.expect, c.same = kindData|markerBits|lapOf(c.position, c.shift), noHeader
	toEnd, held := c.capacity-c.position&c.mask, c.position-c.released
	c.bound = c.position + min(toEnd, c.capacity-headerBytes-held)
}

// nextSlow deals with every header that is not a record up to bound: nothing, the
// first record of a lap or behind the old bound, padding, the end mark, damage, and
// any header after one of the last two.
func (c *Consumer) nextSlow(header uint64) ([]byte, error) {
	if header == 0 || c.err != nil {
		return nil, c.err
	}
	race.Acquire(c.word(c.position))
	c.turn()
	lap, index := lapOf(c.position, c.shift), c.position&c.mask
	toEnd := c.capacity - index
	length := header & lengthMask
	next := c.position + headerBytes + alignUp(length)
	if header&lineBit != 0 {
		next = c.lineUp(next)
	}
	switch {
	case header&^(lengthMask|lineBit) == c.expect && length <= c.maxBody && next-c.position <= c.bound-c.position:
		c.position = next
		return c.memory.body(index+headerBytes, length), nil
	case header == kindEnd|markerBits|lap:
		return nil, c.stop(ErrClosed)
	case header == kindPadding|markerBits|lap|(toEnd-headerBytes) && length <= c.maxBody && toEnd <= c.bound-c.position:
		// A producer pads only before a record that is longer than the padding, so
		// padding is never as long as the data area and never follows on padding.
		c.position += toEnd
		c.turn()
		return c.Next()
	}
	return nil, c.stop(c.corrupt(header))
}

// corrupt reports a header that no correct producer writes.
func (c *Consumer) corrupt(header uint64) error {
	return fmt.Errorf("%w: header %#016x (kind %d, %d bytes) at position %d, index %d, want kind 1 to 3, marker and "+
		"lap %#x, at most %d bytes and within %d",
		ErrCorrupt, header, header&kindMask>>kindShift, header&lengthMask, c.position, c.position&c.mask,
		(markerBits|lapOf(c.position, c.shift))>>kindShift, c.maxBody, c.capacity)
}

// stop makes every later Next return err: nothing is within bound any more.
func (c *Consumer) stop(err error) error {
	c.err, c.bound = err, c.position
	return err
}

// Pending reports whether Next would return a record, the end or an error. A consumer calls it after it has armed
// its doorbell and before it parks.
func (c *Consumer) Pending() bool {
	// SYNC POINT record-published: only compared; Next loads the header itself.
	// SYNC POINT park-handshake: pairs with the store in PublishFenced.
	return c.err != nil || atomic.LoadUint64(c.word(c.position)) != 0
}

// Look is Pending for a consumer that looks again and again and calls Next as soon as Look returns true. It also loads
// a word of the line behind the one with the header, each time, unless secondOf says that it does better without: the
// two lines of a record then come together and not one after the other.
func (c *Consumer) Look() bool {
	// SYNC POINT record-published: only compared; Next loads the header itself.
	header := atomic.LoadUint64(c.word(c.position))
	if !race.Enabled { // it may be written at the same time; the value isn't used
		atomic.LoadUint64(c.word(c.position + c.second))
	}
	return header != 0 || c.err != nil
}

// Release gives the bytes of all records returned so far back to the producer, with
// one store. They must not be used any more.
func (c *Consumer) Release() {
	if c.position == c.released || c.closed {
		return
	}
	if invariants.Enabled {
		c.mangle()
	}
	c.released = c.position
	// SYNC POINT room-released: pairs with the load of the head in refresh. All
	// reads of the released bytes come before it.
	race.ReleaseMerge(&c.ctl.consumer.head)
	c.probe.step(storeHead, 0)
	storeRelease(&c.ctl.consumer.head, c.position)
}

// Check compares the words that only this side writes, the head and the owner word, with what it wrote there. A
// wrapped ErrCorrupt means that another process has overwritten them: an older head, for example, looks to the
// producer like a ring that is full for ever. Check loads two words: call it when there is nothing else to do.
func (c *Consumer) Check() error {
	want := c.released
	if c.closed {
		want |= headClosed
	}
	head, owner := atomic.LoadUint64(&c.ctl.consumer.head), atomic.LoadUint64(&c.ctl.consumer.owner)
	if head == want && owner == sideTaken {
		return nil
	}
	return c.stop(fmt.Errorf("%w: the consumer's own words were overwritten: head word %#x and owner %d, want %#x "+
		"and %d",
		ErrCorrupt, head, owner, want, sideTaken))
}

// ReleaseDue reports whether the records returned since the last Release hold more than an eighth of the ring. If a
// consumer reads on without releasing, the ring fills up, and the producer waits while it is emptied: the two
// alternate instead of working in parallel, which costs half of the rate.
func (c *Consumer) ReleaseDue() bool { return c.position-c.released > c.capacity/8 }

// mangle overwrites the bytes in [released, position): a reader that kept a slice sees the damage at once.
func (c *Consumer) mangle() {
	invariants.Assert(c.position-c.released <= c.capacity-headerBytes, "ring: %d bytes to release in a ring of %d",
		c.position-c.released, c.capacity)
	from, to := c.released&c.mask, c.position&c.mask
	if from < to {
		invariants.Mangle(c.data[from:to])
		return
	}
	invariants.Mangle(c.data[from:])
	invariants.Mangle(c.data[:to])
}

// MaxRecord is the length of the longest record that the ring takes.
func (c *Consumer) MaxRecord() int { return int(c.maxBody) }

// Alone reports whether the record that Next returned last was published alone, by a producer that saw this side wait
// for each. Next would most likely find nothing then, and take the line from the producer, which needs it for
// the next record: a consumer does well to do what the record asks for first.
func (c *Consumer) Alone() bool { return c.alone == c.position }

// Position is the position behind the last record that Next returned.
func (c *Consumer) Position() uint64 { return c.position }

// Close releases everything and marks the ring as closed by the consumer: nothing will be read any more, and the
// producer sees it: its Claim returns ErrClosed as soon as it loads the head again. Next returns ErrClosed from
// then on. Closing again does nothing.
func (c *Consumer) Close() {
	if c.closed {
		return
	}
	c.Release()
	c.closed = true
	// SYNC POINT room-released: the closed bit travels in the head word.
	race.ReleaseMerge(&c.ctl.consumer.head)
	c.probe.step(storeHead, 0)
	storeRelease(&c.ctl.consumer.head, c.released|headClosed)
	if c.err == nil {
		c.stop(ErrClosed)
	}
}
