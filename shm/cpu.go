// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fullFence orders every load and store before it before every load and store
// after it, as seen by all cores. sync/atomic has no such thing by itself, and
// its operations promise an order among themselves only, not for the plain or
// release stores of a caller.
func fullFence()

// Pause tells the core that it is in a spinning loop: the loop takes less power,
// leaves more to the core's other hyperthread, and ends without a pipeline flush.
// It takes some 10 to 50 ns.
func Pause()

// Yield offers the rest of the calling thread's time slice to other threads. It
// takes some 0.2 µs when no other thread wants the core. It is a raw system call:
// the goroutine keeps its place among GOMAXPROCS, so other goroutines gain
// nothing by it; runtime.Gosched is for them.
func Yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// CPUs lists the processors that the calling thread may run on, in rising order.
func CPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("shm: reading the allowed processors: %w", err)
	}
	list := make([]int, 0, set.Count())
	for cpu := 0; cpu < len(set)*64; cpu++ {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list, nil
}

// SetAffinity binds the calling thread to one processor. The goroutine must hold
// the thread (runtime.LockOSThread) before and for as long as the binding shall
// last; a thread that was bound must not go back to the runtime, so the goroutine
// ends without unlocking it.
func SetAffinity(cpu int) error {
	var set unix.CPUSet
	if cpu < 0 || cpu >= len(set)*64 {
		return fmt.Errorf("shm: binding to processor %d, want 0 to %d", cpu, len(set)*64-1)
	}
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("shm: binding to processor %d: %w: choose one of shm.CPUs", cpu, err)
	}
	return nil
}

// ThreadID is the number of the calling thread. A goroutine that holds its thread
// (runtime.LockOSThread) is the only one that gets it.
func ThreadID() uint64 { return uint64(unix.Gettid()) }
