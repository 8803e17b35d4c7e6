// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// single is what cores of single values have in common.
type single struct{}

func (single) atoms() bool { return true }

// constantCore is always 0.
type constantCore struct{ single }

func (constantCore) draw(*Stream) float64           { return 0 }
func (constantCore) quantile(float64) float64       { return 0 }
func (constantCore) support() (least, most float64) { return 0, 0 }
func (constantCore) moments() (m, d float64)        { return 0, 0 }
func (constantCore) next(float64) float64           { return 1 }
func (constantCore) cdf(x float64) float64 {
	if x < 0 {
		return 0
	}
	return 1
}

// poissonCore counts from 0.
type poissonCore struct {
	single
	mean float64
}

func (c poissonCore) draw(s *Stream) float64         { return distuv.Poisson{Lambda: c.mean, Src: s}.Rand() }
func (c poissonCore) support() (least, most float64) { return 0, math.Inf(1) }
func (c poissonCore) moments() (m, d float64)        { return c.mean, math.Sqrt(c.mean) }
func (c poissonCore) next(u float64) float64         { return above(c, u) }
func (c poissonCore) cdf(x float64) float64 {
	if x < 0 {
		return 0
	}
	return mathext.GammaIncRegComp(math.Floor(x)+1, c.mean)
}

// quantile begins near the normal distribution's and closes in on the step.
func (c poissonCore) quantile(u float64) float64 {
	deviation := math.Sqrt(c.mean)
	guess := max(0, math.Floor(c.mean+deviation*mathext.NormalQuantile(u)))
	low, high := guess-1, guess // cdf(low) < u <= cdf(high)
	for step := 1.0; low >= 0 && c.cdf(low) >= u; step *= 2 {
		low, high = max(-1, low-step), low
	}
	for step := 1.0; c.cdf(high) < u && step < 0x1p40; step *= 2 {
		low, high = high, high+step
	}
	for high-low > 1 {
		if middle := math.Floor((low + high) / 2); c.cdf(middle) < u {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// above is the end of the step of a quantile function at u, for counts.
func above(c core, u float64) float64 {
	k := c.quantile(max(u, 0x1p-1000))
	for range 4 { // rounding may leave u at the end of a step
		if e := c.cdf(k); e > u {
			return e
		}
		k++
	}
	return 0
}

// geometricCore counts trials up to the first success; log is log(1 − p), −Inf for p = 1.
type geometricCore struct {
	single
	p, log float64
}

func (c geometricCore) draw(s *Stream) float64     { return 1 + math.Floor(s.ExpFloat64()/-c.log) }
func (c geometricCore) quantile(u float64) float64 { return max(1, math.Ceil(math.Log1p(-u)/c.log)) }

func (c geometricCore) moments() (m, d float64) { return 1 / c.p, math.Sqrt(1-c.p) / c.p }
func (c geometricCore) next(u float64) float64  { return above(c, u) }
func (c geometricCore) support() (least, most float64) {
	if c.p == 1 {
		return 1, 1
	}
	return 1, math.Inf(1)
}

func (c geometricCore) cdf(x float64) float64 {
	if x < 1 {
		return 0
	}
	return -math.Expm1(math.Floor(x) * c.log)
}

// discreteCore has values in rising order and the sum of the probabilities up to each; the last sum is 1.
type discreteCore struct {
	single
	values, sums []float64
}

func (c *discreteCore) draw(s *Stream) float64     { return c.quantile(s.Float64()) }
func (c *discreteCore) quantile(u float64) float64 { return c.values[sort.SearchFloat64s(c.sums, u)] }
func (c *discreteCore) cdf(x float64) float64 {
	if i := upTo(c.values, x); i > 0 {
		return c.sums[i-1]
	}
	return 0
}
func (c *discreteCore) support() (least, most float64) { return c.values[0], c.values[len(c.values)-1] }
func (c *discreteCore) next(u float64) float64         { return c.sums[min(upTo(c.sums, u), len(c.sums)-1)] }
func (c *discreteCore) moments() (m, d float64) {
	below := 0.0
	for i, x := range c.values {
		m += (c.sums[i] - below) * x
		below = c.sums[i]
	}
	below = 0
	for i, x := range c.values {
		d += (c.sums[i] - below) * (x - m) * (x - m)
		below = c.sums[i]
	}
	return m, math.Sqrt(d)
}

// upTo counts the numbers of a rising list that aren't above x.
func upTo(list []float64, x float64) int {
	return sort.Search(len(list), func(i int) bool { return list[i] > x })
}

// empiricalCore draws one of its samples, which are in rising order.
type empiricalCore struct {
	single
	samples []float64
}

func (c *empiricalCore) draw(s *Stream) float64 { return c.quantile(s.Float64()) }
func (c *empiricalCore) quantile(u float64) float64 {
	return c.samples[max(0, min(int(math.Ceil(u*float64(len(c.samples)))), len(c.samples))-1)]
}
func (c *empiricalCore) cdf(x float64) float64 {
	return float64(upTo(c.samples, x)) / float64(len(c.samples))
}
func (c *empiricalCore) support() (least, most float64) {
	return c.samples[0], c.samples[len(c.samples)-1]
}
func (c *empiricalCore) next(u float64) float64 {
	return min(1, (math.Floor(u*float64(len(c.samples)))+1)/float64(len(c.samples)))
}
func (c *empiricalCore) moments() (m, d float64) {
	n := float64(len(c.samples))
	for _, x := range c.samples {
		m += x / n
	}
	for _, x := range c.samples {
		d += (x - m) * (x - m) / n
	}
	return m, math.Sqrt(d)
}

// linearCore has a distribution function that is straight between points, both rising; the first sum is 0, the last 1.
type linearCore struct{ values, sums []float64 }

func (c *linearCore) atoms() bool            { return false }
func (c *linearCore) draw(s *Stream) float64 { return c.quantile(s.Float64()) }
func (c *linearCore) quantile(u float64) float64 {
	return between(c.sums, c.values, min(max(1, sort.SearchFloat64s(c.sums, u)), len(c.sums)-1), u)
}
func (c *linearCore) support() (least, most float64) { return c.values[0], c.values[len(c.values)-1] }
func (c *linearCore) next(u float64) float64         { return c.sums[min(upTo(c.sums, u), len(c.sums)-1)] }
func (c *linearCore) cdf(x float64) float64 {
	switch i := upTo(c.values, x); i {
	case 0:
		return 0
	case len(c.values):
		return 1
	default:
		return between(c.values, c.sums, i, x)
	}
}
func (c *linearCore) moments() (m, d float64) {
	l := law{scale: 1, low: math.Inf(-1), core: c}
	m1, m2 := l.integrate(c.values[0], 0, 1)
	return spread(c.values[0], m1, m2)
}

// between is y at x, on the line that ends at point i.
func between(xs, ys []float64, i int, x float64) float64 {
	share := (x - xs[i-1]) / (xs[i] - xs[i-1])
	return min(max(ys[i-1]+float64(share*(ys[i]-ys[i-1])), ys[i-1]), ys[i])
}
