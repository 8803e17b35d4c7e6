// SPDX-License-Identifier: Apache-2.0

package bench

import "encoding/binary"

// NewPayload is a payload of n bytes that is neither zero nor regular.
func NewPayload(n int) []byte {
	b := make([]byte, n)
	x := uint64(n)*2862933555777941757 + 3037000493
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 24)
	}
	return b
}

// numberBytes is what stamp writes.
const numberBytes = 8

// stamp writes the number of an event into its payload, so that no two are the same.
// Payloads under 8 bytes stay as they are.
func stamp(b []byte, number uint64) {
	if len(b) >= numberBytes {
		binary.LittleEndian.PutUint64(b, number)
	}
}

// sum reads every byte of b: the sum of its words, modulo 2^64, the last one filled up
// with zeros.
func sum(b []byte) (s uint64) {
	var s0, s1, s2, s3 uint64
	for len(b) >= 64 {
		w := b[:64:64]
		s0 += binary.LittleEndian.Uint64(w) + binary.LittleEndian.Uint64(w[8:])
		s1 += binary.LittleEndian.Uint64(w[16:]) + binary.LittleEndian.Uint64(w[24:])
		s2 += binary.LittleEndian.Uint64(w[32:]) + binary.LittleEndian.Uint64(w[40:])
		s3 += binary.LittleEndian.Uint64(w[48:]) + binary.LittleEndian.Uint64(w[56:])
		b = b[64:]
	}
	for len(b) >= 8 {
		s0 += binary.LittleEndian.Uint64(b)
		b = b[8:]
	}
	var tail uint64
	for i, c := range b {
		tail |= uint64(c) << (8 * i)
	}
	return s0 + s1 + s2 + s3 + tail
}

// Check computes the sum of each stamped copy of a payload.
type Check struct {
	base    uint64
	stamped uint64 // 1: the number is part of the sum
}

// NewCheck makes the check of a payload, whose own stamp doesn't matter.
func NewCheck(payload []byte) Check {
	c := Check{base: sum(payload)}
	if len(payload) >= 8 {
		c.base -= binary.LittleEndian.Uint64(payload)
		c.stamped = 1
	}
	return c
}

// at is the sum of the copy with this number.
func (c Check) at(number uint64) uint64 { return c.base + c.stamped*number }

// first is the sum of all copies numbered below n.
func (c Check) first(n uint64) uint64 {
	a, b := n, n-1
	if a%2 == 0 {
		a /= 2
	} else {
		b /= 2
	}
	return n*c.base + c.stamped*a*b
}

// Verify reads all of a payload and compares it with the copy with this number.
func (c Check) Verify(job string, payload []byte, number uint64) error {
	if got, want := sum(payload), c.at(number); got != want {
		return damaged(job, got, want, 1)
	}
	return nil
}
