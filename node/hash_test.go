// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// Trace hashes must not depend on which of two ways an event's data is hashed in.
func TestSumIsXXHash(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 41 {
		b := make([]byte, n)
		for range 100 {
			if got, want := sum(b), xxhash.Sum64(b); got != want {
				t.Fatalf("sum of %d bytes %x is %x, want %x", n, b, got, want)
			}
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
		}
	}
}
