// SPDX-License-Identifier: Apache-2.0

package speedup

import (
	"math"
	"testing"
)

// times is how many times as fast as one worker a load is handled where an event takes 100 ns.
func times(l Load) float64 { return Of(Usual(100, l.Workers), l).Rate * 100 / 1e9 }

// Each thing that holds workers back costs something, and more of it costs more.
func TestOrder(t *testing.T) {
	for _, n := range []int{2, 4, 8, 64} {
		best := times(Load{Workers: n, Events: math.Inf(1), Balance: 1})
		if best > float64(n) || best < 0.8*float64(n) {
			t.Errorf("%d workers without anything that holds them back are %v times as fast", n, best)
		}
		for _, worse := range [][2]Load{
			{{n, math.Inf(1), 0.1, 1}, {n, math.Inf(1), 0.9, 1}},
			{{n, math.Inf(1), 0, 1.1}, {n, math.Inf(1), 0, 2}},
			{{n, 1e5, 0, 1}, {n, 10, 0, 1}},
			{{n, 1e9, 0, 1}, {n, 1e5, 0, 1}},
		} {
			if a, b := times(worse[0]), times(worse[1]); !(best > a && a > b && b > 0) {
				t.Errorf("%d workers: %v, then %v times as fast with %+v, and %v with %+v", n, best, a, worse[0], b,
					worse[1])
			}
		}
		if x := times(Load{Workers: n, Events: math.Inf(1), Balance: float64(n)}); x > 1 {
			t.Errorf("%d workers of which one has all the work are %v times as fast as one", n, x)
		}
	}
}

// Beyond the mean up to which it is added up, the imbalance goes on without a step.
func TestImbalanceLarge(t *testing.T) {
	below, above := Imbalance(4, exactMax*0.99), Imbalance(4, exactMax*1.01)
	if !(below > above) || below-above > 0.03*(below-1) {
		t.Errorf("imbalance of %v below and %v above", below, above)
	}
}
