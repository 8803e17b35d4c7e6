// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"math"
	"testing"
)

// At any time as many processes are hot as are said, one beside the other, and in a round each as long as the others.
func TestHotSpot(t *testing.T) {
	for _, lps := range []int{1, 2, 7, 100} {
		for hot := range lps + 1 {
			for _, wander := range []float64{0, 1e-9, 3, 1e9} {
				w := work{lps: lps, hot: hot, wander: wander}
				times := make([]int, lps)
				rounds := 4
				for step := range rounds * lps {
					now := wander * (float64(step) + 0.5) / float64(lps)
					inside, edges := 0, 0
					for lp := range lps {
						is := w.inside(lp, now)
						if is {
							inside++
							times[lp]++
						}
						if is != w.inside((lp+1)%lps, now) {
							edges++
						}
					}
					if inside != hot || edges > 2 {
						t.Fatalf("%+v at %v: %d are hot, with %d edges", w, now, inside, edges)
					}
				}
				for lp, n := range times {
					if wander > 0 && n != rounds*hot || wander == 0 && (n > 0) != (lp < hot) {
						t.Fatalf("%+v: process %d was hot %d times", w, lp, n)
					}
				}
			}
		}
	}
	w := work{lps: 5, hot: 5, wander: 1}
	for _, now := range []float64{0, math.Nextafter(1, 0), 1, 1e300} {
		if !w.inside(0, now) || !w.inside(4, now) {
			t.Errorf("at %v not all are hot, want all", now)
		}
	}
}

// Every step goes on from the one before, and none is left out.
func TestCalculate(t *testing.T) {
	x := uint64(1)
	for n := range 100 {
		if got := calculate(1, n); got != x || x == 0 {
			t.Fatalf("%d steps give %d, want %d", n, got, x)
		}
		x = calculate(x, 1)
	}
}
