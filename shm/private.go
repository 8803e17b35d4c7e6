// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MapPrivate maps size bytes of memory, all zero, that this process has for itself and the garbage collector doesn't
// know: for what is large, is written at once, and has no pointers to the heap. With huge it is asked for in huge
// pages, where the system has some: to get it takes a third of the time then, and it is given 2 MiB at a time. size is
// a multiple of 2 MiB. The memory stays until UnmapPrivate.
func MapPrivate(size int, huge bool) ([]byte, error) {
	if size <= 0 || size%hugePageBytes != 0 {
		return nil, fmt.Errorf("shm: private memory of %d bytes, want a multiple of %d", size, hugePageBytes)
	}
	mem, err := mapAligned(-1, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("shm: private memory of %d bytes: %w%s", size, err, Advice(err))
	}
	if huge {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a kernel without them refuses it
	}
	return mem, nil
}

// Fill has the system give memory of MapPrivate now that is all there, 2 MiB after the other while more says so; false:
// not all of it. The first access to each page takes no time then. A system older than Linux 5.14 can't.
func Fill(mem []byte, more func() bool) bool {
	for len(mem) > 0 {
		n := min(len(mem), hugePageBytes)
		if !more() || unix.Madvise(mem[:n], unix.MADV_POPULATE_WRITE) != nil {
			return false
		}
		mem = mem[n:]
	}
	return true
}

// UnmapPrivate gives back what MapPrivate has mapped, which nobody uses any more.
func UnmapPrivate(mem []byte) error { return unmapFile(mem) }
