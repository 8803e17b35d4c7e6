// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"

	"github.com/disco-sim/disco/model/measure"
)

// confidence takes each replication, or group of them, as one sample: they run with random
// streams of their own, so that their figures are independent, whatever the requests
// within one have to do with one another. It needs two that reached the horizon; those
// that were cut short are samples of something else.
func (r *Results) confidence() *Confidence {
	if len(r.groups) < 2 {
		return nil
	}
	ratio := func(of func(s *sample) (y, x float64)) *measure.Interval { return r.upTo(math.Inf(1), of) }
	latencies := make([]*measure.Latencies, len(r.groups))
	for k := range r.groups {
		latencies[k] = &r.groups[k].latency
	}
	return &Confidence{
		Replications:  r.tally.full,
		ThroughputRPS: *ratio(func(s *sample) (y, x float64) { return s.completed, s.seconds }),
		LatencyMean:   ratio(func(s *sample) (y, x float64) { return s.latencies, float64(s.latency.Count) }),
		LatencyP50:    measure.Percentile(50, latencies),
		LatencyP95:    measure.Percentile(95, latencies),
		LatencyP99:    measure.Percentile(99, latencies),
	}
}

// serverConfidence is that of server i of the file, where there is one.
func (r *Results) serverConfidence(i int) ServerConfidence {
	cores := float64(r.spec.Servers[i].Cores)
	return ServerConfidence{
		Utilisation:    *r.upTo(1, func(s *sample) (y, x float64) { return s.busy[i], s.time[i] * cores }),
		ReadyQueueMean: *r.upTo(math.Inf(1), func(s *sample) (y, x float64) { return s.ready[i], s.time[i] }),
	}
}

// upTo is the interval of a ratio that can't be more than most; nil: of nothing.
func (r *Results) upTo(most float64, of func(s *sample) (y, x float64)) *measure.Interval {
	series, all := make([]measure.Series, len(r.groups)), make([]float64, 2*len(r.groups))
	for k := range r.groups {
		y, x := all[2*k:2*k+1:2*k+1], all[2*k+1:2*k+2]
		y[0], x[0] = of(&r.groups[k])
		series[k] = measure.Series{Y: y, X: x}
	}
	i, ok := measure.Ratio(series)
	if !ok {
		return nil
	}
	i = i.Clip(most)
	return &i
}
