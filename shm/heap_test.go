// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHugeHeap: a heap that grows by more than the runtime had before is asked for in huge pages, and what is
// asked for ends with stop.
func TestHugeHeap(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	stop := HugeHeap()
	defer stop()
	var all [][]byte
	for end := time.Now().Add(20 * time.Second); ; {
		mem := make([]byte, 8<<20)
		mem[0] = 1
		if all = append(all, mem); hasFlag(t, reflect.ValueOf(mem).Pointer(), "hg") {
			break
		}
		if time.Now().After(end) || len(all) == 64 {
			t.Fatalf("after %d MiB there is nothing in huge pages", 8*len(all))
		}
		time.Sleep(2 * heapPeriod)
	}
	runtime.KeepAlive(all)
}

// TestReserveHeap: what the heap grows by afterwards is in huge pages, no page was taken for it, and too little, too
// much and a process whose address space is limited reserve nothing.
func TestReserveHeap(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	mapped := func(bytes int64) uint64 {
		before := mappedBytes()
		ReserveHeap(bytes)
		return mappedBytes() - before
	}
	for _, bytes := range []int64{-1, 0, reserveLeast - 1, AvailableBytes() * 2, math.MaxInt64} {
		if grown := mapped(bytes); grown >= reserveLeast/2 {
			t.Errorf("%d bytes: the heap has grown by %d", bytes, grown)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil {
		t.Fatal(err)
	}
	limited := limit
	limited.Cur = min(limit.Max, 1<<50)
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limited); err != nil {
		t.Fatal(err)
	}
	if grown := mapped(256 << 20); grown >= reserveLeast/2 {
		t.Errorf("with a limit the heap has grown by %d", grown)
	}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		t.Fatal(err)
	}
	// What the heap had free before has small pages, and is used as well.
	const piece = 4 << 20
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	small := int(m.HeapIdle/piece) + 1
	pieces := small + 24
	bytes := int64(pieces+16) * piece
	before := residentBytes(t)
	ReserveHeap(bytes)
	if taken := residentBytes(t) - before; taken > bytes/4 {
		t.Errorf("it took %d bytes", taken)
	}
	var all [][]byte
	huge := 0
	for range pieces {
		mem := make([]byte, piece)
		mem[0] = 1
		if all = append(all, mem); hasFlag(t, reflect.ValueOf(mem).Pointer(), "hg") {
			huge++
		}
	}
	runtime.KeepAlive(all)
	if huge < pieces-small {
		t.Errorf("%d of %d are in huge pages, want all but %d", huge, pieces, small)
	}
}

// residentBytes is what this process has in memory.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

// hasFlag tells whether the mapping with an address has a flag of /proc/PID/smaps.
func hasFlag(t *testing.T, address uintptr, flag string) bool {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := false
	for s := bufio.NewScanner(f); s.Scan(); {
		var from, to uintptr
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &from, &to); n == 2 {
			in = from <= address && address < to
		} else if flags, ok := strings.CutPrefix(s.Text(), "VmFlags:"); ok && in {
			return strings.Contains(flags+" ", " "+flag+" ")
		}
	}
	return false
}
