// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"fmt"
	"math"
	"strconv"
)

// numberMax bounds what distributions are made of, so that nothing drawn is beyond a float64.
const numberMax = 1e18

// keptMin is the least probability of what Truncate keeps: quantiles in a farther tail would be too coarse.
const keptMin = 1e-6

// Error is what constructors and methods panic with where they are given what they refuse. In a model of package sim it
// ends the run with the line of the model.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

func refused(format string, args ...any) Error { return Error(fmt.Sprintf(format, args...)) }

// Dist is the distribution of a time or an amount. The zero Dist is none: IsSet is false, and all that needs one
// panics. Dists are equal (==) when they are copies of one another.
type Dist struct {
	law  *law
	name *named
}

// kind names the cores that Draw knows itself.
type kind uint8

const (
	other kind = iota
	constant
	exponential
	uniform
	normal
)

// law is plus + scale × core, and low where that is below.
type law struct {
	kind             kind
	plus, scale, low float64
	core             core
	text             string
}

// core is a distribution in its standard form.
type core interface {
	draw(s *Stream) float64
	quantile(u float64) float64 // 0 < u < 1
	cdf(x float64) float64      // P(X <= x)
	support() (least, most float64)
	moments() (mean, deviation float64)

	// next is for quantile functions of straight pieces: the probability above u at which the one at u ends. Smooth
	// cores give 0.
	next(u float64) float64
	// atoms reports whether single values have a probability.
	atoms() bool
}

// IsSet reports whether there is a distribution.
func (d Dist) IsSet() bool { return d.law != nil }

// must is the law, for those who need one.
func (d Dist) must() *law {
	if d.law == nil {
		panic(Error("dist: a distribution that isn't set: want one from a constructor, Read or Parse"))
	}
	return d.law
}

// Named is d with a name. In a node, distributions of one name are drawn from one stream. "" takes the name away.
func (d Dist) Named(name string) Dist {
	d.must()
	return Dist{d.law, intern(name)}
}

// Name is the name; "" for none.
func (d Dist) Name() string { return d.name.name() }

// ID is a small number above 0 that is the same for equal names of one process, and may differ in another; 0 without a
// name. It is for finding a name's stream by index.
func (d Dist) ID() uint32 { return d.name.number() }

// String is the distribution as text, such as exponential(3) + 0.5; "none" where it isn't set.
func (d Dist) String() string {
	if d.law == nil {
		return "none"
	}
	return d.law.text
}

// Draw draws a number, finite, from Min to Max. In the streams of a pair it is Quantile of one Float64.
func (d Dist) Draw(s *Stream) float64 { return d.law.draw(s) }

func (l *law) draw(s *Stream) float64 {
	if l == nil {
		Dist{}.must()
	}
	if s.paired {
		return l.at(l.core.quantile(s.Float64()))
	}
	var x float64
	switch l.kind {
	case constant:
		return l.plus
	case exponential:
		x = s.ExpFloat64()
	case uniform:
		x = s.Float64()
	case normal:
		x = s.NormFloat64()
	default:
		x = l.core.draw(s)
	}
	return l.at(x)
}

// at is the law's value for one of its core. The conversion keeps product and sum apart on every processor.
func (l *law) at(x float64) float64 {
	x = l.plus + float64(l.scale*x)
	if x < l.low {
		return l.low
	}
	return x
}

// Quantile is the least x with CDF(x) >= u; Min for 0, Max for 1. It panics unless 0 <= u <= 1.
func (d Dist) Quantile(u float64) float64 {
	l := d.must()
	switch {
	case u > 0 && u < 1:
		return l.at(l.core.quantile(u))
	case u == 0:
		return d.Min()
	case u == 1:
		return d.Max()
	}
	panic(refused("dist: Quantile(%v): want a probability from 0 to 1", u))
}

// CDF is the probability of a number that is not above x.
func (d Dist) CDF(x float64) float64 {
	l := d.must()
	if x < l.low {
		return 0
	}
	return l.cdf(x, 1)
}

// cdf is the core's probability up to x with side 1, below x with side −1. Dividing by the scale must not miss a single
// value that has a probability.
func (l *law) cdf(x, side float64) float64 {
	y := (x - l.plus) / l.scale
	if l.core.atoms() {
		y += side * 0x1p-48 * max(math.Abs(y), math.Abs(l.plus/l.scale), 1)
	}
	return l.core.cdf(y)
}

// Min is the least number that can be drawn; −Inf where there is none.
func (d Dist) Min() float64 {
	l := d.must()
	least, _ := l.core.support()
	return l.at(least)
}

// Max is the largest number that can be drawn; +Inf where there is none.
func (d Dist) Max() float64 {
	l := d.must()
	_, most := l.core.support()
	return l.at(most)
}

// Mean is the expected value; +Inf where there is none.
func (d Dist) Mean() float64 {
	mean, _ := d.must().moments()
	return mean
}

// StdDev is the standard deviation; +Inf where there is none.
func (d Dist) StdDev() float64 {
	_, deviation := d.must().moments()
	return deviation
}

// Plus is by more than d. The name stays.
func (d Dist) Plus(by float64) Dist { return d.moved("Plus", by, 1, by) }

// Times is d multiplied with a number > 0. The name stays.
func (d Dist) Times(factor float64) Dist { return d.moved("Times", factor, factor, 0) }

// moved is factor × d + by; what is the method's name, and given its number.
func (d Dist) moved(what string, given, factor, by float64) Dist {
	m, ok := d.move(factor, by)
	if !ok {
		panic(refused("dist: %s(%v) of %s: want a number (a factor > 0), and values from -%s to %s", what,
			given, d, number(numberMax), number(numberMax)))
	}
	return m
}

// move is factor × d + by, unless its numbers are beyond what is allowed.
func (d Dist) move(factor, by float64) (Dist, bool) {
	l := *d.must()
	l.scale *= factor
	l.plus = float64(l.plus*factor) + by
	if !math.IsInf(l.low, -1) {
		l.low = float64(l.low*factor) + by
	}
	inside := math.Abs(by) <= numberMax && factor <= numberMax && math.Abs(l.plus) <= numberMax && l.scale <= numberMax
	if !inside || !(l.scale > 0) || l.low > numberMax {
		return d, false
	}
	if factor != 1 {
		l.text = fmt.Sprintf("%s * (%s)", number(factor), l.text)
	}
	switch {
	case l.kind == constant:
		l.text = number(l.plus)
	case by < 0:
		l.text = fmt.Sprintf("%s - %s", l.text, number(-by))
	case by > 0:
		l.text = fmt.Sprintf("%s + %s", l.text, number(by))
	}
	return Dist{&l, d.name}, true
}

// AtLeast is d with min in place of all that is below. Truncate leaves it out instead.
func (d Dist) AtLeast(min float64) Dist {
	if !anyRange.Holds(min) {
		panic(refused("dist: AtLeast(%v): want %s", min, anyRange))
	}
	l := *d.must()
	switch {
	case d.Min() >= min:
		return d
	case d.Max() <= min:
		return Dist{Constant(min).law, d.name}
	}
	l.low = min
	l.text = fmt.Sprintf("%s at least %s", l.text, number(min))
	return Dist{&l, d.name}
}

// Truncate is d under the condition that it lies from min to max, both included; ±Inf is no bound. It panics where less
// than a millionth of d lies there.
func (d Dist) Truncate(min, max float64) Dist {
	t, fault := d.truncate(min, max)
	if fault != "" {
		panic(refused("dist: Truncate(%v, %v) of %s: %s", min, max, d, fault))
	}
	return t
}

// truncate is Truncate, or says what is wrong.
func (d Dist) truncate(least, most float64) (t Dist, fault string) {
	if !(least <= most) || math.Abs(least) > numberMax && !math.IsInf(least, -1) ||
		math.Abs(most) > numberMax && !math.IsInf(most, 1) {
		return d, fmt.Sprintf("found bounds from %v to %v, want the first not above the second", least, most)
	}
	l := d.must()
	if d.Min() >= least && d.Max() <= most {
		return d, ""
	}
	c := &truncated{base: l, least: max(least, d.Min()), most: min(most, d.Max()), to: 1}
	if least > l.low { // else low stands for all below
		c.from = l.cdf(c.least, -1)
	}
	if most < d.Max() {
		c.to = d.CDF(c.most)
	}
	if !(c.to-c.from >= keptMin) {
		return d, fmt.Sprintf("found %.2g of all values from %s to %s, want a millionth or more", max(0, c.to-c.from),
			number(least), number(most))
	}
	if l.core.atoms() { // the bounds themselves may have no probability
		c.least, c.most = max(c.least, c.value(0)), min(c.most, c.value(1))
	}
	text := fmt.Sprintf("%s within [%s, %s]", l.text, number(least), number(most))
	return Dist{&law{scale: 1, low: math.Inf(-1), core: c, text: text}, d.name}, ""
}

// number writes a number the way that people and Parse read it.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
