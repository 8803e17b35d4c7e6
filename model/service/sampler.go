// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"
)

// sampler draws from one Dist. Every sampler has a random stream of its own, so
// that what one box or step draws never shifts what another draws.
type sampler struct {
	kind  samplerKind
	value float64            // samplerConstant
	exp   distuv.Exponential // samplerExponential
	other distuv.Rander      // samplerOther
}

// samplerKind separates the two kinds that nearly every scenario uses from the rest:
// they are drawn without a call through an interface.
type samplerKind uint8

const (
	samplerConstant samplerKind = iota
	samplerExponential
	samplerOther
)

// newSampler makes the sampler of a duration, or of a count. The loader lets no other
// kinds of distribution through.
func newSampler(d Dist, src rand.Source) sampler {
	switch d.Kind {
	case Constant:
		return sampler{kind: samplerConstant, value: max(0, d.Mean)}
	case Exponential:
		return sampler{kind: samplerExponential, exp: distuv.Exponential{Rate: 1 / d.Mean, Src: src}}
	case Normal:
		return sampler{kind: samplerOther, other: distuv.Normal{Mu: d.Mean, Sigma: d.StdDev, Src: src}}
	case LogNormal:
		return sampler{kind: samplerOther, other: distuv.LogNormal{Mu: d.Mean, Sigma: d.StdDev, Src: src}}
	case Poisson:
		return sampler{kind: samplerOther, other: distuv.Poisson{Lambda: d.Mean, Src: src}}
	case Uniform:
		return sampler{kind: samplerOther, other: distuv.Uniform{Min: 0, Max: 1, Src: src}}
	}
	panic(fmt.Sprintf("service: unknown distribution %q", d.Kind))
}

// draw returns the next value. What falls below 0, as the tail of a normal does,
// counts as 0: cut, not drawn again.
func (s *sampler) draw() float64 {
	switch s.kind {
	case samplerConstant:
		return s.value
	case samplerExponential:
		return s.exp.Rand()
	}
	return max(0, s.other.Rand())
}
