// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// guardBytes is the address space that a Guard cycles through. After so many bytes an address
// is lent again, and a slice that was kept since then is readable for the length of one call.
const guardBytes = 16 << 20

// Guard lends memory that can't be accessed once it has been given back: a read or a write
// then is a fault, which runtime/debug.SetPanicOnFault turns into a panic with its address.
// What is lent is mapped twice: writable for the engine, which fills it, and read-only for
// the handler.
//
// It makes two system calls for each time that memory is lent. All methods but Lent belong to
// one goroutine.
type Guard struct {
	fill, view []byte
	old        [][]byte // views that became too small: their addresses stay reserved
	page       int
	at, end    int      // of what is lent, in view
	numbers    []uint64 // by page of view: 1 + number of the Lend that it was last used by
	next       uint64
}

// NewGuard reserves the memory.
func NewGuard() (*Guard, error) {
	g := &Guard{page: os.Getpagesize()}
	return g, g.reserve(guardBytes)
}

func (g *Guard) reserve(size int) error {
	fd, err := unix.MemfdCreate("disco-guard", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("shm: guarded memory: %w%s", err, Advice(err))
	}
	defer unix.Close(fd) // the mappings keep the memory
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		return fmt.Errorf("shm: guarded memory of %d bytes: %w%s", size, err, Advice(err))
	}
	if g.fill, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("shm: guarded memory of %d bytes: %w%s", size, err, Advice(err))
	}
	if g.view, err = unix.Mmap(fd, 0, size, unix.PROT_NONE, unix.MAP_SHARED); err != nil {
		_ = unix.Munmap(g.fill)
		g.fill = nil
		return fmt.Errorf("shm: guarded memory of %d bytes: %w%s", size, err, Advice(err))
	}
	g.numbers, g.at, g.end = make([]uint64, size/g.page), 0, 0
	return nil
}

// Lend makes n bytes accessible, n > 0: write, whose contents are what was there before,
// and read. number counts the calls, from 0. What was lent before must have ended.
func (g *Guard) Lend(n int) (write, read []byte, number uint64, err error) {
	size := (n + g.page - 1) / g.page * g.page
	if size > len(g.view)/4 {
		fill, view := g.fill, g.view
		if err := g.reserve(8 * size); err != nil {
			return nil, nil, 0, err
		}
		g.old = append(g.old, view)
		if err := unix.Munmap(fill); err != nil {
			return nil, nil, 0, fmt.Errorf("shm: guarded memory: %w", err)
		}
	}
	if g.at = g.end; g.at+size > len(g.view) {
		g.at = 0
	}
	g.end = g.at + size
	number = g.next
	g.next++
	for p := g.at / g.page; p < g.end/g.page; p++ {
		g.numbers[p] = number + 1
	}
	if err := unix.Mprotect(g.view[g.at:g.end], unix.PROT_READ); err != nil {
		return nil, nil, 0, fmt.Errorf("shm: guarded memory can't be lent: %w%s", err, Advice(err))
	}
	return g.fill[g.at : g.at+n : g.at+n], g.view[g.at : g.at+n : g.at+n], number, nil
}

// End takes back what was lent last.
func (g *Guard) End() error {
	if err := unix.Mprotect(g.view[g.at:g.end], unix.PROT_NONE); err != nil {
		return fmt.Errorf("shm: guarded memory can't be taken back: %w%s", err, Advice(err))
	}
	return nil
}

// Lent finds the number of the Lend that an address was last used by.
func (g *Guard) Lent(address uintptr) (number uint64, ok bool) {
	offset := address - startOf(g.view)
	if offset >= uintptr(len(g.view)) {
		return 0, false
	}
	number = g.numbers[offset/uintptr(g.page)]
	return number - 1, number != 0
}

// Close gives the memory back. The contents of slices that were kept are then undefined.
func (g *Guard) Close() error {
	if g.view == nil {
		return nil
	}
	var err error
	for _, mem := range append(g.old, g.view, g.fill) {
		err = errors.Join(err, unix.Munmap(mem))
	}
	g.old, g.view, g.fill = nil, nil, nil
	return err
}
