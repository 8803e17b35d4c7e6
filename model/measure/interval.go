// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/json"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence is the probability with which an Interval holds the truth.
const Confidence = 0.95

// Interval is an estimate and where the truth lies with a probability of Confidence: from
// Low to High. The truth is what the same figure would be over infinitely many
// replications, transients included. Where that can't be said, because there is too
// little data or the data depend on each other too much, the interval is the whole
// line: HalfWidth and High are +Inf, Low is -Inf, all null in JSON.
type Interval struct {
	Mean      float64
	HalfWidth float64 // the longer of the two sides: what is skewed has one longer than the other
	Low, High float64
	N         int // samples: values taken as independent, or nearly so (Ratio)
}

// Unknown is an estimate without an interval.
func Unknown(mean float64, n int) Interval {
	return Interval{Mean: mean, HalfWidth: math.Inf(1), Low: math.Inf(-1), High: math.Inf(1), N: n}
}

// Known reports whether the interval is bounded.
func (i Interval) Known() bool { return !math.IsInf(i.HalfWidth, 0) }

// Width is how far the ends are from each other, 0 of no interval.
func (i *Interval) Width() float64 {
	if i == nil || !i.Known() {
		return 0
	}
	return i.High - i.Low
}

// Holds reports whether x lies inside.
func (i Interval) Holds(x float64) bool { return x >= i.Low && x <= i.High }

// Clip is the interval without what the figure can't be: below 0 and above most, +Inf
// for no limit. The estimate stays inside, and so does every possible truth that was.
func (i Interval) Clip(most float64) Interval {
	if !i.Known() {
		return i
	}
	i.Low = min(max(i.Low, 0), i.Mean)
	i.High = max(min(i.High, most), i.Mean)
	i.HalfWidth = max(i.High-i.Mean, i.Mean-i.Low)
	return i
}

// MarshalJSON writes mean, half_width, low, high and samples.
func (i Interval) MarshalJSON() ([]byte, error) {
	var out struct {
		Mean      float64  `json:"mean"`
		HalfWidth *float64 `json:"half_width"`
		Low       *float64 `json:"low"`
		High      *float64 `json:"high"`
		N         int      `json:"samples"`
	}
	out.Mean, out.N = i.Mean, i.N
	if i.Known() {
		out.HalfWidth, out.Low, out.High = &i.HalfWidth, &i.Low, &i.High
	}
	return json.Marshal(out)
}

// Series is what one replication has added up: pairs of amounts, one for each of its
// batches of time in order, or a single one for all of it. Waiting and arrivals give
// the mean wait, customers × time and time give the mean number of customers.
type Series struct{ Y, X []float64 }

const (
	// lagMax is the correlation of neighbouring batches up to which the standard error
	// is corrected for it. Where it is greater, batches are joined.
	lagMax = 0.5

	// lagSingleMax is the same for the longest batches of a single replication, for
	// which there is nothing better. Of so few the correlation is hardly known.
	lagSingleMax = 0.8

	// samplesMin is the least number of batches, joined if need be, that make an
	// interval without a replication being one sample; and the least number from which
	// a skewness can be estimated.
	samplesMin = 10

	// skewedMin is the number of samples from which their skewness may shorten a side;
	// that of fewer is hardly known.
	skewedMin = 30
)

// Ratio estimates the sum of all Y over the sum of all X, whose error comes from how
// the samples spread about it (the ratio estimator: Cochran, Sampling techniques, 3rd
// ed. 1977, chapter 6). Replications are independent; batches of one are not, so
// neighbouring ones are joined, 2, 4, 8, … at a time, until their correlation is at
// most lagMax; what is left of it is taken for that of a first-order autoregression and
// corrected for, and so is the skewness of the samples (Willink 2005; Tafazzoli,
// Steiger and Wilson, N-Skart, 2011). Where that would leave fewer than samplesMin
// batches, each replication is one sample; a single replication gives no interval then,
// unless lagSingleMax allows it.
// Nor do amounts that are all 0: what was never seen has no spread.
//
// Without any X the result is the zero Interval and false.
func Ratio(reps []Series) (Interval, bool) {
	var sumY, sumX float64
	longest, seen := 0, false
	for _, s := range reps {
		longest = max(longest, len(s.X))
		for k := range s.X {
			sumY += s.Y[k]
			sumX += s.X[k]
			seen = seen || s.Y[k] != 0
		}
	}
	if !(sumX > 0) {
		return Interval{}, false
	}
	r := sumY / sumX
	d := samplesOf(reps, r, longest)
	if d.n < 2 || !seen {
		return Unknown(r, d.n), true
	}
	return d.interval(r, r, r, sumX/float64(d.n)), true
}

// samplesOf joins batches until their correlation is small, or each replication is one
// sample.
func samplesOf(reps []Series, r float64, longest int) deviations {
	var coarsest deviations
	for size := 1; ; size *= 2 {
		d := deviationsOf(reps, r, size)
		if d.n < samplesMin {
			break
		}
		if d.lag() <= lagMax {
			return d
		}
		coarsest = d
	}
	if len(reps) == 1 && coarsest.n > 0 && coarsest.lag() <= lagSingleMax {
		return coarsest
	}
	return deviationsOf(reps, r, longest)
}

// Percentile estimates a percentile of what several replications have recorded, all
// together. How the percentiles of each by itself spread about the common one is its
// error (sectioning: Asmussen and Glynn, Stochastic simulation, 2007, III.5), and the
// width of its bucket in the histogram is added to it. A replication without durations
// counts for none; without any durations the result is nil.
func Percentile(p float64, reps []*Latencies) *Interval {
	var all Latencies
	for _, l := range reps {
		all.Merge(l)
	}
	if all.Count == 0 {
		return nil
	}
	at, low, high := all.Percentile(p)
	var d deviations
	for _, l := range reps {
		if l.Count > 0 {
			d.add(l.P(p) - at)
		}
	}
	i := Unknown(at, d.n)
	if d.n >= 2 {
		i = d.interval(at, low, high, 1).Clip(math.Inf(1)) // durations
	}
	return &i
}

// deviations are the samples' distances from an estimate: their sums of powers, and of
// products of neighbours.
type deviations struct {
	n, pairs        int
	one, two, three float64
	neighbours      float64
}

func (d *deviations) add(e float64) {
	d.n++
	d.one += e
	d.two += e * e
	d.three += e * e * e
}

// deviationsOf are those of y from r·x, for batches joined size at a time. What is left
// at the end of a replication is joined to its last.
func deviationsOf(reps []Series, r float64, size int) deviations {
	var d deviations
	for _, s := range reps {
		last := 0.0
		for from := 0; from < len(s.X); {
			to := from + size
			if to+size > len(s.X) {
				to = len(s.X)
			}
			e := 0.0
			for k := from; k < to; k++ {
				e += s.Y[k] - r*s.X[k]
			}
			d.add(e)
			if from > 0 {
				d.pairs++
				d.neighbours += e * last
			}
			last, from = e, to
		}
	}
	return d
}

// lag is the correlation of neighbours, at least 0: the usual estimate and what it is
// too small by in the mean (Marriott and Pope 1954).
func (d *deviations) lag() float64 {
	if d.pairs == 0 || d.two == 0 {
		return 0
	}
	lag := d.neighbours / float64(d.pairs) / (d.two / float64(d.n))
	return max(0, lag+(1+3*lag)/float64(d.n))
}

// worth is the number of independent samples whose mean would have the same variance,
// where samples are those of an endless first-order autoregression. A replication has
// only so many, and is worth a little more; but queues depend on their past for longer
// than an autoregression, and without this margin intervals were too narrow.
func (d *deviations) worth(lag float64) float64 { return float64(d.n) * (1 - lag) / (1 + lag) }

// interval is that about mean, which is itself known to lie from low to high only.
// scale is the mean of x: deviations are of sums, the estimate is of ratios.
func (d *deviations) interval(mean, low, high, scale float64) Interval {
	n := float64(d.n)
	lag := d.lag()
	variance := d.two / (n - 1) // about the estimate itself
	worth := d.worth(lag)
	se := math.Sqrt(variance/worth) / scale
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: max(1, worth-1)}.Quantile(0.5 + Confidence/2)
	skewness := d.skewness() * (1 - lag*lag*lag) / math.Pow(1-lag*lag, 1.5)
	below, above := ends(t, skewness, n)
	if d.n < skewedMin {
		below, above = max(below, t), max(above, t)
	}
	i := Interval{Mean: mean, Low: low - below*se, High: high + above*se, N: d.n}
	i.HalfWidth = max(i.High-mean, mean-i.Low)
	return i
}

// skewness is the samples' own, without bias for normal ones; 0 of too few.
func (d *deviations) skewness() float64 {
	n := float64(d.n)
	mean := d.one / n
	m2 := d.two/n - mean*mean
	if d.n < samplesMin || !(m2 > 0) {
		return 0
	}
	m3 := d.three/n - 3*mean*d.two/n + 2*mean*mean*mean
	return math.Sqrt(n*(n-1)) / (n - 2) * m3 / math.Pow(m2, 1.5)
}

// ends is how many standard errors an interval reaches below and above the mean of n
// values of some skewness, where it reaches t of them for normal ones (Willink, A
// confidence interval and test for the mean of an asymmetric distribution, 2005).
func ends(t, skewness, n float64) (below, above float64) {
	b := skewness / (6 * math.Sqrt(n))
	if math.Abs(b) < 1e-9 {
		return t, t
	}
	g := func(z float64) float64 { return (math.Cbrt(1+6*b*(z-b)) - 1) / (2 * b) }
	return g(t), -g(-t)
}
