// SPDX-License-Identifier: Apache-2.0

package phi

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/seed"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Phi is what it says: where intervals are drawn from a normal distribution, the share of them after which phi is above
// p is about 10^-p.
func TestShareOfLateArrivals(t *testing.T) {
	r := seed.Rand(t)
	const arrivals = 400_000
	above := map[float64]int{1: 0, 2: 0, 3: 0}
	var d Detector
	at := time.Duration(0)
	for i := range arrivals + window {
		next := at + time.Duration((1+0.2*r.NormFloat64())*float64(time.Second))
		if i >= window {
			value := d.Phi(next)
			for p := range above {
				if value > p {
					above[p]++
				}
			}
		}
		d.Arrived(next)
		at = next
	}
	for p, n := range above {
		// The window has 200 intervals, so its mean and deviation differ a little from the distribution's.
		if want := arrivals * math.Pow(10, -p); float64(n) < 0.8*want || float64(n) > 1.6*want {
			t.Errorf("phi was above %v %d times, want about %.0f", p, n, want)
		}
	}
}

// Phi never falls while nothing comes, is a number at any time, and passes the threshold; the next arrival takes it
// back.
func TestPhiRises(t *testing.T) {
	for _, interval := range []time.Duration{0, time.Microsecond, 250 * time.Millisecond, 10 * time.Second} {
		var d Detector
		if d.Phi(time.Hour) != 0 {
			t.Error("phi of a peer that never came")
		}
		at := time.Duration(0)
		for range 3 * window {
			at += interval
			d.Arrived(at)
		}
		before := 0.0
		for waited := time.Duration(0); waited < 1000*time.Hour; waited += waited/100 + time.Millisecond {
			phi := d.Phi(at + waited)
			if !(phi >= before) || math.IsInf(phi, 0) {
				t.Fatalf("intervals of %v: phi %v after %v, %v before", interval, phi, waited, before)
			}
			before = phi
		}
		if before < Threshold {
			t.Errorf("intervals of %v: phi %v in the end", interval, before)
		}
		// 5.6 deviations, of no less than 100 ms each, are one in 10^8.
		if phi := d.Phi(at + interval + 550*time.Millisecond); phi >= Threshold {
			t.Errorf("intervals of %v: phi %v before the threshold", interval, phi)
		}
		if phi := d.Phi(at + interval + 570*time.Millisecond); phi < Threshold {
			t.Errorf("intervals of %v: phi %v behind the threshold", interval, phi)
		}
		d.Arrived(at + 1000*time.Hour)
		if phi := d.Phi(at + 1000*time.Hour); phi > 1 {
			t.Errorf("intervals of %v: phi %v at an arrival", interval, phi)
		}
	}
}

// Before there are intervals, one second is expected, and a peer that never comes again is found.
func TestFirst(t *testing.T) {
	var d Detector
	d.Arrived(5 * time.Second)
	if phi := d.Phi(6 * time.Second); math.Abs(phi-math.Log10(2)) > 1e-12 {
		t.Errorf("phi %v after the expected second, want log10 2", phi)
	}
	if phi := d.Phi(7 * time.Second); phi < 4 || phi > 5 { // four deviations of 250 ms
		t.Errorf("phi %v after two seconds", phi)
	}
	if phi := d.Phi(8 * time.Second); phi < Threshold {
		t.Errorf("phi %v after three seconds", phi)
	}
	after := d
	after.Resumed(9 * time.Second)
	if after.Phi(10*time.Second) != d.Phi(6*time.Second) || after.count != d.count {
		t.Errorf("resumed: phi %v with %d intervals", after.Phi(10*time.Second), after.count)
	}
	if d.Arrived(time.Second); d.last != 5*time.Second || d.intervals[2] != 0 {
		t.Errorf("an arrival before the last one: %v", d.intervals[:3])
	}
}

// The two forms of the tail meet, and no step of it falls.
func TestTail(t *testing.T) {
	if a, b := tail(math.Nextafter(20, 0)), tail(20); math.Abs(a-b) > 0.001 {
		t.Errorf("%v and %v at 20", a, b)
	}
	var values []float64
	for x := -50.0; x < 50; x += 0.01 {
		values = append(values, tail(x))
	}
	if !slices.IsSorted(values) || values[0] != 0 {
		t.Error("it falls, or doesn't begin at 0")
	}
}

func BenchmarkArrived(b *testing.B) {
	var d Detector
	b.ReportAllocs()
	for i := range b.N {
		d.Arrived(time.Duration(i))
	}
}

// TestResolution: where times are known to half a second only, an interval that is by three of them longer than all
// before isn't unusual; one by six is.
func TestResolution(t *testing.T) {
	d := Detector{Resolution: 500 * time.Millisecond}
	at := time.Duration(0)
	for range 3 * window {
		at += time.Second
		d.Arrived(at)
	}
	if phi := d.Phi(at + 2500*time.Millisecond); phi < 2 || phi > 3 { // three deviations
		t.Errorf("phi %v after 2.5 s", phi)
	}
	if phi := d.Phi(at + 4*time.Second); phi < Threshold {
		t.Errorf("phi %v after 4 s", phi)
	}
}
