// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
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
