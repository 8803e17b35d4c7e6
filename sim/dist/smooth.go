// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// smooth is what cores without steps have in common.
type smooth struct{}

func (smooth) next(float64) float64 { return 0 }
func (smooth) atoms() bool          { return false }

// positive is what cores on all numbers above 0 have in common.
type positive struct{ smooth }

func (positive) support() (least, most float64) { return 0, math.Inf(1) }

// expCore is exponential with mean 1.
type expCore struct{ positive }

func (expCore) draw(s *Stream) float64     { return s.ExpFloat64() }
func (expCore) quantile(u float64) float64 { return -math.Log1p(-u) }
func (expCore) cdf(x float64) float64      { return -math.Expm1(-max(x, 0)) }
func (expCore) moments() (m, d float64)    { return 1, 1 }

// uniformCore is uniform from 0 to 1.
type uniformCore struct{ smooth }

func (uniformCore) draw(s *Stream) float64         { return s.Float64() }
func (uniformCore) quantile(u float64) float64     { return u }
func (uniformCore) cdf(x float64) float64          { return max(0, min(x, 1)) }
func (uniformCore) support() (least, most float64) { return 0, 1 }
func (uniformCore) moments() (m, d float64)        { return 0.5, math.Sqrt(1.0 / 12) }

// normalCore is normal with mean 0 and deviation 1.
type normalCore struct{ smooth }

func (normalCore) draw(s *Stream) float64         { return s.NormFloat64() }
func (normalCore) quantile(u float64) float64     { return mathext.NormalQuantile(u) }
func (normalCore) cdf(x float64) float64          { return distuv.UnitNormal.CDF(x) }
func (normalCore) support() (least, most float64) { return math.Inf(-1), math.Inf(1) }
func (normalCore) moments() (m, d float64)        { return 0, 1 }

// logNormalCore has mean 1; sigma is the deviation of its logarithm.
type logNormalCore struct {
	positive
	sigma float64
}

func (c logNormalCore) of(z float64) float64       { return math.Exp(float64(c.sigma*z) - c.sigma*c.sigma/2) }
func (c logNormalCore) draw(s *Stream) float64     { return c.of(s.NormFloat64()) }
func (c logNormalCore) quantile(u float64) float64 { return c.of(mathext.NormalQuantile(u)) }
func (c logNormalCore) moments() (m, d float64)    { return 1, math.Sqrt(math.Expm1(c.sigma * c.sigma)) }

func (c logNormalCore) cdf(x float64) float64 {
	if x <= 0 {
		return 0
	}
	return distuv.UnitNormal.CDF(math.Log(x)/c.sigma + c.sigma/2)
}

// gammaCore has the rate 1.
type gammaCore struct {
	positive
	shape float64
}

func (c *gammaCore) draw(s *Stream) float64 {
	return distuv.Gamma{Alpha: c.shape, Beta: 1, Src: s}.Rand()
}
func (c *gammaCore) cdf(x float64) float64   { return mathext.GammaIncReg(c.shape, max(x, 0)) }
func (c *gammaCore) moments() (m, d float64) { return c.shape, math.Sqrt(c.shape) }

// quantile far below is where mathext loses digits: the first term of the series there is a lower bound, and near for
// small x.
func (c *gammaCore) quantile(u float64) float64 {
	log, _ := math.Lgamma(c.shape + 1)
	low := math.Exp((math.Log(u) + log) / c.shape)
	switch {
	case low < 1e-12:
		return low
	case u > 1e-3: // GammaIncRegInv allocates
		return mathext.GammaIncRegCompInv(c.shape, 1-u)
	}
	high := 2 * low
	for c.cdf(high) < u {
		low, high = high, 2*high
	}
	return bisect(c, low, high, u)
}

// weibullCore has scale 1; exponent is 1 / shape.
type weibullCore struct {
	positive
	exponent float64
}

func (c weibullCore) draw(s *Stream) float64     { return math.Pow(s.ExpFloat64(), c.exponent) }
func (c weibullCore) quantile(u float64) float64 { return math.Pow(-math.Log1p(-u), c.exponent) }
func (c weibullCore) cdf(x float64) float64      { return -math.Expm1(-math.Pow(max(x, 0), 1/c.exponent)) }
func (c weibullCore) moments() (m, d float64) {
	m = math.Gamma(1 + c.exponent)
	return m, math.Sqrt(math.Gamma(1+2*c.exponent) - m*m)
}

// paretoCore begins at 1; exponent is 1 / shape.
type paretoCore struct {
	smooth
	exponent float64
}

func (c paretoCore) draw(s *Stream) float64         { return math.Exp(s.ExpFloat64() * c.exponent) }
func (c paretoCore) quantile(u float64) float64     { return math.Exp(-math.Log1p(-u) * c.exponent) }
func (c paretoCore) cdf(x float64) float64          { return -math.Expm1(-math.Log(max(x, 1)) / c.exponent) }
func (c paretoCore) support() (least, most float64) { return 1, math.Inf(1) }
func (c paretoCore) moments() (m, d float64) {
	shape := 1 / c.exponent
	m, d = math.Inf(1), math.Inf(1)
	if shape > 1 {
		m = shape / (shape - 1)
	}
	if shape > 2 {
		d = math.Sqrt(shape/(shape-2)) / (shape - 1)
	}
	return m, d
}

// triangularCore is on 0 to 1.
type triangularCore struct {
	smooth
	mode float64
}

func (c triangularCore) draw(s *Stream) float64         { return c.quantile(s.Float64()) }
func (c triangularCore) support() (least, most float64) { return 0, 1 }
func (c triangularCore) moments() (m, d float64) {
	return (1 + c.mode) / 3, math.Sqrt((1 - c.mode + c.mode*c.mode) / 18)
}

func (c triangularCore) quantile(u float64) float64 {
	if u < c.mode {
		return math.Sqrt(u * c.mode)
	}
	return 1 - math.Sqrt((1-u)*(1-c.mode))
}

func (c triangularCore) cdf(x float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x < c.mode:
		return x * x / c.mode
	}
	return 1 - (1-x)*(1-x)/(1-c.mode)
}

// betaCore is on 0 to 1.
type betaCore struct {
	smooth
	alpha, beta float64
}

func (c betaCore) draw(s *Stream) float64 {
	x := distuv.Beta{Alpha: c.alpha, Beta: c.beta, Src: s}.Rand()
	if math.IsNaN(x) { // 0 / 0: both of gonum's gamma numbers were too small for a float64
		return c.alpha / (c.alpha + c.beta)
	}
	return x
}
func (c betaCore) quantile(u float64) float64 { return mathext.InvRegIncBeta(c.alpha, c.beta, u) }
func (c betaCore) cdf(x float64) float64 {
	return mathext.RegIncBeta(c.alpha, c.beta, max(0, min(x, 1)))
}
func (c betaCore) support() (least, most float64) { return 0, 1 }
func (c betaCore) moments() (m, d float64) {
	n := c.alpha + c.beta
	return c.alpha / n, math.Sqrt(c.alpha*c.beta/(n+1)) / n
}

// hyperCore is exponential with mean 1/(2p) with probability p, and with mean 1/(2(1 − p)) else: mean 1. p >= 1/2.
type hyperCore struct {
	positive
	p, deviation float64
}

func (c *hyperCore) moments() (m, d float64) { return 1, c.deviation }

func (c *hyperCore) draw(s *Stream) float64 {
	branch := c.p
	if s.Float64() >= c.p {
		branch = 1 - c.p
	}
	return s.ExpFloat64() / (2 * branch)
}

func (c *hyperCore) cdf(x float64) float64 {
	x = max(x, 0)
	return -c.p*math.Expm1(-2*c.p*x) - (1-c.p)*math.Expm1(-2*(1-c.p)*x)
}

// quantile lies between those of the two branches.
func (c *hyperCore) quantile(u float64) float64 {
	e := -math.Log1p(-u)
	return bisect(c, e/(2*c.p), e/(2*(1-c.p)), u)
}

// bisect inverts a distribution function between two numbers, 0 or more; it ends at neighbouring ones.
func bisect(c core, low, high, u float64) float64 {
	for {
		middle := low + (high-low)/2
		if middle <= low || middle >= high {
			return high
		}
		if c.cdf(middle) < u {
			low = middle
		} else {
			high = middle
		}
	}
}
