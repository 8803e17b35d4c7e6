// SPDX-License-Identifier: Apache-2.0

package race_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/race"
)

const rounds = 1000

// turns lets two goroutines increment a heap value in turn; whose turn it is stands
// in *flag. The order is right wherever the flag lies; notes says whether the race
// detector is told so.
func turns(flag *uint64, notes bool) int {
	value := new(int)
	play := func(first uint64) {
		for turn := first; turn < rounds; turn += 2 {
			for atomic.LoadUint64(flag) != turn {
				runtime.Gosched()
			}
			if notes {
				race.Acquire(flag)
			}
			*value++
			if notes {
				race.ReleaseMerge(flag)
			}
			atomic.StoreUint64(flag, turn+1)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		play(1)
	}()
	play(0)
	<-done
	return *value
}

func mapped(t *testing.T) *uint64 {
	t.Helper()
	mem, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON)
	if err != nil {
		t.Fatalf("mmap: %v", err)
	}
	t.Cleanup(func() { syscall.Munmap(mem) })
	return (*uint64)(unsafe.Pointer(&mem[128]))
}

// With the notes a hand-over through mapped memory is quiet.
func TestNotesOrderWhatGoesThroughMappedMemory(t *testing.T) {
	if got := turns(mapped(t), true); got != rounds {
		t.Errorf("%d increments in turn gave %d", rounds, got)
	}
}

// child names the part that a test runs in a process of its own, because a report
// of the race detector fails the process it happens in.
const child = "DISCO_RACE_TEST_CHILD"

// Without the notes the detector reports the same hand-over: the notes above are
// what makes it quiet. If this fails, the detector has learned to see mapped memory
// and this package can go.
func TestWithoutNotesMappedMemoryIsReported(t *testing.T) {
	if os.Getenv(child) == "mapped" {
		turns(mapped(t), false)
		return
	}
	out := reportOf(t, "mapped")
	if !strings.Contains(out, "DATA RACE") {
		t.Errorf("no report for a hand-over through mapped memory without notes:\n%s", out)
	}
}

// A missing atomic on the heap is still reported although notes stand around it.
func TestNotesDontHideRacesOnTheHeap(t *testing.T) {
	if os.Getenv(child) == "heap" {
		plainTurns((*uint64)(unsafe.Pointer(&aligned.Bytes(4096, 4096)[128])))
		return
	}
	out := reportOf(t, "heap")
	if !strings.Contains(out, "DATA RACE") {
		t.Errorf("no report for a plain store of a flag on the heap between notes:\n%s", out)
	}
}

// plainTurns publishes a value with a plain store, which is wrong.
func plainTurns(flag *uint64) {
	value := new(int)
	done := make(chan struct{})
	go func() {
		defer close(done)
		*value = 1
		race.ReleaseMerge(flag)
		*flag = 1
	}()
	for atomic.LoadUint64(flag) == 0 {
		runtime.Gosched()
	}
	race.Acquire(flag)
	*value = 2
	<-done
}

func reportOf(t *testing.T, part string) string {
	t.Helper()
	if !race.Enabled {
		t.Skip("built without -race")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"="+part)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("the child process of %s passed", t.Name())
	}
	return string(out)
}
