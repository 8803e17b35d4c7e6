// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMean: values one by one have the interval that all of them together have, also far from 0; constants have one
// without width, and of nothing but zeros, or of one value, nothing is known.
func TestMean(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, far := range []float64{0, 1e6, -3} {
		var m Mean
		var reps []Series
		for n := 1; n <= 200; n++ {
			x := far + rnd.ExpFloat64()
			m.Add(x)
			reps = append(reps, Series{Y: []float64{x}, X: []float64{1}})
			want, _ := Ratio(reps)
			got := m.Interval()
			for _, pair := range [][2]float64{{got.Mean, want.Mean}, {got.Low, want.Low}, {got.High, want.High}} {
				if math.IsInf(pair[1], 0) && pair[0] == pair[1] {
					continue
				}
				if !(math.Abs(pair[0]-pair[1]) <= 1e-9*(1+math.Abs(far))) {
					t.Fatalf("%d values about %v: %+v, want %+v", n, far, got, want)
				}
			}
			if got.N != n || got.Known() != (n > 1) {
				t.Fatalf("%d values: %+v", n, got)
			}
		}
	}
	var zeros, ones Mean
	for range 50 {
		zeros.Add(0)
		ones.Add(1)
	}
	if zeros.Interval().Known() || ones.Interval().HalfWidth != 0 {
		t.Errorf("zeros %+v, ones %+v", zeros.Interval(), ones.Interval())
	}
}
