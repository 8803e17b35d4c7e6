// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"math"
	"testing"
)

// arrivals draws the arrivals up to an epoch, and checks that each is after the one before.
func arrivals(t *testing.T, r Rate, until float64, s *Stream) (all []float64) {
	t.Helper()
	for now := 0.0; ; {
		next := r.Next(now, s)
		if !(next > now) {
			t.Fatalf("%s: the arrival after %v is at %v", r, now, next)
		}
		if now = next; now >= until {
			return all
		}
		all = append(all, now)
	}
}

// TestRateCounts holds the arrivals of each quarter of a period, over many, against the integral of the rate: a Poisson
// number, within five deviations.
func TestRateCounts(t *testing.T) {
	wave := func(t float64) float64 { return 2 + 2*math.Sin(t*math.Pi/2) } // the period is 4
	waveSum := func(from, to float64) float64 {
		return 2*(to-from) - 4/math.Pi*(math.Cos(to*math.Pi/2)-math.Cos(from*math.Pi/2))
	}
	stepped := Rates(4, Step{0, 3}, Step{1, 0}, Step{2.5, 0.1}, Step{3.5, 20})
	gap := Rates(4, Step{0, 0}, Step{1, 2}, Step{1.25, 0})
	for _, c := range []struct {
		r        Rate
		expected func(from, to float64) float64
	}{
		{ConstantRate(2.5), func(from, to float64) float64 { return 2.5 * (to - from) }},
		{stepped, stepped.Expected}, {gap, gap.Expected}, {RateFunc(4, math.Inf(1), wave), waveSum},
	} {
		const periods = 3000
		s := MakeStream(17, 4, Unpaired)
		var counts [16]int
		for _, x := range arrivals(t, c.r, 4*periods, &s) {
			counts[int(math.Mod(x, 4)*4)]++
		}
		for i, n := range counts {
			want := periods * c.expected(float64(i)/4, float64(i+1)/4)
			if math.Abs(float64(n)-want) > 5*math.Sqrt(want)+1e-6 {
				t.Errorf("%s: %d arrivals in part %d of the period, want %.0f ± %.0f", c.r, n, i, want,
					5*math.Sqrt(want))
			}
		}
	}
}

// TestRateGaps: expected numbers between arrivals are exponential with mean 1 (time change), so that not only
// counts are
// right.
func TestRateGaps(t *testing.T) {
	for _, r := range []Rate{Rates(7, Step{0, 1}, Step{2, 9}, Step{3, 0}, Step{6, 2}), Rates(0, Step{0, 50}, Step{100,
		1})} {
		s := MakeStream(9, 9, Unpaired)
		sum, square, before, n := 0.0, 0.0, 0.0, 0.0
		for _, x := range arrivals(t, r, 7000, &s) {
			e := r.Expected(before, x)
			sum, square, before, n = sum+e, square+e*e, x, n+1
		}
		if math.Abs(sum/n-1) > 5/math.Sqrt(n) || math.Abs(square/n-2) > 5*math.Sqrt(20/n) {
			t.Errorf("%s: gaps have the mean %.4f and the mean square %.4f, want 1 and 2, from %.0f", r, sum/n,
				square/n, n)
		}
	}
}

// TestRateEnds: where no arrival comes any more, Next reports that at once.
func TestRateEnds(t *testing.T) {
	s := MakeStream(1, 1, Unpaired)
	never := func(float64) float64 { return 0 }
	for _, r := range []Rate{Rates(0, Step{0, 1000}, Step{1, 0}), RateFunc(1, 10, never)} {
		if n := len(arrivals(t, r, math.Inf(1), &s)); n > 2000 {
			t.Errorf("%s: %d arrivals", r, n)
		}
		if next := r.Next(1e15, &s); !math.IsInf(next, 1) {
			t.Errorf("%s: an arrival at %v, after the end", r, next)
		}
	}
	refuses(t, "a function that stays 0", func() { RateFunc(1, math.Inf(1), never).Next(0, &s) })
	refuses(t, "a function above its most", func() { RateFunc(1, 9, func(float64) float64 { return 2 }).Next(0, &s) })
	refuses(t, "a function below 0", func() { RateFunc(1, 9, func(float64) float64 { return -1 }).Next(0, &s) })
}

// TestRateFarAway: arrivals advance where an epoch's last bit is longer than the gap, and after very long times.
func TestRateFarAway(t *testing.T) {
	s := MakeStream(1, 1, Unpaired)
	for _, r := range []Rate{ConstantRate(1e12), Rates(3, Step{0, 1e12}, Step{1, 0}), Rates(1e12, Step{0, 1},
		Step{1e-9, 0}),
		Rates(1e-9, Step{0, 1}), Rates(1e12, Step{0, 5e-324})} {
		for now := 1e12; now < 1e13; now *= 1.1 {
			if next := r.Next(now, &s); !(next > now) {
				t.Errorf("%s: the arrival after %v is at %v", r, now, next)
			}
		}
	}
}

func TestRateAt(t *testing.T) {
	r := Rates(10, Step{0, 1}, Step{5, 2})
	for _, c := range [][2]float64{{0, 1}, {4.9, 1}, {5, 2}, {9.9, 2}, {10, 1}, {25, 2}, {-1, 1}} {
		if x := r.At(c[0]); x != c[1] {
			t.Errorf("the rate at %v is %v, want %v", c[0], x, c[1])
		}
	}
	if n := r.Expected(5, 30); n != 40 {
		t.Errorf("%v arrivals are expected, want 40", n)
	}
	f := RateFunc(3, 8, func(t float64) float64 { return 1 })
	if f.At(1) != 1 || f.At(8) != 0 || !math.IsNaN(f.Expected(0, 1)) || r.String() == "" || f.String() == "" {
		t.Errorf("%s at 1 and 8: %v, %v", f, f.At(1), f.At(8))
	}
}

func BenchmarkNext(b *testing.B) {
	for name, r := range map[string]Rate{
		"constant": ConstantRate(1), "steps": Rates(24, Step{0, 1}, Step{6, 9}, Step{18, 2}),
		"function": RateFunc(2, math.Inf(1), func(float64) float64 { return 1 }),
	} {
		b.Run(name, func(b *testing.B) {
			s := MakeStream(1, 2, Unpaired)
			for b.Loop() {
				sink = r.Next(sink, &s)
			}
		})
	}
}
