// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps size bytes of fd from its start. With m.huge the address is a
// multiple of a huge page's size: the kernel maps a huge page as one only where
// address and offset agree modulo its size, and it doesn't choose such an address
// by itself.
func mapFile(fd, size int, m mapping) ([]byte, error) {
	prot, flags := m.bits()
	if m.huge {
		return mapAligned(fd, size, prot, flags)
	}
	at, err := unix.MmapPtr(fd, 0, nil, uintptr(size), prot, flags)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(at), size), nil
}

// mapAligned maps at a multiple of a huge page's size: it reserves address space with
// room to align in, maps over the aligned part, and gives the two ends back.
func mapAligned(fd, size, prot, flags int) ([]byte, error) {
	room := uintptr(size) + hugePageBytes
	base, err := unix.MmapPtr(-1, 0, nil, room, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	before := -uintptr(base) & (hugePageBytes - 1)
	aligned := unsafe.Add(base, before)
	at, err := unix.MmapPtr(fd, 0, aligned, uintptr(size), prot, flags|unix.MAP_FIXED)
	if err != nil {
		_ = unix.MunmapPtr(base, room)
		return nil, err
	}
	if before != 0 {
		_ = unix.MunmapPtr(base, before)
	}
	if after := hugePageBytes - before; after != 0 {
		_ = unix.MunmapPtr(unsafe.Add(aligned, size), after)
	}
	return unsafe.Slice((*byte)(at), size), nil
}

// unmapFile ends a mapping that mapFile made.
func unmapFile(mem []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)))
}

// alignedBytes is zeroed heap memory of n bytes at a multiple of align, a power
// of two. The Go heap doesn't move, so the alignment lasts.
func alignedBytes(n, align int) []byte {
	mem := make([]byte, n+align)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & uintptr(align-1))
	return mem[skip : skip+n : skip+n]
}

// startOf is the address of a slice's first byte.
func startOf(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }
