// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"
)

// Distributions of service times and of times between arrivals.
const (
	Exponential      = "exponential"
	Constant         = "constant"
	Uniform          = "uniform"          // from Min to Max
	Erlang           = "erlang"           // a sum of Shape exponential times
	Gamma            = "gamma"            // any CV
	LogNormal        = "log_normal"       // any CV; Mean is the mean itself, not that of the logarithm
	Hyperexponential = "hyperexponential" // one of two exponential times; CV >= 1, balanced means
)

// Dist is the distribution of a time.
type Dist struct {
	Kind     string
	Mean     float64
	CV       float64 // standard deviation over mean; of Gamma, LogNormal, Hyperexponential
	Shape    int     // of Erlang
	Min, Max float64 // of Uniform
}

// scv is the squared coefficient of variation.
func (d Dist) scv() float64 {
	switch d.Kind {
	case Constant:
		return 0
	case Exponential:
		return 1
	case Erlang:
		return 1 / float64(d.Shape)
	case Uniform:
		return (d.Max - d.Min) * (d.Max - d.Min) / 12 / (d.Mean * d.Mean)
	}
	return d.CV * d.CV
}

// least is a time below which no draw lies.
func (d Dist) least() float64 {
	switch d.Kind {
	case Constant:
		return d.Mean
	case Uniform:
		return d.Min
	}
	return 0
}

// letter is the distribution's place in Kendall's notation.
func (d Dist) letter() string {
	switch d.Kind {
	case Exponential:
		return "M"
	case Constant:
		return "D"
	case Erlang:
		return fmt.Sprintf("E%d", d.Shape)
	case Hyperexponential:
		return "H2"
	}
	return "G"
}

// sampler draws from a Dist. The usual kinds are drawn without a call through an
// interface.
type sampler struct {
	kind  string
	scale float64
	least float64
	rnd   *rand.Rand
	other distuv.Rander
	p     float64 // of the hyperexponential's first branch

	// quantum, when not 0, makes every draw a whole multiple of it: tests then compare
	// sums to the last bit, whatever the order in which they are made.
	quantum float64

	src rand.Source // of rnd and other
}

func newSampler(d Dist, src rand.Source, quantum float64) sampler {
	s := sampler{kind: d.Kind, scale: d.Mean, src: src, rnd: rand.New(src), quantum: quantum}
	switch d.Kind {
	case Uniform:
		s.least, s.scale = d.Min, d.Max-d.Min
	case Erlang:
		s.other = distuv.Gamma{Alpha: float64(d.Shape), Beta: float64(d.Shape) / d.Mean, Src: src}
	case Gamma:
		alpha := 1 / (d.CV * d.CV)
		s.other = distuv.Gamma{Alpha: alpha, Beta: alpha / d.Mean, Src: src}
	case LogNormal:
		variance := math.Log1p(d.CV * d.CV)
		s.other = distuv.LogNormal{Mu: math.Log(d.Mean) - variance/2, Sigma: math.Sqrt(variance), Src: src}
	case Hyperexponential:
		s.p = (1 + math.Sqrt((d.CV*d.CV-1)/(d.CV*d.CV+1))) / 2
	}
	return s
}

// draw returns the next time, >= 0 and finite.
func (s *sampler) draw() float64 {
	x := s.scale
	switch s.kind {
	case Exponential:
		x *= s.rnd.ExpFloat64()
	case Constant:
	case Uniform:
		x = s.least + float64(x*s.rnd.Float64())
	case Hyperexponential:
		branch := s.p
		if s.rnd.Float64() >= s.p {
			branch = 1 - s.p
		}
		x *= s.rnd.ExpFloat64() / (2 * branch)
	default:
		x = s.other.Rand()
	}
	if s.quantum > 0 {
		x = math.Ceil(x/s.quantum) * s.quantum
	}
	return min(x, math.MaxFloat64)
}
