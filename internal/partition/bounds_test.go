// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

// randomBounds is a graph of a few lanes, each to a class of its own, from which lookahead leads on to others.
func randomBounds(r *rand.Rand) *bounds {
	lanes := 2 + r.IntN(5)
	b := &bounds{first: lanes}
	for range lanes {
		b.ends = append(b.ends, [2]int32{0, 1})
	}
	var steps []step
	for c := range int32(lanes) {
		steps = append(steps, step{c + int32(lanes), c, 0})
		for to := range int32(lanes) {
			if r.IntN(2) == 0 {
				steps = append(steps, step{c, to + int32(lanes), 0.1 + r.Float64()})
			}
		}
	}
	b.fill(steps)
	return b
}

// eachCycle calls visit with the vertices and the lookahead of every simple cycle, from each of its vertices.
func eachCycle(b *bounds, visit func(vertices []int32, lookahead float64)) {
	on := make([]bool, b.vertices())
	var path []int32
	var walk func(v int32, lookahead float64)
	walk = func(v int32, lookahead float64) {
		on[v], path = true, append(path, v)
		for k := b.start[v]; k < b.start[v+1]; k++ {
			if to := b.to[k]; to == path[0] {
				visit(path, lookahead+b.lookahead[k])
			} else if !on[to] {
				walk(to, lookahead+b.lookahead[k])
			}
		}
		on[v], path = false, path[:len(path)-1]
	}
	for v := range int32(b.vertices()) {
		walk(v, 0)
	}
}

// What is found of cycles is what a look at all of them finds.
func TestBoundsAgainstAllCycles(t *testing.T) {
	r, some := seed.Rand(t), 0
	for range 500 {
		b := randomBounds(r)
		delay, least := make([]float64, len(b.ends)), make([]float64, len(b.ends))
		for lane := range delay {
			delay[lane], least[lane] = float64(r.IntN(3))*r.Float64(), math.Inf(1)
		}
		slowest := 0.0
		eachCycle(b, func(vertices []int32, lookahead float64) {
			all := 0.0
			for _, v := range vertices {
				if lane := int(v) - b.first; lane >= 0 {
					all, least[lane] = all+delay[lane], min(least[lane], lookahead)
				}
			}
			slowest = max(slowest, all/lookahead)
			some++
		})
		if got := b.slowest(func(lane int) float64 { return delay[lane] }); math.Abs(got-slowest) > 1e-6*slowest {
			t.Fatalf("%+v, delays %v: the slowest cycle takes %v, want %v", b, delay, got, slowest)
		}
		space := &shortestSpace{}
		for lane, want := range least {
			if got := b.shortest(lane, space); math.Abs(got-want) > 1e-9 || b.cyclic[lane] == math.IsInf(want, 1) {
				t.Fatalf("%+v: the shortest cycle over lane %d has %v, want %v", b, lane, got, want)
			}
		}
	}
	if some < 500 {
		t.Errorf("%d cycles in all graphs", some)
	}
}
