// SPDX-License-Identifier: Apache-2.0

package node

import "unsafe"

// column visits the next column, of n elements without pointers. What is found in memory has been checked to be there:
// the header's total covers all columns.
func column[T uint8 | uint32 | uint64 | float64 | crossLink | Mesh](c *columns, v *[]T, n int) {
	var element T
	size := n * int(unsafe.Sizeof(element))
	at := c.at
	c.at += (size + mappedAlign - 1) &^ (mappedAlign - 1)
	if c.mem == nil {
		return
	}
	var there []T
	if n > 0 {
		there = unsafe.Slice((*T)(unsafe.Pointer(&c.mem[at:c.at][0])), n)
	}
	if c.write {
		copy(there, *v)
	} else {
		*v = there
	}
}

// entriesIn are the entries for which there is room in some memory that begins at a multiple of 8. They have no
// pointers, so it needn't be the heap's.
func entriesIn(mem []byte) []entry {
	return unsafe.Slice((*entry)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/int(unsafe.Sizeof(entry{})))
}
