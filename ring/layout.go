// SPDX-License-Identifier: Apache-2.0

package ring

import "structs"

// The layout of a ring in memory. docs/format/ring.md draws it byte by byte.
//
//	    0 ┌──────────────────────────────────────────────┐
//	      │ identity    format, capacity, start          │  written by Init only
//	  128 ├──────────────────────────────────────────────┤
//	      │ producer    owner                            │  written by the producer only
//	  256 ├──────────────────────────────────────────────┤
//	      │ consumer    head (lowest bit: closed), owner │  written by the consumer only
//	  384 ├──────────────────────────────────────────────┤
//	      │ data        capacity bytes: records          │  written by the producer only
//	      └──────────────────────────────────────────────┘
//
// Each writer has a pair of cache lines to itself, because processors fetch lines in pairs: a store by one side
// never invalidates a line that the other side uses for its own words.

// Sizes and offsets in bytes. Pins in layout_unsafe.go tie them at compile time to the
// structs below.
const (
	// ControlBytes is the size of the control area in front of the data area.
	ControlBytes = 3 * linePairBytes

	// Alignment is what the first byte of a ring's memory must be a multiple of.
	Alignment = linePairBytes

	linePairBytes = 128

	identityOffset = 0
	producerOffset = 128
	consumerOffset = 256
)

// formatWord identifies the layout: the letters "DISCORNG" read as a little-endian
// number, xor the version. Init stores it last, Open checks it first.
const (
	formatVersion = 3                  // 2 had no lineBit, 1 a copy of the tail in the producer's first word
	formatLetters = 0x474e524f43534944 // "DISCORNG"
	formatWord    = formatLetters ^ formatVersion<<56
)

// Capacities in bytes.
const (
	// CapacityMin is the smallest data area: four header slots.
	CapacityMin = 32

	// CapacityMax is the largest data area. It keeps every length in 32 bits with
	// room to spare.
	CapacityMax = 1 << 30
)

// control is the control area as it lies in memory. All words are read and written
// with package sync/atomic (or storeRelease), never plainly.
type control struct {
	_ structs.HostLayout

	identity identityLines
	producer producerLines
	consumer consumerLines
}

// identityLines identify the memory. Immutable after Init.
type identityLines struct {
	_ structs.HostLayout

	format   uint64 // formatWord; stored last by Init
	capacity uint64 // bytes in the data area; readers compare it with their own
	start    uint64 // position of the first record
	_        [linePairBytes - 3*8]byte
}

// producerLines belong to the producer.
type producerLines struct {
	_ structs.HostLayout

	_     uint64 // unused
	owner uint64 // 0: free, sideTaken: acquired
	_     [linePairBytes - 2*8]byte
}

// consumerLines belong to the consumer.
type consumerLines struct {
	_ structs.HostLayout

	head  uint64 // position of the first record not released; headClosed in the lowest bit
	owner uint64 // 0: free, sideTaken: acquired
	_     [linePairBytes - 2*8]byte
}

const (
	sideTaken  = 1 // owner word of a side that was acquired
	headClosed = 1 // in the head word: the consumer has closed; positions are multiples of 8
)

// A record in the data area is one header word and its body, both at multiples of
// 8 bytes:
//
//	 63        48 47    40 39    32 31                         0
//	┌────────────┬────────┬────────┬────────────────────────────┐
//	│ lap        │ 0xD5   │ L kind │ length of the body, bytes  │
//	└────────────┴────────┴────────┴────────────────────────────┘
//
// The whole word is 0 where no record has been published. The marker 0xD5 makes
// every header different from zero, even that of an empty record in lap 0. The lap
// is the low 16 bits of position / capacity: a header that was left over from an
// earlier lap is recognised. L is lineBit.
const (
	headerBytes = 8

	kindShift = 32
	lapShift  = 48

	markerBits = 0xD5 << 40

	kindData    = 1 << kindShift // a record
	kindPadding = 2 << kindShift // nothing: the bytes up to the end of the data area
	kindEnd     = 3 << kindShift // the producer has closed; nothing follows

	kindMask   = 0x7F << kindShift
	lengthMask = 1<<kindShift - 1

	// lineBit in the header of a record: the next header is at the next multiple of lineOf.
	lineBit = 0x80 << kindShift
)

// alignUp rounds a length up to a multiple of 8.
func alignUp(n uint64) uint64 { return (n + headerBytes - 1) &^ (headerBytes - 1) }

const (
	lineBytes = 64 // a cache line

	// lineCapacityMin is the smallest capacity with lines: what is left free behind a record is at most a 64th then.
	lineCapacityMin = 64 * lineBytes
)

// looksEvery is how many records that are published alone go by between two looks at whether the consumer keeps up: a
// look fetches its line.
const looksEvery = 256

// aloneMax is the size in bytes of the largest record that may leave the rest of a line free: of longer ones a line is
// a small part.
const aloneMax = 4096

// shortMax is the size in bytes of the largest short record. Longer ones leave the rest of a line free only in
// PublishAlone. A producer asks for the lines of the next record only after a longer one, and a consumer that waits
// after a short one looks at the next record's second line, too.
const shortMax = 256

// aheadMax is how many bytes are asked for before they are written: more would fill the caches and the queues to them.
const aheadMax = 4096

// lineOf is what the position behind a record with lineBit is rounded up to: a cache line, or, in small rings, a word.
func lineOf(capacity uint64) uint64 {
	if capacity < lineCapacityMin {
		return headerBytes
	}
	return lineBytes
}

// lapOf gives the lap bits of a header at position, for a data area of 1<<shift
// bytes.
func lapOf(position uint64, shift uint) uint64 { return position >> (shift & 63) << lapShift }

// maxRecord is the longest body that always finds room in an empty ring, wherever
// its index stands. In the worst case the padding before the record is one word
// shorter than the record, and one word must stay free behind it:
//
//	(need - 8) + need + 8 <= capacity   with   need = 8 + body
func maxRecord(capacity uint64) uint64 { return capacity/2 - headerBytes }
