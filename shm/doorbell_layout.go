// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import "structs"

// The layout of a doorbell, version 1: one word alone on a pair of cache lines.
//
//	offset size
//	   0     4   state: bit 0 armed, bits 1 to 31 the number of the arming
//	   4   124   zero
//	 128
//
// All zeros is a doorbell that was never armed, so new memory needs no
// formatting. The consumer stores the word; a producer that finds it armed clears
// bit 0. docs/doorbell.md has the protocol.
const (
	DoorbellBytes = 128 // memory of one doorbell; it starts at a multiple of that
	offsetState   = 0

	stateArmed = 1 // bit 0
	stateStep  = 2 // from one arming to the next
)

// doorbellLayout mirrors the drawing above for the compiler (layout_unsafe.go).
type doorbellLayout struct {
	_     structs.HostLayout
	state uint32
	_     [DoorbellBytes - 4]byte
}
