// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// word64 is the 64-bit word at offset in mem, as an atomic.
func word64(mem []byte, offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(wordAt(mem, offset, 8))
}

// word32 is the 32-bit word at offset in mem, as an atomic.
func word32(mem []byte, offset int) *atomic.Uint32 {
	return (*atomic.Uint32)(wordAt(mem, offset, 4))
}

func wordAt(mem []byte, offset, size int) unsafe.Pointer {
	if offset < 0 || offset > len(mem)-size || offset%size != 0 {
		panic(fmt.Sprintf("bench: word of %d bytes at offset %d of %d", size, offset, len(mem)))
	}
	return unsafe.Pointer(&mem[offset])
}

// address is where a word lies, for the futex calls.
func address(word *atomic.Uint32) uintptr { return uintptr(unsafe.Pointer(word)) }
