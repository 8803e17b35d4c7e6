// SPDX-License-Identifier: Apache-2.0

package service

import (
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// TestSeries: series add up to the results, with both kinds of balancers, losses, outages and spikes.
func TestSeries(t *testing.T) {
	for k, algorithm := range []string{RoundRobin, LeastConnection} {
		sum, all := modeltest.CompareSeries(t, Kind(), func(series bool) scenario.Scenario {
			s := metricsSpec(algorithm)
			s.Series = series
			return newModel(s)
		}, uint64(k))
		r := sum.(*Results)
		modeltest.Near(t, all, "requests", float64(r.RequestsGenerated)/modeltest.SeriesReplications)
		modeltest.Near(t, all, "throughput", float64(r.RequestsCompleted)/modeltest.SeriesReplications)
		modeltest.Near(t, all, "dropped", float64(r.RequestsDropped)/modeltest.SeriesReplications)
		for id, s := range r.Servers() {
			modeltest.Near(t, all, "utilisation "+id, r.HorizonSeconds*s.Utilisation)
			modeltest.Near(t, all, "requests_in "+id, r.HorizonSeconds*s.RequestsInMean)
			if s.ReadyQueueMean > 0 {
				modeltest.Near(t, all, "ready_queue "+id, r.HorizonSeconds*s.ReadyQueueMean)
			}
		}
		mean, p50, p99 := all["latency_mean"].Values, all["latency_p50"].Values, all["latency_p99"].Values
		for i := range mean {
			if p50[i] > p99[i] || mean[i] > 1.02*p99[i] || p99[i] > 1.02*r.Latency.Max || p50[i] < 0.98*r.Latency.Min {
				t.Errorf("window %d: mean %v, median %v, p99 %v of %+v", i, mean[i], p50[i], p99[i], *r.Latency)
			}
		}
	}
}
