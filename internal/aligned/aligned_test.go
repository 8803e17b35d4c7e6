// SPDX-License-Identifier: Apache-2.0

package aligned_test

import (
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
)

func TestBytesStartAtTheAlignment(t *testing.T) {
	for _, size := range []int{1, 7, 64, 100, 4096, 5000} {
		for alignment := 1; alignment <= 4096; alignment *= 2 {
			b := aligned.Bytes(size, alignment)
			if len(b) != size || cap(b) != size || !aligned.Is(b, alignment) {
				t.Errorf("%d bytes at %d: length %d, capacity %d, aligned %t", size, alignment, len(b), cap(b),
					aligned.Is(b, alignment))
			}
			if alignment > 1 && size > 1 && aligned.Is(b[1:], alignment) {
				t.Errorf("the second byte lies at a multiple of %d as well", alignment)
			}
		}
	}
}

func TestEmptyIsNotAligned(t *testing.T) {
	if b := aligned.Bytes(0, 128); len(b) != 0 || aligned.Is(b, 128) || aligned.Is(nil, 1) {
		t.Error("an empty slice counts as aligned")
	}
}
