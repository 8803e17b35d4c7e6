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
func (t *tally) confidence() *Confidence {
	groups := t.whole.Close()
	if len(groups) < 2 {
		return nil
	}
	upTo := func(most float64, of func(s *sample) (y, x float64)) *measure.Interval {
		series := make([]measure.Series, len(groups))
		for k := range groups {
			y, x := of(&groups[k])
			series[k] = measure.Series{Y: []float64{y}, X: []float64{x}}
		}
		i, ok := measure.Ratio(series)
		if !ok {
			return nil
		}
		i = i.Clip(most)
		return &i
	}
	ratio := func(of func(s *sample) (y, x float64)) *measure.Interval { return upTo(math.Inf(1), of) }
	latencies := make([]*measure.Latencies, len(groups))
	for k := range groups {
		latencies[k] = &groups[k].latency
	}
	c := &Confidence{
		Replications:  t.full,
		ThroughputRPS: *ratio(func(s *sample) (y, x float64) { return s.completed, s.seconds }),
		LatencyMean:   ratio(func(s *sample) (y, x float64) { return s.latencies, float64(s.latency.Count) }),
		LatencyP50:    measure.Percentile(50, latencies),
		LatencyP95:    measure.Percentile(95, latencies),
		LatencyP99:    measure.Percentile(99, latencies),
		Servers:       make(map[string]*ServerConfidence),
	}
	server := 0
	for _, at := range t.m.topology.boxes {
		if at.role != serverRole {
			continue
		}
		i, cores := server, float64(t.m.spec.Servers[at.index].Cores)
		server++
		c.Servers[at.id] = &ServerConfidence{
			Utilisation:    *upTo(1, func(s *sample) (y, x float64) { return s.busy[i], s.time[i] * cores }),
			ReadyQueueMean: *ratio(func(s *sample) (y, x float64) { return s.ready[i], s.time[i] }),
		}
	}
	return c
}
