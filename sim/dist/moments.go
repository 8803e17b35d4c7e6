// SPDX-License-Identifier: Apache-2.0

package dist

import "math"

// truncated is a law under the condition that it lies from least to most: its quantiles from `from` to `to`.
type truncated struct {
	base        *law
	from, to    float64
	least, most float64
}

// value is the base's quantile at a share of what is kept.
func (c *truncated) value(u float64) float64 {
	u = c.from + float64(u*(c.to-c.from))
	return c.base.at(c.base.core.quantile(min(max(u, 0x1p-1000), 1-0x1p-53)))
}

// draw draws again what lies outside, where that is little; it inverts else, and after eight draws in vain.
func (c *truncated) draw(s *Stream) float64 {
	for i := 0; i < 8 && c.to-c.from >= 0.5; i++ {
		if x := c.base.draw(s); x >= c.least && x <= c.most {
			return x
		}
	}
	return c.quantile(s.Float64())
}

func (c *truncated) quantile(u float64) float64 { return min(max(c.value(u), c.least), c.most) }

func (c *truncated) cdf(x float64) float64 {
	switch {
	case x < c.least:
		return 0
	case x >= c.most:
		return 1
	}
	return max(0, min(1, (c.base.cdf(x, 1)-c.from)/(c.to-c.from)))
}

func (c *truncated) support() (least, most float64) { return c.least, c.most }

func (c *truncated) next(u float64) float64 {
	e := c.base.core.next(c.from + float64(u*(c.to-c.from)))
	if e == 0 {
		return 0
	}
	return min(1, (e-c.from)/(c.to-c.from))
}

func (c *truncated) atoms() bool { return c.base.core.atoms() }

// moments integrates what is kept where that is bounded; else it takes what is left out from the base's own moments.
func (c *truncated) moments() (mean, deviation float64) {
	p := c.to - c.from
	if !math.IsInf(c.most, 1) {
		about := c.least
		if math.IsInf(about, -1) {
			about = c.most
		}
		m1, m2 := c.base.integrate(about, c.from, c.to)
		return spread(about, m1/p, m2/p)
	}
	mean, deviation = c.base.moments()
	mean -= c.least
	m1, m2 := c.base.integrate(c.least, 0, c.from)
	return spread(c.least, (mean-m1)/p, (deviation*deviation+mean*mean-m2)/p)
}

// spread gives mean and deviation of the moments about a point.
func spread(about, m1, m2 float64) (mean, deviation float64) {
	if math.IsInf(m1, 0) || math.IsInf(m2, 0) {
		return about + m1, math.Inf(1)
	}
	return about + m1, math.Sqrt(max(0, m2-m1*m1))
}

// moments are those of the core, but for what lies below low.
func (l *law) moments() (mean, deviation float64) {
	mean, deviation = l.core.moments()
	mean, deviation = l.plus+float64(l.scale*mean), l.scale*deviation
	if least, _ := l.core.support(); l.plus+float64(l.scale*least) >= l.low {
		return mean, deviation
	}
	free := *l
	free.low = math.Inf(-1)
	m1, m2 := free.integrate(l.low, 0, l.core.cdf((l.low-l.plus)/l.scale))
	mean -= l.low
	return spread(l.low, mean-m1, deviation*deviation+mean*mean-m2)
}

// piecesMax bounds the pieces that are summed; what is left then has so many that it is as good as smooth.
const piecesMax = 1 << 20

// integrate integrates x − about and its square over the quantiles from a to b.
func (l *law) integrate(about, a, b float64) (m1, m2 float64) {
	add := func(u, weight float64) {
		x := l.at(l.core.quantile(min(max(u, 0x1p-1000), 1-0x1p-53))) - about
		m1 += weight * x
		m2 += weight * x * x
	}
	if k := min(b, l.core.cdf((l.low-l.plus)/l.scale)); !math.IsInf(l.low, -1) && k > a { // all of it is low
		m1, m2 = (k-a)*(l.low-about), (k-a)*(l.low-about)*(l.low-about)
		a = k
	}
	for range piecesMax {
		e := min(l.core.next(a), b)
		if e <= a {
			break
		}
		middle, half := (a+e)/2, (e-a)/2 // Gauss and Legendre's three points are exact for straight pieces
		add(middle-half*math.Sqrt(0.6), half*5/9)
		add(middle, half*8/9)
		add(middle+half*math.Sqrt(0.6), half*5/9)
		a = e
	}
	if a < b {
		doubleExponential(a, b, add)
	}
	return m1, m2
}

// doubleExponential gives points from a to b with their weights (Takahasi and Mori 1974): they are dense at both ends,
// where quantile functions are steep.
func doubleExponential(a, b float64, add func(u, weight float64)) {
	const (
		step  = 1.0 / 32
		width = 4.0
	)
	for t := -width; t <= width; t += step {
		w := 1 / (1 + math.Exp(-math.Pi*math.Sinh(t)))
		add(a+(b-a)*w, (b-a)*step*math.Pi*math.Cosh(t)*w*(1-w))
	}
}
