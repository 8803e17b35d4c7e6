// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/race"
)

// A span is records side by side, as they stand in the data area: each behind a word whose lower half is its length,
// and padded to 8 bytes. Who passes many records on copies spans: that takes a fraction of the time of one copy each.

// NextSpan is Next for records that stand side by side: as many of the next ones as accept takes, and as have room in
// most bytes with what is around them, in place. The upper halves of the words in front of them may hold anything. It
// returns nil where only Next knows what to do: at padding, the end, damage, a record that was published alone, or at
// nothing. accept sees each record before it is returned; one that it doesn't take is the next one.
//
// The producer's process can still write to what is returned, as to what Next returns, and so to the lengths: who
// doesn't trust it copies the span and follows the lengths in the copy.
func (c *Consumer) NextSpan(most int, accept func(body []byte) bool) []byte {
	from := c.position
	for {
		// SYNC POINT record-published: as in Next.
		index := c.position & c.mask
		word := c.memory.word(index)
		c.probe.step(loadHeader, index/headerBytes)
		header := atomic.LoadUint64(word)
		length := header & lengthMask
		next := c.position + headerBytes + alignUp(length)
		// Bounded as in Next.
		if header&^lengthMask != c.expect || length > c.maxBody || next-c.position > c.bound-c.position ||
			next-from > uint64(most) {
			break
		}
		race.Acquire(word)
		if !accept(c.memory.body(index+headerBytes, length)) {
			break
		}
		c.position = next
	}
	if c.position == from {
		return nil
	}
	return c.memory.body(from&c.mask, c.position-from)
}

// pieceMax is how much of a span is looked through before it is copied: it is in the cache then.
const pieceMax = 16 << 10

// StageSpan stages the records of a span, one by one as Stage does, and copies them. The span ends before a word that
// is no length of a record of this ring, or behind which there is less: above MaxRecord, or with an upper half that
// isn't 0. It returns how many bytes of the span, and how many records, were staged; the error is Stage's for the one
// behind.
func (p *Producer) StageSpan(span []byte) (bytes, records int, err error) {
	for {
		n, count := p.stagePiece(span[bytes:])
		bytes, records = bytes+n, records+count
		if n > 0 {
			continue
		}
		length, ok := p.firstOf(span[bytes:])
		if !ok {
			return bytes, records, nil
		}
		rec, err := p.Stage(length)
		if err != nil {
			return bytes, records, err
		}
		copy(rec, span[bytes+headerBytes:])
		bytes, records = bytes+headerBytes+int(alignUp(uint64(length))), records+1
	}
}

// firstOf is the length of a span's first record.
func (p *Producer) firstOf(span []byte) (length int, ok bool) {
	if len(span) < headerBytes {
		return 0, false
	}
	n := binary.LittleEndian.Uint64(span)
	return int(n), n <= p.maxBody && alignUp(n) <= uint64(len(span)-headerBytes)
}

// stagePiece stages the first records of a span that lie within bound, side by side.
func (p *Producer) stagePiece(span []byte) (bytes, records int) {
	if p.claim != 0 || p.refuse == 0 {
		return 0, 0
	}
	most, size := min(p.bound-p.staged, uint64(len(span))), uint64(0)
	for size < pieceMax && most-size >= headerBytes {
		n := binary.LittleEndian.Uint64(span[size:])
		if n > p.maxBody || headerBytes+alignUp(n) > most-size {
			break
		}
		size += headerBytes + alignUp(n)
	}
	if size == 0 {
		return 0, 0
	}
	from := p.staged & p.mask
	if invariants.Enabled {
		p.check()
		p.stepBody(p.staged, size-headerBytes)
	}
	// The word at staged stays as it is: if nothing is staged yet, the consumer looks at it.
	copy(p.memory.body(from+headerBytes, size-headerBytes), span[headerBytes:size])
	for at := uint64(0); at < size; records++ {
		n := binary.LittleEndian.Uint64(span[at:])
		if header := p.header | n; p.first == 0 {
			p.first = header
		} else {
			p.probe.step(putHeader, (from+at)/headerBytes)
			*p.memory.word(from + at) = header
		}
		at += headerBytes + alignUp(n)
	}
	p.staged += size
	p.count += records
	return int(size), records
}
