// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/disco-sim/disco/internal/race"
)

// grid is every kind, with usual and extreme parameters, and every change.
func grid() []Dist {
	return []Dist{
		Constant(2), Exponential(3), Uniform(-1, 4), Triangular(0, 1, 4), Triangular(0, 0, 1), Triangular(0, 1, 1),
		Normal(5, 2), LogNormal(3, 0.5), LogNormal(3, 4), Erlang(3, 4), Gamma(3, 0.3), Gamma(3, 2), Gamma(1, 10),
		Weibull(2, 0.7), Weibull(2, 3), Pareto(1, 3), Pareto(2, 12), Beta(1, 3, 2, 5), Beta(0, 1, 0.3, 0.3),
		Hyperexponential(2, 1), Hyperexponential(2, 3), Poisson(0.3), Poisson(40), Poisson(3e6), Geometric(0.2),
		Geometric(1), Bernoulli(0.3), Bernoulli(0), Discrete([]float64{5, 1, 2.5}, []float64{1, 2, 1}),
		Empirical([]float64{3, 1, 1, 9, 4.5}), Linear([]float64{0, 1, 3, 7}, []float64{0, 0.2, 0.2, 1}),
		Exponential(3).Plus(0.5), Gamma(2, 0.5).Times(0.1).Plus(1).Times(3), Normal(1, 1).AtLeast(0),
		Exponential(1).AtLeast(2).Plus(1).Times(2), Normal(1, 1).Truncate(0, math.Inf(1)), Exponential(2).Truncate(1,
			3),
		Poisson(4).Truncate(2.5, 6.5), Poisson(4).Times(0.1).Truncate(0.3, math.Inf(1)).Plus(1),
		Poisson(7).AtLeast(5.5),
		Geometric(0.1).Truncate(3, math.Inf(1)), Pareto(1, 3).Truncate(1, 20), Pareto(1, 5).AtLeast(1.1),
		Empirical([]float64{0.1, 0.2, 0.3, 0.7}).Times(3).Truncate(0.6, 1), Gamma(3, 0.7).Truncate(0, 4).AtLeast(1),
		Normal(0, 1).Truncate(math.Inf(-1), 0.5), Linear([]float64{0, 1, 3}, []float64{0, 0.7, 1}).AtLeast(0.5),
		Weibull(1, 1.5).AtLeast(0.3).Truncate(0, 2), Hyperexponential(1, 2).Truncate(0.1, math.Inf(1)),
	}
}

// sample draws n numbers, in rising order.
func sample(d Dist, n int, pair Pair) []float64 {
	s := MakeStream(7, 11, pair)
	all := make([]float64, n)
	for i := range all {
		all[i] = d.Draw(&s)
	}
	slices.Sort(all)
	return all
}

// TestDrawnFitsCDF holds what is drawn against the distribution function: the largest distance (Kolmogorov and Smirnov)
// at the numbers and just below, where single ones have a probability. 2.2/√n is passed by chance once in 8,000
// draws of
// a continuous distribution, and less often of others; the seeds are fixed.
func TestDrawnFitsCDF(t *testing.T) {
	n := 8_000
	if testing.Short() {
		n = 500
	}
	for _, d := range grid() {
		for _, pair := range []Pair{Unpaired, Paired, Opposite} {
			all := sample(d, n, pair)
			worst := 0.0
			for i := 0; i < n; {
				j := i
				for j < n && all[j] == all[i] {
					j++
				}
				below := d.CDF(math.Nextafter(all[i], -1))
				if d.law.core.atoms() {
					below = d.CDF(all[i] - 1e-9)
				}
				worst = max(worst, math.Abs(d.CDF(all[i])-float64(j)/float64(n)),
					math.Abs(below-float64(i)/float64(n)))
				i = j
			}
			if most := 2.2 / math.Sqrt(float64(n)); worst > most {
				t.Errorf("%s, pair %d: the distance from its CDF is %.4f, want at most %.4f", d, pair, worst, most)
			}
		}
	}
}

// TestMoments holds Mean and StdDev against what is drawn, within six standard errors, and against sums over quantiles.
func TestMoments(t *testing.T) {
	const n = 20_000
	for _, d := range grid() {
		mean, deviation := d.Mean(), d.StdDev()
		var sum, square float64
		for i := range n {
			x := d.Quantile((float64(i) + 0.5) / n)
			sum += x / n
			square += (x - mean) * (x - mean) / n
		}
		if heavy := d.String() == "pareto(1, 3)" || d.String() == "log_normal(3, 4)" ||
			d.String() == "gamma(1, 10)"; !heavy {
			near(t, d, "the mean of quantiles", sum, mean, 1e-3*deviation+1e-9*math.Abs(mean))
			near(t, d, "the deviation of quantiles", math.Sqrt(square), deviation, 1e-2*deviation+1e-9)
		}
		s := MakeStream(3, 5, Unpaired)
		sum = 0
		for range n {
			sum += d.Draw(&s) / n
		}
		near(t, d, "the mean of draws", sum, mean, 6*deviation/math.Sqrt(n)+1e-9*math.Abs(mean))
	}
}

func near(t *testing.T, d Dist, what string, found, want, within float64) {
	t.Helper()
	if !(math.Abs(found-want) <= within) {
		t.Errorf("%s: %s is %v, want %v ± %v", d, what, found, want, within)
	}
}

// TestKnownMoments has figures that were worked out by hand.
func TestKnownMoments(t *testing.T) {
	for _, c := range []struct {
		d               Dist
		mean, deviation float64
	}{
		{Exponential(3), 3, 3}, {Uniform(0, 12), 6, math.Sqrt(12)}, {Erlang(6, 4), 6, 3}, {Gamma(4, 0.25), 4, 1},
		{LogNormal(2, 1.5), 2, 3}, {Hyperexponential(2, 3), 2, 6}, {Poisson(9), 9, 3}, {Geometric(0.25), 4,
			math.Sqrt(12)},
		{Bernoulli(0.2), 0.2, 0.4}, {Pareto(1, 3), 1.5, math.Sqrt(0.75)}, {Weibull(2, 1), 2, 2},
		{Triangular(0, 3, 3), 2, math.Sqrt(0.5)}, {Beta(0, 1, 1, 1), 0.5, math.Sqrt(1.0 / 12)},
		{Discrete([]float64{1, 3}, []float64{1, 1}), 2, 1}, {Empirical([]float64{1, 1, 4}), 2, math.Sqrt2},
		{Linear([]float64{0, 12}, []float64{0, 1}), 6, math.Sqrt(12)},
		{Exponential(1).Truncate(2, math.Inf(1)), 3, 1}, // without memory
		{Exponential(2).AtLeast(2), 2 + 2/math.E, 2 * math.Sqrt(2/math.E-1/(math.E*math.E))},
		{Normal(0, 1).AtLeast(0), 1 / math.Sqrt(2*math.Pi), math.Sqrt(0.5 - 1/(2*math.Pi))},
		{Normal(0, 1).Truncate(0, math.Inf(1)), math.Sqrt(2 / math.Pi), math.Sqrt(1 - 2/math.Pi)},
		{Uniform(0, 4).Truncate(1, 2), 1.5, math.Sqrt(1.0 / 12)}, {Uniform(0, 1).AtLeast(0.5), 0.625,
			math.Sqrt(5.0/12 - 0.625*0.625)},
		{Poisson(3).Truncate(1, 1), 1, 0}, {Geometric(0.25).Truncate(5, math.Inf(1)), 8, math.Sqrt(12)},
		{Pareto(1, 3).Truncate(2, math.Inf(1)), 3, 2 * math.Sqrt(0.75)}, {Exponential(3).Times(2).Plus(1), 7, 6},
	} {
		near(t, c.d, "the mean", c.d.Mean(), c.mean, 1e-9*c.mean)
		near(t, c.d, "the deviation", c.d.StdDev(), c.deviation, 1e-7*c.mean)
	}
	if d := Pareto(1, 1); !math.IsInf(d.Mean(), 1) || !math.IsInf(d.AtLeast(2).StdDev(), 1) {
		t.Errorf("%s has the mean %v", d, d.Mean())
	}
}

// TestQuantile: quantiles invert the distribution function, rise, and stay from Min to Max, in the farthest tails too.
func TestQuantile(t *testing.T) {
	for _, d := range grid() {
		before := math.Inf(-1)
		for _, u := range []float64{0, 0x1p-53, 1e-12, 1e-6, 0.01, 0.2, 0.25, 0.5, 0.7, 0.9, 0.999, 1 - 1e-9,
			1 - 0x1p-53, 1} {
			x := d.Quantile(u)
			if !(x >= before) || x < d.Min() || x > d.Max() || u > 0 && u < 1 && math.IsInf(x, 0) {
				t.Errorf("%s: Quantile(%v) is %v, behind %v, from %v to %v", d, u, x, before, d.Min(), d.Max())
			}
			slack := 1e-9 * math.Max(1, math.Abs(x))
			if u > 0 && u < 1 && (d.CDF(x+slack) < u-1e-7 || d.CDF(x-slack) > u+1e-7) {
				t.Errorf("%s: Quantile(%v) is %v, where the CDF goes from %v to %v", d, u, x, d.CDF(x-slack),
					d.CDF(x+slack))
			}
			before = x
		}
	}
}

// fixed is a source of one number, to draw extreme ones.
func fixedDraw(d Dist, u uint64, pair Pair) float64 {
	s := MakeStream(0, 0, pair)
	s.flip = s.pcg.Uint64() ^ u // the next is another: find it again
	s.pcg.Seed(0, 0)
	return d.Draw(&s)
}

// TestAlwaysFinite draws with the most extreme numbers that a stream can give, and parameters at their bounds.
func TestAlwaysFinite(t *testing.T) {
	all := grid()
	for _, k := range kinds {
		for corner := range 1 << len(k.Parameters) {
			a := make([]float64, len(k.Parameters))
			for i, p := range k.Parameters {
				a[i] = extreme(p, corner>>i&1 == 1)
			}
			if d, wrong := k.of(a); wrong.want == "" {
				all = append(all, d, d.AtLeast(1))
			}
		}
	}
	for _, d := range all {
		for _, u := range []uint64{0, 1, 1 << 12, math.MaxUint64, math.MaxUint64 - 1<<12, 1 << 63} {
			for _, pair := range []Pair{Unpaired, Paired} {
				x := fixedDraw(d, u, pair)
				if math.IsNaN(x) || math.IsInf(x, 0) || x < d.Min() || x > d.Max() {
					t.Errorf("%s: drew %v with %#x and pair %d, want a finite number from %v to %v", d, x, u, pair,
						d.Min(),
						d.Max())
				}
			}
		}
		for _, x := range sample(d, 300, Unpaired) {
			if math.IsNaN(x) || math.IsInf(x, 0) || x < d.Min() || x > d.Max() {
				t.Errorf("%s: drew %v, want a finite number from %v to %v", d, x, d.Min(), d.Max())
				break
			}
		}
	}
}

// extreme is the least or the largest number that a parameter takes.
func extreme(p Parameter, high bool) float64 {
	candidates := []float64{-1e18, 5e-324, 1e-9, 0.001, 0.1, 0, 1, 10, 1000, 1e4, 1e6, 1e9, 1e18}
	slices.Sort(candidates)
	if high {
		slices.Reverse(candidates)
	}
	for _, x := range candidates {
		if p.Range.Holds(x) {
			return x
		}
	}
	panic(p.Name)
}

// TestOpposite: pairs are opposite number for number, and correlate negatively for every distribution.
func TestOpposite(t *testing.T) {
	a, b := MakeStream(1, 2, Paired), MakeStream(1, 2, Opposite)
	for range 1000 {
		if u, v := a.Float64(), b.Float64(); u+v != 1 || u <= 0 || v <= 0 {
			t.Fatalf("%v and %v don't add up to 1", u, v)
		}
	}
	const n = 4000
	for _, d := range grid() {
		if d.StdDev() == 0 {
			continue
		}
		var xy, x, y, xx, yy float64
		for range n {
			p, q := d.Draw(&a), d.Draw(&b)
			x, y, xx, yy, xy = x+p, y+q, xx+p*p, yy+q*q, xy+p*q
		}
		r := (xy - x*y/n) / math.Sqrt((xx-x*x/n)*(yy-y*y/n))
		if most := -0.05; !(r < most) && d.String() != "gamma(1, 10)" {
			t.Errorf("%s: partners correlate by %.3f, want below %v", d, r, most)
		}
	}
}

// TestOneNumberADraw: in a pair, partners stay in step whatever is drawn.
func TestOneNumberADraw(t *testing.T) {
	for _, d := range grid() {
		if d.law.kind == constant {
			continue
		}
		s, count := MakeStream(4, 4, Paired), MakeStream(4, 4, Paired)
		d.Draw(&s)
		count.Uint64()
		if s != count {
			t.Errorf("%s takes another number of random numbers than one", d)
		}
	}
}

func TestNamed(t *testing.T) {
	d := Exponential(3)
	a, b, c := d.Named("arrivals"), Uniform(1, 2).Named("arrivals"), d.Named("service")
	switch {
	case d.ID() != 0 || d.Name() != "":
		t.Errorf("without a name it has the number %d and the name %q", d.ID(), d.Name())
	case a.ID() == 0 || a.ID() != b.ID() || a.ID() == c.ID():
		t.Errorf("numbers of names are %d, %d and %d", a.ID(), b.ID(), c.ID())
	case a.Plus(1).Times(2).AtLeast(2).Truncate(3, 9).Name() != "arrivals":
		t.Errorf("a change took the name")
	case a.Named("").ID() != 0:
		t.Errorf("the name stays")
	case ConstantRate(2).Named("arrivals").ID() != a.ID():
		t.Errorf("rates have numbers of their own")
	}
	if size := unsafe.Sizeof(d); size > 16 {
		t.Errorf("a Dist has %d bytes", size)
	}
	if size := unsafe.Sizeof(Stream{}); size > 32 {
		t.Errorf("a Stream has %d bytes", size)
	}
}

func TestZero(t *testing.T) {
	var d Dist
	if d.IsSet() || d.String() != "none" || (Rate{}).IsSet() || (Rate{}).String() != "none" {
		t.Errorf("the zero Dist is set: %s", d)
	}
	s := MakeStream(1, 1, Unpaired)
	for name, f := range map[string]func(){
		"Draw": func() { d.Draw(&s) }, "Mean": func() { d.Mean() }, "Plus": func() { d.Plus(1) },
		"Named": func() { d.Named("x") }, "Next": func() { Rate{}.Next(0, &s) },
	} {
		refuses(t, name, f)
	}
}

func refuses(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: want a panic", what)
		}
	}()
	f()
}

func TestConstructorsRefuse(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for i, f := range []func(){
		func() { Exponential(0) }, func() { Exponential(-1) }, func() { Exponential(nan) }, func() { Exponential(inf) },
		func() { Exponential(1e308) }, func() { Constant(inf) }, func() { Uniform(2, 2) }, func() { Uniform(3, 2) },
		func() { Triangular(0, 3, 2) }, func() { Triangular(1, 1, 1) }, func() { Normal(0, 0) }, func() {
			Erlang(1,
				0)
		},
		func() { Gamma(1, 0) }, func() { Hyperexponential(1, 0.9) }, func() { Bernoulli(1.1) }, func() { Geometric(0) },
		func() { Discrete(nil, nil) }, func() { Discrete([]float64{1}, []float64{0}) }, func() { Empirical(nil) },
		func() { Discrete([]float64{1}, []float64{-1}) }, func() { Discrete([]float64{1, 2}, []float64{1}) },
		func() { Empirical([]float64{nan}) }, func() { Linear([]float64{1}, []float64{0}) },
		func() { Linear([]float64{1, 1}, []float64{0, 1}) }, func() { Linear([]float64{1, 2}, []float64{0, 0.5}) },
		func() { Linear([]float64{1, 2}, []float64{0.1, 1}) }, func() {
			Linear([]float64{1, 2, 3}, []float64{0, 2,
				1})
		},
		func() { Exponential(1).Times(0) }, func() { Exponential(1).Times(-1) }, func() { Exponential(1).Times(inf) },
		func() { Exponential(1e18).Times(2) }, func() { Exponential(1).Plus(nan) },
		func() { Constant(1e18).Plus(1e18) },
		func() { Exponential(1).AtLeast(nan) }, func() { Exponential(1).Truncate(2, 1) },
		func() { Exponential(1).Truncate(50, 60) }, func() { Exponential(1).Truncate(nan, 1) },
		func() { Poisson(3).Truncate(1.2, 1.8) }, func() { Exponential(1).Quantile(nan) },
		func() { Exponential(1).Quantile(1.1) },
		func() { Rates(0) }, func() { Rates(0, Step{1, 1}) }, func() { Rates(0, Step{0, 0}) }, func() {
			Rates(5,
				Step{0, 1}, Step{5, 1})
		},
		func() { Rates(0, Step{0, 1}, Step{0, 2}) }, func() { Rates(0, Step{0, nan}) }, func() { ConstantRate(-1) },
		func() { RateFunc(0, 1, func(float64) float64 { return 0 }) }, func() { RateFunc(1, 1, nil) },
	} {
		refuses(t, fmt.Sprintf("case %d", i), f)
	}
}

// TestNoAllocations: drawing is on the event path.
func TestNoAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	s, p := MakeStream(1, 2, Unpaired), MakeStream(1, 2, Paired)
	daily := Rates(86400, Step{0, 1}, Step{3600, 5})
	thin := RateFunc(2, math.Inf(1), func(t float64) float64 { return 1 + math.Sin(t) })
	now := 0.0
	check := func(what string, f func()) {
		if n := testing.AllocsPerRun(1, func() {
			for range 200 {
				f()
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations in 200 draws", what, n)
		}
	}
	for _, d := range grid() {
		check(d.String(), func() { d.Draw(&s) })
		check(d.String()+", in a pair", func() { d.Draw(&p) })
	}
	check("rates", func() { now = daily.Next(now, &s) })
	check("a function's rate", func() { now = thin.Next(now, &s) })
	check("IntN", func() { s.IntN(7) })
}

var sink float64

func BenchmarkDraw(b *testing.B) {
	for _, d := range grid() {
		for pair, name := range map[Pair]string{Unpaired: "", Paired: "/paired"} {
			b.Run(d.String()+name, func(b *testing.B) {
				s := MakeStream(1, 2, pair)
				for b.Loop() {
					sink = d.Draw(&s)
				}
			})
		}
	}
}
