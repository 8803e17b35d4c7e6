// SPDX-License-Identifier: Apache-2.0

package shm

import "testing"

// TestMapPrivate: private memory is zero and can be written, whole, filled or not; sizes that can't be are refused, and
// what fills it stops where nobody wants more.
func TestMapPrivate(t *testing.T) {
	for _, size := range []int{0, -hugePageBytes, 1, hugePageBytes + 4096} {
		if mem, err := MapPrivate(size, true); err == nil {
			t.Errorf("%d bytes were mapped, want an error", len(mem))
		}
	}
	for _, huge := range []bool{false, true} {
		const size = 3 * hugePageBytes
		mem, err := MapPrivate(size, huge)
		if err != nil {
			t.Fatal(err)
		}
		if len(mem) != size || startOf(mem)%hugePageBytes != 0 {
			t.Errorf("%d bytes at %#x, want %d at a multiple of a huge page", len(mem), startOf(mem), size)
		}
		steps := 0
		if Fill(mem, func() bool {
			steps++
			return steps < 3
		}) || steps != 3 {
			t.Errorf("filled in %d steps, want that the third is the end", steps)
		}
		if !Fill(mem[hugePageBytes:], func() bool { return true }) {
			t.Log("this system can't fill memory")
		}
		for i := range mem {
			if mem[i] != 0 {
				t.Fatalf("byte %d is %d, want 0", i, mem[i])
			}
			mem[i] = byte(i)
		}
		if err := UnmapPrivate(mem); err != nil {
			t.Error(err)
		}
	}
}
