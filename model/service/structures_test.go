// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/model/measure"
)

// refList is the obvious form of a balancer's list.
type refList struct {
	items []int32
	edges []account // nil: round robin
}

func (d *refList) empty() bool      { return len(d.items) == 0 }
func (d *refList) pushBack(i int32) { d.items = append(d.items, i) }
func (d *refList) remove(i int32) {
	d.items = slices.DeleteFunc(d.items, func(x int32) bool { return x == i })
}

func (d *refList) take() int32 {
	best := 0
	if d.edges == nil {
		i := d.items[0]
		d.items = append(d.items[1:], i)
		return i
	}
	for k, i := range d.items {
		if d.edges[i].transit < d.edges[d.items[best]].transit {
			best = k
		}
	}
	return d.items[best]
}

// TestListsAgainstReference runs random histories of both algorithms against a slice
// that is searched from the front: same choice at every step.
func TestListsAgainstReference(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(12)
		edges := make([]account, n)
		for _, least := range []bool{false, true} {
			var l list = newRotation(n)
			ref := &refList{}
			index := newLeastIndex(edges)
			if least {
				l, ref.edges = index, edges
			}
			for i := range n {
				ref.pushBack(int32(i))
			}
			for step := range 2000 {
				i := int32(rng.IntN(n))
				switch rng.IntN(6) {
				case 0:
					l.remove(i)
					ref.remove(i)
				case 1:
					l.remove(i)
					l.pushBack(i)
					ref.remove(i)
					ref.pushBack(i)
				case 2:
					edges[i].transit = max(0, edges[i].transit-1)
					index.changed(i)
				default:
					if l.empty() != ref.empty() {
						t.Fatalf("seed %d, step %d: empty %v, want %v", seed, step, l.empty(), ref.empty())
					}
					if l.empty() {
						continue
					}
					got, want := l.take(), ref.take()
					if got != want {
						t.Fatalf("seed %d, least %v, step %d: took %d, want %d", seed, least, step, got, want)
					}
					edges[got].transit++
					index.changed(got)
				}
			}
		}
	}
}

// TestRoundRobinReinsertion: an edge that comes back goes to the end of the list,
// behind those that were used while it was away.
func TestRoundRobinReinsertion(t *testing.T) {
	r := newRotation(3)
	var got []int32
	take := func(n int) {
		for range n {
			got = append(got, r.take())
		}
	}
	take(4) // 0 1 2 0, the list is 1 2 0
	b := &balancer{list: r}
	b.apply(change{edge: 2})
	take(3) // 1 0 1, the list is 0 1
	b.apply(change{edge: 2, up: true})
	take(4) // 0 1 2 0
	if want := []int32{0, 1, 2, 0, 1, 0, 1, 0, 1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("took %v, want %v", got, want)
	}
}

// TestLeastConnectionTie: of edges with equally few requests the one that stands
// first in the list is taken, and an edge that comes back stands last.
func TestLeastConnectionTie(t *testing.T) {
	edges := make([]account, 3)
	x := newLeastIndex(edges)
	var got []int32
	take := func() {
		i := x.take()
		got = append(got, i)
		edges[i].transit++
		x.changed(i)
	}
	take() // 0 of 0 1 2
	take() // 1
	take() // 2
	b := &balancer{list: x}
	b.apply(change{edge: 0})
	take() // 1 of 1 2
	edges[0].transit = 0
	x.changed(0)
	edges[1].transit = 0
	x.changed(1)
	edges[2].transit = 0
	x.changed(2)
	b.apply(change{edge: 0, up: true})
	take() // 1 of 1 2 0
	take() // 2
	take() // 0
	if want := []int32{0, 1, 2, 1, 1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("took %v, want %v", got, want)
	}
}

// TestTicks: counting by division finds the same ticks as counting one by one, for
// periods that have no exact form too.
func TestTicks(t *testing.T) {
	for _, period := range []float64{0.05, 0.001, 0.1, 0.0625, 1.0 / 3} {
		rng := rand.New(rand.NewPCG(3, math.Float64bits(period)))
		k := newTicks(period, true, 0)
		at, next := 0.0, int64(1)
		for range 20000 {
			switch rng.IntN(3) {
			case 0:
				at += rng.ExpFloat64() * period
			case 1:
				at += period // next to a tick, by rounding
			default:
				at = max(at, float64(next+rng.Int64N(3))*period) // exactly on one
			}
			var want int64
			for float64(next)*period < at {
				next++
				want++
			}
			if got := k.pass(at); got != want || k.next != next {
				t.Fatalf("period %v: %d ticks before %v, next %d; want %d, next %d", period, got, at, k.next, want,
					next)
			}
		}
	}
	none := newTicks(0.05, false, 0)
	if n := none.pass(1e300); n != 0 {
		t.Errorf("%d ticks without sampling", n)
	}
}

// TestFifo: slots come out in the order in which they went in, whatever was in the
// slots before.
func TestFifo(t *testing.T) {
	slots := make([]slot, 10)
	for i := range slots {
		slots[i].next = 7
	}
	var q fifo
	rng := rand.New(rand.NewPCG(5, 6))
	free := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	var want []int32
	for range 1000 {
		if len(free) > 0 && rng.IntN(2) == 0 {
			q.push(slots, free[0])
			want = append(want, free[0])
			free = free[1:]
		} else if !q.empty() {
			got := q.pop(slots)
			if got != want[0] {
				t.Fatalf("popped %d, want %d", got, want[0])
			}
			want, free = want[1:], append(free, got)
		}
		if q.empty() != (len(want) == 0) {
			t.Fatalf("empty %v with %d inside", q.empty(), len(want))
		}
	}
}

// TestMomentsMerge: merging sets gives what adding one by one gives.
func TestMomentsMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var all, merged measure.Moments
	for range 7 {
		var part measure.Moments
		for range rng.IntN(50) {
			x := 1e6 + rng.NormFloat64()
			all.Add(x)
			part.Add(x)
		}
		merged.Merge(&part)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
	if all.Count != merged.Count || !near(merged.Mean, all.Mean) || !near(merged.StdDev(), all.StdDev()) ||
		all.Min != merged.Min || all.Max != merged.Max {
		t.Errorf("merged %+v, want %+v", merged, all)
	}
}

// Servers that are written alike share their programs where nothing is drawn, and only then.
func TestSharedPrograms(t *testing.T) {
	drawn := cpu(Dist{Kind: Exponential, Mean: 0.001})
	servers := []Server{
		oneEndpoint("a", 1, 1024, 64, cpu(constant(0.001)), sleep(constant(0.01))),
		oneEndpoint("b", 2, 2048, 64, cpu(constant(0.001)), sleep(constant(0.01))),
		oneEndpoint("c", 1, 1024, 65, cpu(constant(0.001)), sleep(constant(0.01))),
		oneEndpoint("d", 1, 1024, 64, cpu(constant(0.001)), cpu(constant(0.01))),
		oneEndpoint("e", 1, 1024, 64, drawn),
		oneEndpoint("f", 1, 1024, 64, drawn),
	}
	m := newModel(fan(1, 1, RoundRobin, servers...))
	d := newSerial(t, m, 1)
	program := func(id string) *program { return &d.box(id, rankRequest).(*server).programs[0] }
	if program("a") != program("b") {
		t.Error("a and b, whose endpoints are alike, don't share their programs")
	}
	for _, ids := range []string{"ac", "ad", "cd", "ef"} {
		if program(ids[:1]) == program(ids[1:]) {
			t.Errorf("%s and %s share their programs", ids[:1], ids[1:])
		}
	}
	if got := program("d").bursts; len(got) != 1 || got[0].fixed != 0.011 {
		t.Errorf("d has the bursts %+v, want one of 11 ms", got)
	}
}
