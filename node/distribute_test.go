// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

// Entries are distributed as they are sorted by comparing, in whichever fields they differ, and by how much: by all, by
// one alone, by the highest and the lowest bits, with most of them alike but for the last field.
func TestDistribute(t *testing.T) {
	rnd := seed.Rand(t)
	r := newRadix()
	for range 300 {
		all := make([]entry, 1+rnd.IntN(1<<rnd.IntN(15)))
		draw := drawer(rnd)
		for i := range all {
			all[i] = entry{draw(0), draw(3), route{uint32(draw(1)), SimprocID(draw(2))}, load{}}
		}
		want := slices.Clone(all)
		slices.SortFunc(want, compare)
		got := make([]entry, len(all))
		r.distribute(got, slices.Clone(all))
		for i := range got {
			if compare(got[i], want[i]) != 0 {
				t.Fatalf("of %d entries number %d is %+v, want %+v", len(all), i, got[i], want[i])
			}
		}
	}
}

// drawer draws values of fields, each in a way of its own.
func drawer(rnd *rand.Rand) func(field int) uint64 {
	var ways [4]func() uint64
	for i := range ways {
		base, span := rnd.Uint64()>>1, uint64(1)<<rnd.IntN(63)
		ways[i] = []func() uint64{
			func() uint64 { return base },
			func() uint64 { return base + rnd.Uint64N(span) },
			func() uint64 { return rnd.Uint64() >> rnd.IntN(64) },
			func() uint64 { return rnd.Uint64() & 1 << rnd.IntN(64) },
			func() uint64 {
				if rnd.IntN(50) > 0 {
					return base
				}
				return rnd.Uint64()
			},
		}[rnd.IntN(5)]
	}
	return func(field int) uint64 { return ways[field]() }
}

// Distributing allocates nothing once there was memory for as many entries.
func TestDistributeDoesNotAllocate(t *testing.T) {
	rnd := seed.Rand(t)
	r, src, dst := newRadix(), make([]entry, 5000), make([]entry, 5000)
	fill := func() {
		for i := range src {
			src[i] = entry{1, rnd.Uint64(), route{rnd.Uint32N(100), SimprocID(rnd.Uint32N(3))}, load{}}
		}
		r.distribute(dst, src)
	}
	fill()
	if n := testing.AllocsPerRun(20, fill); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkTies is a set in which all that is pending has one epoch, and is taken out and put in again at the next one.
func BenchmarkTies(b *testing.B) {
	for _, procs := range []uint32{1, 16, 1024, 100_000} {
		for _, size := range []int{1000, 16_000, 1_000_000} {
			b.Run(name(procs, size), func(b *testing.B) { benchTies(b, procs, size) })
		}
	}
}

func name(procs uint32, size int) string { return fmt.Sprintf("procs=%d/pending=%d", procs, size) }

func benchTies(b *testing.B, procs uint32, size int) {
	rnd := rand.New(rand.NewPCG(1, uint64(size)))
	s := pending{radix: newRadix()}
	s.init()
	number := uint64(0)
	insert := func(epoch float64) {
		number++
		s.insert(entry{keyOf(epoch), number, route{rnd.Uint32N(procs), SimprocID(rnd.Uint32N(procs))}, load{}})
	}
	for range size {
		insert(1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		epoch := s.first().epoch()
		s.drop()
		insert(epoch + 1)
	}
}
