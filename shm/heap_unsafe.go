// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// arenaBytes is what the Go runtime takes its heap from the system by, one arena behind the other
	// (runtime/malloc.go).
	arenaBytes = 64 << 20

	// heapPeriod is how often a heap that grows is looked at: what it has taken meanwhile has small pages.
	heapPeriod = 10 * time.Millisecond

	// reserveLeast is the least that ReserveHeap reserves.
	reserveLeast = 32 << 20
)

// HugeHeap asks for huge pages for what the garbage-collected heap of this process grows by, once it has 64 MiB, until
// stop is called, which waits for the goroutine that does. It is for programs whose heap becomes large and who may be
// ended meanwhile: to give back a gigabyte takes the system 0.2 s in pages of 4 KiB, and 0.01 s in huge ones, and
// whoever waits for the process waits for that. A system without huge pages does without.
func HugeHeap() (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		first := uintptr(unsafe.Pointer(new([1 << 10]byte))) &^ (arenaBytes - 1)
		look := time.NewTicker(heapPeriod)
		defer look.Stop()
		for before := uint64(arenaBytes); ; {
			select {
			case <-ending:
				return
			case <-look.C:
			}
			if total := mappedBytes(); total > before {
				adviseHuge(first, uintptr(total))
				before = total
			}
		}
	}()
	return func() {
		close(ending)
		<-ended
	}
}

// reserved is whether ReserveHeap has reserved something.
var reserved atomic.Bool

// ReserveHeap has the Go runtime get so many bytes of address space for its heap now, and asks for huge pages for
// them. No page is taken before the heap has something there. It is for programs that know how much they will have
// for long, which they reach in no order: at random places of 200 MB, with small pages, the processor looks for an
// address's page as long as for what is there. Less than reserveLeast, which its caches of pages hold, isn't worth
// it, and nothing is reserved then; neither is more than the machine has left, nor anything a second time: what the
// heap had before would be written over with zeros, and so be taken. A system without huge pages does without. Call
// it before the heap is large: it collects garbage.
func ReserveHeap(bytes int64) {
	if bytes < reserveLeast || bytes > AvailableBytes() || limitsAddresses() || reserved.Swap(true) {
		return
	}
	mem := make([]byte, bytes) // as a rule fresh from the system: then the runtime doesn't write zeros
	first := (uintptr(unsafe.Pointer(&mem[0])) + hugePageBytes - 1) &^ (hugePageBytes - 1)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, first, uintptr(bytes)&^(hugePageBytes-1)-hugePageBytes, unix.MADV_HUGEPAGE)
	runtime.KeepAlive(mem)
	debug.FreeOSMemory() // the heap's again, and the runtime knows that no page of it is taken
}

// limitsAddresses tells whether somebody has limited the address space of this process (ulimit -v): then no more of it
// is taken than is needed.
func limitsAddresses() bool {
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_AS, &limit) != nil || limit.Cur != unix.RLIM_INFINITY
}

// mappedBytes is what the Go runtime has of the system: at least the heap.
func mappedBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// adviseHuge asks for huge pages for what is mapped from first on, up to the end of an arena. What isn't mapped there
// makes the system return an error, after it has done the rest; anything else that is mapped there gets them as well,
// which changes nothing that it could see.
func adviseHuge(first, bytes uintptr) {
	bytes = (bytes + arenaBytes - 1) &^ (arenaBytes - 1)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, first, bytes, unix.MADV_HUGEPAGE)
}
