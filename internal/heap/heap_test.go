// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever is pushed, changed, removed and popped: the heap against a list of which the least is looked for at every
// step, with the places that an indexed heap gives out. Keys are often equal; ids decide then.
func TestAgainstSortedList(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		const ids = 40
		var key [ids]float64
		place := [ids]int{}
		h := NewIndexed(func(a, b int) bool { return a < b }, func(x, at int) { place[x] = at })
		before := func(a, b int) int { return cmp.Or(cmp.Compare(key[a], key[b]), cmp.Compare(a, b)) }
		var in []int
		out := func(id int) { in = slices.DeleteFunc(in, func(x int) bool { return x == id }) }
		for range 400 {
			id := rng.IntN(ids)
			switch there := slices.Contains(in, id); {
			case !there:
				key[id] = float64(rng.IntN(20))
				h.Push(key[id], id)
				in = append(in, id)
			case rng.IntN(3) == 0:
				h.Remove(place[id])
				out(id)
			case rng.IntN(2) == 0:
				key[id] = float64(rng.IntN(20))
				h.Fix(place[id], key[id])
			default:
				least := slices.MinFunc(in, before)
				if first := h.First(); first.Value != least || first.Key != key[least] {
					t.Fatalf("seed %d: the first is %v, want %d with %v", seed, *first, least, key[least])
				}
				_, id = h.Pop()
				out(id)
			}
			if h.Len() != len(in) {
				t.Fatalf("seed %d: %d items, want %d", seed, h.Len(), len(in))
			}
			for at, item := range h.Items() {
				x := item.Value
				if place[x] != at || !slices.Contains(in, x) {
					t.Fatalf("seed %d: item %d is at %d, and was said to be at %d", seed, x, at, place[x])
				}
				if at > 0 && before(x, h.Items()[(at-1)/2].Value) < 0 {
					t.Fatalf("seed %d: item %d at %d is before the one in front of it", seed, x, at)
				}
			}
		}
		slices.SortFunc(in, before)
		for _, want := range in {
			if k, x := h.Pop(); x != want || k != key[want] {
				t.Fatalf("seed %d: %d with %v, want %d with %v", seed, x, k, want, key[want])
			}
		}
	}
}

// Pop leaves every item where a heap with a tie function that never decides leaves it, whether it holds few items or
// many: the order of those that are left may be what somebody adds them up in.
func TestSinkAgainstDown(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 50 {
		a, b := New[int](nil), New(func(_, _ int) bool { return false })
		keys := []int{3, 50, 1 << 30}[rng.IntN(3)]
		for step, more := 0, true; step < 2000; step++ {
			if a.Len() == 0 || a.Len() > 4*sinkMin {
				more = a.Len() == 0
			}
			if rng.IntN(3) > 0 == more {
				key := float64(rng.IntN(keys) - keys/2)
				a.Push(key, step)
				b.Push(key, step)
			} else if a.Len() > 0 {
				keyA, x := a.Pop()
				if keyB, y := b.Pop(); keyA != keyB || x != y {
					t.Fatalf("seed %d: popped %d with %v, want %d with %v", seed, x, keyA, y, keyB)
				}
			}
			if !slices.Equal(a.Items(), b.Items()) {
				t.Fatalf("seed %d, step %d: items\n%v, want\n%v", seed, step, a.Items(), b.Items())
			}
		}
	}
}

// Push and Pop don't allocate once there is room, and Clear keeps it.
func TestDoesNotAllocate(t *testing.T) {
	h := New[int](nil)
	turn := func() {
		for i := range 100 {
			h.Push(float64(i*37%101), i)
		}
		for h.Len() > 50 {
			h.Pop()
		}
		h.Clear()
	}
	turn()
	if n := testing.AllocsPerRun(100, turn); n != 0 || h.Len() != 0 {
		t.Errorf("%v allocations, %d items left", n, h.Len())
	}
}

// BenchmarkHold is a pop and a push of one with a later key.
func BenchmarkHold(b *testing.B) {
	type value [2]uint64 // as large as what the models keep
	for _, n := range []int{10, 1000} {
		b.Run(map[int]string{10: "10", 1000: "1000"}[n], func(b *testing.B) {
			h := New[value](nil)
			rng := rand.New(rand.NewPCG(1, 2))
			for range n {
				h.Push(rng.ExpFloat64(), value{})
			}
			for b.Loop() {
				at, x := h.Pop()
				h.Push(at+rng.ExpFloat64(), x)
			}
		})
	}
}

// Use gives memory for the first items: none of them is allocated, and those beyond it are.
func TestUse(t *testing.T) {
	var memory [3]Item[int]
	h := New[int](nil)
	h.Use(memory[:])
	if n := testing.AllocsPerRun(10, func() {
		for i := range 3 {
			h.Push(float64(-i), i)
		}
		for range 3 {
			h.Pop()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range 5 {
		h.Push(float64(-i), i)
	}
	for want := 4; want >= 0; want-- {
		if _, x := h.Pop(); x != want {
			t.Errorf("popped %d, want %d", x, want)
		}
	}
}

// A heap that is set from the items of another goes on as that does; items in another order are refused.
func TestSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), 3))
	a := New[int](nil)
	for range 100 {
		a.Push(float64(rng.IntN(20)), rng.IntN(1000))
	}
	b := New[int](nil)
	if wrong, ok := b.Set(slices.Clone(a.Items())); !ok {
		t.Fatalf("item %d is wrong", wrong)
	}
	for a.Len() > 0 {
		if rng.IntN(3) == 0 {
			k, x := float64(rng.IntN(20)), rng.IntN(1000)
			a.Push(k, x)
			b.Push(k, x)
		}
		ka, xa := a.Pop()
		if kb, xb := b.Pop(); ka != kb || xa != xb {
			t.Fatalf("%d with %v, want %d with %v", xb, kb, xa, ka)
		}
	}
	var place [4]int
	c := NewIndexed(func(a, b int) bool { return a < b }, func(x, at int) { place[x] = at })
	for _, items := range [][]Item[int]{{{0, 2}, {1, 1}}, {{1, 1}, {0, 1}}, {{0, 1}, {1, 1}, {2, math.NaN()}}} {
		if wrong, ok := c.Set(items); ok || wrong != len(items)-1 || c.Len() > 0 {
			t.Errorf("%v: %d, %v, %d items", items, wrong, ok, c.Len())
		}
	}
	if _, ok := c.Set([]Item[int]{{2, 1}, {3, 1}, {1, 2}}); !ok || place != [4]int{0, 2, 0, 1} {
		t.Errorf("%v, places %v", ok, place)
	}
}
