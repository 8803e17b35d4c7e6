// SPDX-License-Identifier: Apache-2.0

package measure

import "math"

// Moments are count, mean, sum of squared deviations, least and greatest of a set of
// numbers, added one by one (Welford 1962) or set by set (Chan, Golub and LeVeque
// 1979). The zero value is the empty set.
type Moments struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	M2    float64 `json:"m2"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
}

// Add adds one number.
func (m *Moments) Add(x float64) {
	if m.Count == 0 {
		m.Min, m.Max = x, x
	}
	m.Count++
	d := x - m.Mean
	m.Mean += d / float64(m.Count)
	m.M2 += d * (x - m.Mean)
	m.Min, m.Max = min(m.Min, x), max(m.Max, x)
}

// Merge adds all numbers of another set.
func (m *Moments) Merge(o *Moments) {
	if o.Count == 0 {
		return
	}
	if m.Count == 0 {
		*m = *o
		return
	}
	d, n := o.Mean-m.Mean, float64(m.Count+o.Count)
	m.Mean += d * float64(o.Count) / n
	m.M2 += o.M2 + d*d*float64(m.Count)*float64(o.Count)/n
	m.Count += o.Count
	m.Min, m.Max = min(m.Min, o.Min), max(m.Max, o.Max)
}

// StdDev is the standard deviation of the set itself.
func (m *Moments) StdDev() float64 {
	if m.Count == 0 {
		return 0
	}
	return math.Sqrt(m.M2 / float64(m.Count))
}
