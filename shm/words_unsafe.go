// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// wordAt32 is the 32-bit word at offset in mem, as an atomic. A word outside mem
// or off its alignment is our own bug: it panics.
func wordAt32(mem []byte, offset int) *atomic.Uint32 {
	return (*atomic.Uint32)(wordAt(mem, offset, 4))
}

// wordAt64 is the 64-bit word at offset in mem, as an atomic; likewise.
func wordAt64(mem []byte, offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(wordAt(mem, offset, 8))
}

// blockWordsAt is the changing part of the block header at offset in body.
func blockWordsAt(body []byte, offset int) *blockWords {
	return (*blockWords)(wordAt(body, offset, int(unsafe.Sizeof(blockWords{}))))
}

func wordAt(mem []byte, offset, size int) unsafe.Pointer {
	if offset < 0 || offset > len(mem)-size {
		panic(fmt.Sprintf("shm: word of %d bytes at offset %d of %d", size, offset, len(mem)))
	}
	at := unsafe.Pointer(&mem[offset])
	if uintptr(at)&uintptr(size-1) != 0 {
		panic(fmt.Sprintf("shm: word of %d bytes at address %p", size, at))
	}
	return at
}

// aligned reports whether mem starts at a multiple of align.
func aligned(mem []byte, align int) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%uintptr(align) == 0
}
