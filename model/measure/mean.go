// SPDX-License-Identifier: Apache-2.0

package measure

// Mean is the mean of independent values that come one by one, and what is known about it, in a fixed amount of memory:
// sums of powers of the values' distances from their mean, brought up to date with each of them without the loss of
// digits that differences of sums have (Welford 1962; the third power: Pébay, Formulas for robust, one-pass parallel
// computation of covariances and arbitrary-order statistical moments, 2008). The zero value has none.
type Mean struct {
	n                int
	mean, two, three float64
	seen             bool // one of them isn't 0
}

// Add takes in a value.
func (m *Mean) Add(x float64) {
	before := float64(m.n)
	m.n++
	n := float64(m.n)
	e := x - m.mean
	step := e / n
	m.three += step * (e*step*before*(n-2) - 3*m.two)
	m.two += e * step * before
	m.mean += step
	m.seen = m.seen || x != 0
}

// Interval is the mean and where the truth lies, with the values' skewness in its ends as Ratio has it. Of fewer than
// two values, and of values that are all 0, it isn't known.
func (m *Mean) Interval() Interval {
	if m.n < 2 || !m.seen {
		return Unknown(m.mean, m.n)
	}
	d := deviations{n: m.n, two: m.two, three: m.three}
	return d.interval(m.mean, m.mean, m.mean, 1)
}
