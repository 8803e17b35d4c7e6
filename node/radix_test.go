// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

// A chain is sorted as by comparing, however its keys lie: few and many, spread evenly, in heaps, or all alike.
func TestRadixSort(t *testing.T) {
	rnd := seed.Rand(t)
	for range 2_000 {
		shift := uint(rnd.IntN(tiers)) * digitBits
		span := uint64(1) << shift
		draw := func() uint64 { return rnd.Uint64N(span) }
		switch rnd.IntN(4) {
		case 0:
			heap := draw()
			draw = func() uint64 { return min(heap+rnd.Uint64N(1+span>>12), span-1) }
		case 1:
			two := [2]uint64{draw(), draw()}
			draw = func() uint64 { return two[rnd.IntN(2)] }
		case 2:
			draw = func() uint64 { return rnd.Uint64N(min(span, 8)) }
		}
		all := entries(rnd, rnd.IntN(runMax+40)+1, draw)
		r := newRadix()
		b := &r.buckets[0]
		for i := range all {
			if b.n >= chunkEntries {
				r.grow(b, 0, 0)
			}
			b.head.entries[b.n] = all[i]
			b.n++
		}
		before := []entry{{number: 1}}
		got := r.sort(slices.Clone(before), b.head, b.n, shift)
		slices.SortFunc(all, compare)
		if want := append(before, all...); !slices.Equal(got, want) {
			t.Fatalf("%d entries, of which the lowest %d bits differ, are sorted as %v, want %v", len(all), shift, got,
				want)
		}
	}
}

// entries are n of them, no two of which are alike.
func entries(rnd *rand.Rand, n int, key func() uint64) []entry {
	all := make([]entry, n)
	for i := range all {
		all[i] = entry{key(), uint64(i), route{rnd.Uint32N(3), SimprocID(rnd.Uint32N(3))}, load{}}
	}
	return all
}
