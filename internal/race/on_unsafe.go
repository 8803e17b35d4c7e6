// SPDX-License-Identifier: Apache-2.0

//go:build race

package race

import (
	"runtime"
	"unsafe"
)

// Enabled is true in a build with -race.
const Enabled = true

// seenEnd is the end of the addresses that the detector watches on 64-bit Linux;
// the Go heap lies below it, mappings made by the kernel's choice lie above.
const seenEnd = 0xe0_0000_0000

// edges stand on the heap for the words of mapped memory, because the detector
// keeps nothing for addresses that it doesn't watch. A word's edge is chosen by its
// place in its page, which is the same in every mapping of that page. Words of
// different pages share edges, which orders more than need be.
var edges = new([pageBytes / edgeBytes]uint64)

const (
	pageBytes = 4096
	edgeBytes = 8
)

// Acquire notes that what went before every ReleaseMerge on the same word comes
// before what this goroutine does next.
func Acquire[T uint32 | uint64](word *T) {
	if edge := edgeOf(uintptr(unsafe.Pointer(word))); edge != nil {
		runtime.RaceAcquire(edge)
	}
}

// ReleaseMerge notes that what this goroutine has done comes before what follows a
// later Acquire on the same word, beside everything noted on it earlier.
func ReleaseMerge[T uint32 | uint64](word *T) {
	if edge := edgeOf(uintptr(unsafe.Pointer(word))); edge != nil {
		runtime.RaceReleaseMerge(edge)
	}
}

// edgeOf is what stands for the word at address, nil when the detector sees it.
func edgeOf(address uintptr) unsafe.Pointer {
	if address < seenEnd {
		return nil
	}
	return unsafe.Pointer(&edges[address%pageBytes/edgeBytes])
}
