// SPDX-License-Identifier: Apache-2.0

package interleave

import "testing"

// The hook is called in the checked build alone, and not any more once it is taken away.
func TestPoint(t *testing.T) {
	calls := 0
	Set(func() { calls++ })
	Point()
	Set(nil)
	Point()
	want := 0
	if Enabled {
		want = 1
	}
	if calls != want {
		t.Errorf("%d calls of the hook, want %d", calls, want)
	}
}

// The plain build's Point is inlined away; neither build's allocates.
func TestPointAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, Point); n != 0 {
		t.Errorf("%v allocations for each Point", n)
	}
}
