// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"math"
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	s, err := Measure()
	if err != nil || !(s > 0 && s < 1) {
		t.Errorf("latency of %v s, error %v", s, err)
	}
}

func TestCoupling(t *testing.T) {
	// 0.1 s × 15,000 events per simulated second ÷ (0.2 µs × 5 M/s) = 1500 ÷ 1.
	if c := Coupling(0.1, 15000, 0.2e-6, 5e6); c < 1499.999 || c > 1500.001 {
		t.Errorf("coupling %v, want 1500", c)
	}
	tiny, huge := math.SmallestNonzeroFloat64, math.MaxFloat64
	for _, c := range [][4]float64{{tiny, tiny, 1, 1}, {tiny, 3, 1e-6, 1e6}, {huge, huge, 1e-9, 1},
		{huge, 1, tiny, tiny}} {
		if got := Coupling(c[0], c[1], c[2], c[3]); !(got > 0 && got <= huge) {
			t.Errorf("coupling %v of %v, want a number > 0", got, c)
		}
	}
	if c := Coupling(0, 1, 0, 0); c != 0 {
		t.Errorf("coupling %v of nothing known, want 0", c)
	}
}

// The measurement ends with its time, however busy the machine is, and has something to
// say all the same.
func TestMeasureEnds(t *testing.T) {
	for limit, want := range map[time.Duration]int{0: 1, time.Hour: 50} {
		trips, err := roundTrips(50, limit)
		if err != nil || len(trips) != want {
			t.Errorf("within %v: %d round trips, %v; want %d", limit, len(trips), err, want)
		}
	}
}
