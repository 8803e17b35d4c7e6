// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// steps are the distributions of how far in the future an entry is filed.
var stepKinds = []struct {
	name string
	draw func(rnd *rand.Rand) float64
}{
	{"exponential", func(rnd *rand.Rand) float64 { return 0.1 + 0.9*rnd.ExpFloat64() }},
	{"bimodal", func(rnd *rand.Rand) float64 {
		if rnd.IntN(10) == 0 {
			return 1000 * rnd.Float64()
		}
		return 1e-3 * rnd.Float64()
	}},
	{"ties", func(rnd *rand.Rand) float64 { return float64(rnd.IntN(4)) }},
	{"zero", func(*rand.Rand) float64 { return 0 }},
	{"tiny", func(rnd *rand.Rand) float64 { return math.Ldexp(rnd.Float64(), -rnd.IntN(60)) }},
	{"huge", func(rnd *rand.Rand) float64 { return math.Ldexp(rnd.Float64(), rnd.IntN(200)) }},
}

// sortedList is the reference for a pending set.
type sortedList []entry

func (d *sortedList) insert(en entry) {
	i, _ := slices.BinarySearchFunc(*d, en, compare)
	*d = slices.Insert(*d, i, en)
}

// Every candidate gives the entries in the order in which a sorted list does, whatever
// the distribution, with growing, shrinking and empty sets, and with entries filed
// before one that was only looked at.
func TestPendingAgainstSortedList(t *testing.T) {
	for _, c := range candidates {
		for _, kind := range stepKinds {
			t.Run(c.name+"/"+kind.name, func(t *testing.T) {
				for seed := range uint64(6) {
					playPending(t, c.make(), kind.draw, seed)
				}
			})
		}
	}
}

func playPending(t *testing.T, fast candidate, draw func(*rand.Rand) float64, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var slow sortedList
	now, lastProc, grow := 0.0, uint32(0), 50
	for i := range 4000 {
		if i%200 == 0 {
			grow = []int{10, 45, 55, 95}[rnd.IntN(4)] // per cent of inserts
		}
		if rnd.IntN(100) < grow {
			en := entry{key: keyOf(now + draw(rnd)), number: uint64(i),
				route: route{rnd.Uint32N(5), SimprocID(rnd.Uint32N(3))}}
			if en.epoch() == now {
				en.proc = max(en.proc, lastProc) // never before what was taken out
				en.sender = 3
			}
			fast.insert(en)
			slow.insert(en)
			continue
		}
		got := fast.first()
		if len(slow) == 0 {
			if got != nil {
				t.Fatalf("seed %d, step %d: first is %+v in an empty set", seed, i, *got)
			}
			continue
		}
		if got == nil || *got != slow[0] {
			t.Fatalf("seed %d, step %d, %d waiting: first is %+v, want %+v", seed, i, len(slow), got, slow[0])
		}
		if rnd.IntN(10) == 0 {
			continue // only a look
		}
		now, lastProc = slow[0].epoch(), slow[0].proc
		fast.drop()
		slow = slow[1:]
	}
}

// each visits every entry once, and len counts them, wherever they lie.
func TestPendingEach(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := &pending{}
	s.init()
	waiting := map[uint64]bool{}
	for i := range uint64(5000) {
		s.insert(entry{key: keyOf(rnd.Float64() * 100), number: i})
		waiting[i] = true
		if i >= 2000 {
			delete(waiting, s.first().number)
			s.drop()
		}
	}
	s.parts(func(part []entry) {
		for _, en := range part {
			if !waiting[en.number] {
				t.Fatalf("entry %d twice, or after it was taken out", en.number)
			}
			delete(waiting, en.number)
		}
	})
	if len(waiting) != 0 || s.len() != 2000 {
		t.Errorf("%d entries not visited, len %d, want 0 and 2000", len(waiting), s.len())
	}
}

// A set that was used stays within its memory: chunks are used again.
func TestPendingDoesNotAllocate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := &pending{}
	s.init()
	hold := func(n int) {
		for range n {
			en := *s.first()
			s.drop()
			en.key = keyOf(en.epoch() + 0.1 + rnd.ExpFloat64())
			s.insert(en)
		}
	}
	for i := range uint64(5000) {
		s.insert(entry{key: keyOf(rnd.ExpFloat64()), number: i})
	}
	hold(200_000)
	if got := testing.AllocsPerRun(10, func() { hold(5000) }); got > 0 {
		t.Errorf("%v allocations per 5000 turns, want none", got)
	}
}

// BenchmarkPending is the hold model (Vaucher and Duval, CACM 18(4), 1975): take out the
// first entry, file it again. One turn is one event.
func BenchmarkPending(b *testing.B) {
	for _, kind := range stepKinds[:3] {
		for _, size := range []int{64, 1000, 10_000, 100_000, 1_000_000, 10_000_000} {
			for _, c := range candidates {
				if c.name == "calendar" && kind.name != "exponential" && size > 10_000 {
					continue // a turn takes a tenth of a millisecond, and longer with size
				}
				b.Run(fmt.Sprintf("%s/pending=%d/%s", kind.name, size, c.name), func(b *testing.B) {
					benchPending(b, c.make(), kind.draw, size)
				})
			}
		}
	}
}

func benchPending(b *testing.B, s candidate, draw func(*rand.Rand) float64, size int) {
	rnd := rand.New(rand.NewPCG(1, uint64(size)))
	steps := make([]float64, 1<<16)
	for i := range steps {
		steps[i] = draw(rnd)
	}
	// Begin where the hold model settles: what is left of steps under way.
	for i := range size {
		s.insert(entry{key: keyOf(1000 + steps[i%len(steps)]*rnd.Float64()), number: uint64(i),
			route: route{proc: uint32(i % 1024)}})
	}
	n := uint64(0)
	var en entry // here, so that it is allocated once
	hold := func(turns int) {
		for range turns {
			en = *s.first()
			s.drop()
			en.key = keyOf(en.epoch() + steps[n%uint64(len(steps))])
			n++
			s.insert(en)
		}
	}
	hold(2 * size)
	b.ReportAllocs()
	b.ResetTimer()
	hold(b.N)
}

// A run of one epoch isn't taken apart, and sorted again, for a few that come in before it: a model whose time goes by
// ticks would do so for each few events of a tick, which takes the square of their number.
func TestRunOfOneEpochStays(t *testing.T) {
	const many = 10_000
	s := &pending{}
	s.init()
	number := uint64(0)
	insert := func(epoch float64) {
		number++
		s.insert(entry{keyOf(epoch), number, route{uint32(number % 7), 1}, load{}})
	}
	const few = 2 * lateMax // what is later than these goes into buckets
	for range few {
		insert(0)
	}
	for range many {
		insert(1)
	}
	for range few {
		s.first()
		s.drop()
	}
	if first := s.first(); first.epoch() != 1 || len(s.run)-s.at != many {
		t.Fatalf("found a run of %d from %v on, want all of %d", len(s.run)-s.at, first.epoch(), many)
	}
	const between = 1000
	for range between {
		insert(0.5)
		s.first()
	}
	if left := len(s.run) - s.at; left != many {
		t.Errorf("found %d entries in the run, want %d: it was taken apart", left, many)
	}
	for range many {
		insert(0.5)
	}
	before := *s.first()
	for n := range many + between + many {
		s.drop()
		if next := s.first(); next == nil {
			if n != many+between+many-1 {
				t.Fatalf("found %d entries", n+1)
			}
		} else if next.before(&before) {
			t.Fatalf("entry %d: found %+v behind %+v", n, next, before)
		} else {
			before = *next
		}
	}
}
