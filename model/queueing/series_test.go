// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// TestSeries: series add up to the results, which are their means over the time after the warm-up.
func TestSeries(t *testing.T) {
	sum, all := modeltest.CompareSeries(t, Kind(), func(series bool) scenario.Scenario {
		s, err := modeltest.Load(Kind(), "test.yml", network(400, "id: a, arrivals: 0.8, servers: 2, buffer: 1, "+exp1+
			", to: { b: 0.5 }", "id: b, "+exp1), scenario.Options{Series: series})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, 1)
	r := sum.(*Results)
	seconds := r.HorizonSeconds - r.WarmupSeconds
	a := r.Stations["a"]
	modeltest.Near(t, all, "throughput", seconds*r.Network.Throughput.Observed.Mean)
	modeltest.Near(t, all, "in_network", seconds*r.Network.InNetwork.Observed.Mean)
	modeltest.Near(t, all, "arrivals a", seconds*a.ArrivalRate.Observed.Mean)
	modeltest.Near(t, all, "lost a", seconds*a.ArrivalRate.Observed.Mean*a.Blocking.Observed.Mean)
	modeltest.Near(t, all, "lost", seconds*a.ArrivalRate.Observed.Mean*a.Blocking.Observed.Mean)
	modeltest.Near(t, all, "throughput b", seconds*r.Stations["b"].Throughput.Observed.Mean)
	modeltest.Near(t, all, "utilisation a", seconds*a.Utilisation.Observed.Mean)
	modeltest.Near(t, all, "in_system a", seconds*a.InSystem.Observed.Mean)
	modeltest.Near(t, all, "in_queue a", seconds*a.InQueue.Observed.Mean)
	if w := all["time_in_queue a"]; modeltest.Integral(w) <= 0 ||
		modeltest.Integral(w) >= modeltest.Integral(all["time_in_system a"]) {
		t.Errorf("times in queue %v", w.Values)
	}
}
