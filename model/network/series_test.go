// SPDX-License-Identifier: Apache-2.0

package network

import (
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// TestSeries: series add up to the results, also those of links that fail.
func TestSeries(t *testing.T) {
	var topology *Topology
	sum, all := modeltest.CompareSeries(t, Kind(), func(series bool) scenario.Scenario {
		s := storm(t)
		s.Horizon, s.Series = min(s.Horizon, 7.5), series
		topology = s.Topology
		return New(s)
	}, 1)
	r := sum.(*Results)
	modeltest.Near(t, all, "offered", float64(r.Sent)/modeltest.SeriesReplications)
	modeltest.Near(t, all, "delivered", float64(r.Delivered)/modeltest.SeriesReplications)
	modeltest.Near(t, all, "lost", float64(r.Lost)/modeltest.SeriesReplications)
	for id := range topology.Channels {
		if u := r.Links[id].Utilisation; u > 0 {
			modeltest.Near(t, all, "utilisation "+topology.channelName(id), r.HorizonSeconds*u)
		}
	}
	mean, p50, p99 := all["latency_mean"].Values, all["latency_p50"].Values, all["latency_p99"].Values
	for k := range mean {
		if p50[k] > p99[k] || mean[k] > 1.02*p99[k] || p99[k] > 1.02*r.Latency.Max || p50[k] < 0.98*r.Latency.Min {
			t.Errorf("window %d: mean %v, median %v, p99 %v of %+v", k, mean[k], p50[k], p99[k], *r.Latency)
		}
	}
}
