// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"math/rand"
	"testing"
)

// A producer keeps lines where records come sooner then, gives them away where they come later or as soon, and finds
// out when that changes, whatever a few of them take.
func TestGiving(t *testing.T) {
	rng, g, now := rand.New(rand.NewSource(1)), &giving{}, uint64(1)<<63
	for i, c := range []struct {
		given, kept uint64
		keeps       bool
	}{{100, 50, true}, {100, 200, false}, {100, 50, true}, {100, 100, false}, {100, 97, false}, {300, 250, true}} {
		for g.count = 0; ; {
			trial := g.count <= 2*givenTrial
			var gives bool
			if at := g.count; trial {
				g.count++
				gives = g.try(at, now)
			} else {
				gives = g.gives()
			}
			if !trial && gives == c.keeps {
				t.Fatalf("case %d, record %d: given away %v, with %d where it is and %d where it isn't", i, g.count,
					gives, c.given, c.kept)
			}
			if g.count == 0 {
				break
			}
			took := c.kept
			if gives {
				took = c.given
			}
			if now += took + uint64(rng.Intn(3)); rng.Intn(4) == 0 {
				now += uint64(rng.Intn(1 << 20)) // it was interrupted
			}
		}
	}
}

// Trials come again and again, also over all those that a producer makes by itself.
func TestGivingTrials(t *testing.T) {
	if !demotes {
		t.Skip("this processor has no way to give lines away")
	}
	g := &giving{}
	kept := 0
	for range 3 * givenEvery {
		if at := g.count; !g.gives() && at < 2*givenTrial {
			kept++
		}
	}
	if kept != 3*givenTrial {
		t.Errorf("%d records were kept in trials, want %d", kept, 3*givenTrial)
	}
	before := ticks()
	for range 1000 {
		if now := ticks(); now < before {
			t.Fatalf("the clock went from %d to %d", before, now)
		} else {
			before = now
		}
	}
}
