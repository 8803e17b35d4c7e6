// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time that the calling thread has used.
func threadTime(t testing.TB) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// Each allowed processor can be chosen, and nothing else.
func TestAffinity(t *testing.T) {
	all, err := CPUs()
	if err != nil || len(all) == 0 || !slices.IsSorted(all) {
		t.Fatalf("processors %v, %v", all, err)
	}
	done := make(chan struct{})
	go func() { // its thread ends with it, because it stays locked
		defer close(done)
		runtime.LockOSThread()
		for _, cpu := range all {
			if err := SetAffinity(cpu); err != nil {
				t.Error(err)
			}
			if now, err := CPUs(); err != nil || !slices.Equal(now, []int{cpu}) {
				t.Errorf("bound to %d: %v, %v", cpu, now, err)
			}
		}
		for _, cpu := range []int{-1, 1 << 20, 1023} {
			if err := SetAffinity(cpu); err == nil && !slices.Contains(all, cpu) {
				t.Errorf("bound to processor %d", cpu)
			}
		}
	}()
	<-done
	if now, err := CPUs(); err != nil || !slices.Equal(now, all) {
		t.Errorf("another thread is bound too: %v, %v", now, err)
	}
}

func TestPauseAndYield(t *testing.T) {
	for range 100 {
		Pause()
		Yield()
		fullFence()
	}
}
