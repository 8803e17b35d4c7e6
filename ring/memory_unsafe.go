// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"unsafe"

	"github.com/disco-sim/disco/internal/invariants"
)

// memory is the data area without the bounds checks that a slice makes on each use: they cost as much as the rest
// of a small record. Each method states the precondition that replaces them; the checked build asserts it.
type memory struct {
	base unsafe.Pointer // the first byte of the data area
	size uint64         // its length; only for the assertions
}

// memoryOf is the data area as memory. The caller has checked length and alignment.
func memoryOf(data []byte) memory {
	return memory{base: unsafe.Pointer(&data[0]), size: uint64(len(data))}
}

// word is the header word at an index. Precondition: index is a multiple of 8 below
// the capacity. A position & view.mask is one, whatever the position.
func (m memory) word(index uint64) *uint64 {
	if invariants.Enabled {
		invariants.Assert(index%headerBytes == 0 && index < m.size, "ring: header at index %d of %d", index, m.size)
	}
	return (*uint64)(unsafe.Add(m.base, index))
}

// body is the n bytes from an index on; nothing can be appended to them in place.
// Precondition: index + n is at most the capacity, without overflow.
func (m memory) body(index, n uint64) []byte {
	if invariants.Enabled {
		invariants.Assert(index <= m.size && n <= m.size-index, "ring: %d bytes at index %d of %d", n, index, m.size)
	}
	return unsafe.Slice((*byte)(unsafe.Add(m.base, index)), n)
}

// words is the four words from an index on. Precondition: as body, with n 32; index is a multiple of 8.
func (m memory) words(index uint64) *[4]uint64 {
	if invariants.Enabled {
		invariants.Assert(index%headerBytes == 0 && index <= m.size && 32 <= m.size-index,
			"ring: four words at index %d of %d", index, m.size)
	}
	return (*[4]uint64)(unsafe.Add(m.base, index))
}
