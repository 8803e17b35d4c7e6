// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/scenario"
)

// durationWords are the distributions of durations.
var durationWords = []string{Poisson, Normal, LogNormal, Exponential, Uniform}

// count reads the distribution of a number of things: a mean >= 0, and one of the
// given kinds. Its variance is a variance.
func (l *loader) count(v scenario.Value, meanMax float64, kinds ...string) Dist {
	s := v.Section("mean", "distribution", "variance")
	d := Dist{Kind: s.Field("distribution").WordOr(Poisson, kinds...)}
	d.Mean = s.Field("mean").Float(scenario.AtLeast(0).AtMost(meanMax))
	variance := normalVariance(s, d, meanMax)
	d.StdDev = math.Sqrt(variance)
	if variance != d.StdDev {
		v.Note(fmt.Sprintf("has a variance of %g, so a standard deviation of %.4g; AsyncFlow takes the variance for "+
			"the standard deviation", variance, d.StdDev))
	}
	return d
}

// latency reads the distribution of a duration: of an edge's transit time, or of a
// step. What such a distribution calls its variance is used as its standard deviation.
func (l *loader) latency(v scenario.Value) Dist {
	s := v.Section("mean", "distribution", "variance")
	d := Dist{Kind: s.Field("distribution").WordOr(Poisson, durationWords...)}
	if d.Kind == LogNormal {
		// Mean and variance are those of the logarithm, so they have limits of their own.
		most := scenario.MoreThan(0).AtMost(logMax).Or("another distribution: for log_normal it is that of the " +
			"logarithm")
		d.Mean = s.Field("mean").Float(most)
		d.StdDev = s.Field("variance").OrNull().FloatOr(d.Mean, scenario.AtLeast(0).AtMost(logMax))
		return d
	}
	d.Mean = s.Field("mean").Float(scenario.MoreThan(0).AtMost(secondsMax))
	d.StdDev = normalVariance(s, d, secondsMax)
	switch {
	case d.Kind == Uniform:
		v.Note("is uniform, which lies between 0 and 1 second whatever the mean says")
	case d.Kind == Poisson && !s.Field("distribution").Present():
		v.Note("has no distribution and so is poisson: a whole number of seconds, mostly 0 when the mean is small")
	}
	return d
}

// duration reads the time of a step: a number, or a distribution in the form of a
// latency.
func (l *loader) duration(v scenario.Value) Dist {
	if v.IsMapping() {
		return l.latency(v)
	}
	seconds := scenario.MoreThan(0).AtMost(secondsMax).Or("a mapping with mean, distribution, variance")
	return Dist{Kind: Constant, Mean: v.Float(seconds)}
}

// normalVariance reads the field variance of d, which only a normal distribution has a
// use for.
func normalVariance(s scenario.Section, d Dist, most float64) float64 {
	v := s.Field("variance").OrNull()
	x := v.FloatOr(d.Mean, scenario.AtLeast(0).AtMost(most))
	if d.Kind == Normal {
		return x
	}
	if v.Present() && d.Kind != "" {
		v.Note(fmt.Sprintf("has no effect on the distribution %s", d.Kind))
	}
	return 0
}
