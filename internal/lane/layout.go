// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"structs"

	"github.com/disco-sim/disco/ring"
)

// The layout of a lane in the body of its segment. docs/format/lane.md draws it
// byte by byte.
//
//	    0 ┌──────────────────────────────────────────────┐
//	      │ identity    format, sizes of the two rings   │  written by Format only
//	  128 ├──────────────────────────────────────────────┤
//	      │ promise     level and position, epoch        │  written by the sender only
//	  256 ├──────────────────────────────────────────────┤
//	      │ forward ring: envelopes                      │  sender to receiver
//	      ├──────────────────────────────────────────────┤
//	      │ return ring: blocks that were read           │  receiver to sender
//	      └──────────────────────────────────────────────┘

// Sizes and offsets in bytes. layout_unsafe.go ties them to the structs below.
const (
	linePairBytes = 128

	identityOffset = 0
	promiseOffset  = 128
	forwardOffset  = 256

	// Alignment is what the first byte of a lane's memory must be a multiple of.
	Alignment = ring.Alignment
)

// formatWord identifies the layout: the letters "DISCOLAN" read as a little-endian
// number, xor the version. Format stores it last, Open checks it first.
const (
	formatVersion = 2                  // 1 had return rings that could be full
	formatLetters = 0x4e414c4f43534944 // "DISCOLAN"
	formatWord    = formatLetters ^ formatVersion<<56
)

// One returned block is a record of returnBytes in the return ring: block number
// (u32), four zero bytes, seq (u64).
const (
	returnBytes = 16

	// BlocksMax is the largest number of blocks a pool may have to be used over
	// lanes: a return ring for all of them stays below ring.CapacityMax.
	BlocksMax = 1 << 24

	// RingBytesMin is the smallest ring in a lane: whole cache-line pairs, so that
	// what lies behind it is aligned as well.
	RingBytesMin = linePairBytes
)

// control is the part of a lane in front of its rings as it lies in memory. All
// words are read and written with package sync/atomic.
type control struct {
	_ structs.HostLayout

	identity identityLines
	promise  promiseLines
}

// identityLines identify the memory. Immutable after Format.
type identityLines struct {
	_ structs.HostLayout

	format       uint64 // formatWord; stored last by Format
	ringBytes    uint64 // capacity of the forward ring
	returnBlocks uint64 // blocks that the return ring holds
	_            [linePairBytes - 3*8]byte
}

// promiseLines are the promise slot. They belong to the sender.
type promiseLines struct {
	_ structs.HostLayout

	// levelAt holds the level in its low half and, in its high half, the low 32
	// bits of (position / 8) of the forward ring up to which the receiver must have
	// read before the bound holds for it.
	levelAt   uint64
	epochBits uint64 // binary64, sign bit 0
	_         [linePairBytes - 2*8]byte
}

// returnCapacity is the capacity of a return ring that is never full: every block
// is in it at most once.
func returnCapacity(blocks int) int { return max(RingBytesMin, ring.CapacityFor(blocks, returnBytes)) }

// positionUnits gives the 32 bits of a position that travel in the promise slot.
func positionUnits(position uint64) uint32 { return uint32(position >> 3) }
