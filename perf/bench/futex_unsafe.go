// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The raw futex ping-pong is a limit: what a wake-up costs with nothing in between but
// the system call itself, so it is made here and not by package shm.

const (
	futexWaitOp = 0
	futexWakeOp = 1
)

// futexWait sleeps while *word == value, at most for limit, and whatever ends it. It
// tells the runtime that it blocks, without which a garbage collection would wait for
// this thread.
func futexWait(word *atomic.Uint32, value uint32, limit time.Duration) {
	ts := syscall.NsecToTimespec(int64(limit))
	_, _, _ = syscall.Syscall6(syscall.SYS_FUTEX, address(word), futexWaitOp, uintptr(value),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// futexWake wakes the sleeper.
func futexWake(word *atomic.Uint32) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, address(word), futexWakeOp, 1, 0, 0, 0)
}
