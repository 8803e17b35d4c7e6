// SPDX-License-Identifier: Apache-2.0

// Package aligned gives heap memory that starts at a multiple of a power of two,
// and tells whether a slice does. Shared layouts count in cache-line pairs from
// their first byte, and a plain make([]byte, n) may start in the middle of one.
//
// Guarantee: Bytes returns zeroed memory of exactly the length and capacity asked
// for; it stays where it is, because the Go heap doesn't move.
//
//	mem := aligned.Bytes(ring.Size(1<<16), 128)
//	ok := aligned.Is(mem, 128)
package aligned

import (
	"fmt"
	"unsafe"
)

// Bytes allocates size zeroed bytes whose first one lies at a multiple of
// alignment, which must be a power of two.
func Bytes(size, alignment int) []byte {
	if size < 0 || alignment <= 0 || alignment&(alignment-1) != 0 {
		panic(fmt.Sprintf("aligned: %d bytes at a multiple of %d, want size >= 0 and a power of two", size, alignment))
	}
	if size == 0 {
		return []byte{}
	}
	raw := make([]byte, size+alignment-1)
	skip := int(-uintptr(unsafe.Pointer(&raw[0])) & uintptr(alignment-1))
	return raw[skip : skip+size : skip+size]
}

// Is tells whether b starts at a multiple of alignment, a power of two. An empty
// slice has no first byte and is never aligned.
func Is(b []byte, alignment int) bool {
	return len(b) > 0 && uintptr(unsafe.Pointer(&b[0]))&uintptr(alignment-1) == 0
}
