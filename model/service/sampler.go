// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"
)

// sampler draws from one Dist. Every sampler has a random stream of its own, so
// that what one box or step draws never shifts what another draws. The generator of an
// exponential stands in the sampler itself: what a call of a handler waits for, with many
// boxes, is memory, and a pointer is one more place to wait for.
type sampler struct {
	kind  samplerKind
	value float64  // samplerConstant: the value; samplerExponential: the rate
	pcg   rand.PCG // samplerExponential
	other *drawing // samplerOther
}

// drawing is a distribution, and what it draws from.
type drawing struct {
	distuv.Rander
	src *rand.PCG
}

// samplerKind separates the two kinds that nearly every scenario uses from the rest:
// they are drawn without a call through an interface.
type samplerKind uint8

const (
	samplerConstant samplerKind = iota
	samplerExponential
	samplerOther
)

// newSampler makes the sampler of a duration, or of a count; nothing else draws from src. The loader lets no other
// kinds of distribution through.
func newSampler(d Dist, src *rand.PCG) sampler {
	var other distuv.Rander
	switch d.Kind {
	case Constant:
		return sampler{kind: samplerConstant, value: max(0, d.Mean)}
	case Exponential:
		return sampler{kind: samplerExponential, value: 1 / d.Mean, pcg: *src}
	case Normal:
		other = distuv.Normal{Mu: d.Mean, Sigma: d.StdDev, Src: src}
	case LogNormal:
		other = distuv.LogNormal{Mu: d.Mean, Sigma: d.StdDev, Src: src}
	case Poisson:
		other = distuv.Poisson{Lambda: d.Mean, Src: src}
	case Uniform:
		other = distuv.Uniform{Min: 0, Max: 1, Src: src}
	default:
		panic(fmt.Sprintf("service: unknown distribution %q", d.Kind))
	}
	return sampler{kind: samplerOther, other: &drawing{other, src}}
}

// draw returns the next value. What falls below 0, as the tail of a normal does,
// counts as 0: cut, not drawn again.
func (s *sampler) draw() float64 {
	switch s.kind {
	case samplerConstant:
		return s.value
	case samplerExponential:
		return rand.New(&s.pcg).ExpFloat64() / s.value
	}
	return max(0, s.other.Rand())
}

// stream is what it draws from; nil: it draws nothing.
func (s *sampler) stream() *rand.PCG {
	switch s.kind {
	case samplerConstant:
		return nil
	case samplerExponential:
		return &s.pcg
	}
	return s.other.src
}
