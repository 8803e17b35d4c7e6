// SPDX-License-Identifier: Apache-2.0

package worker

import "testing"

// What has grown out of the rest of a block lies elsewhere, and what follows it has the next block: else all that
// doesn't fit that rest would lie elsewhere.
func TestArena(t *testing.T) {
	a := arena{memory: &blockMemory{}}
	defer a.memory.free()
	grown := 0
	for range 40 {
		data := a.space()
		room := cap(data)
		if data = append(data, make([]byte, 3<<20)...); cap(data) != room {
			grown++
		}
		a.take(data)
	}
	if grown != 6 || len(a.blocks) != 7 { // five lie in a block, the sixth in its last MiB
		t.Errorf("%d of 40 have grown out of %d blocks, want 6 and 7", grown, len(a.blocks))
	}
}
