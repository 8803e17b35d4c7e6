// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"math"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The two futex operations. Neither has FUTEX_PRIVATE_FLAG: the sleeper and the
// waker are different processes, and the kernel must find the word by the file
// behind it instead of by its address.
const (
	futexOpWait = 0
	futexOpWake = 1

	wakeAll = math.MaxInt32
)

// futexWait sleeps while *word == value, at most for limit. It uses Syscall6, which
// informs the runtime that the thread blocks: with RawSyscall6 the first garbage
// collection would wait for this thread, and with it the whole process.
func futexWait(word *atomic.Uint32, value uint32, limit *unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait, uintptr(value),
		uintptr(unsafe.Pointer(limit)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// futexWake wakes up to count sleeping threads. It never blocks, so it may bypass the
// runtime.
func futexWake(word *atomic.Uint32, count int) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, uintptr(count), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
