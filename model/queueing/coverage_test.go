// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
)

// TestCoverage: of every figure that has an interval and a theory, the interval holds
// the theory as often as it says. Figures of a transient that the warm-up has not cut
// off would have another truth, so warm-ups are long against the time to forget.
func TestCoverage(t *testing.T) {
	for _, c := range []struct {
		name, text   string
		replications int
	}{
		{"M/M/1, load 0.8, 10 of 1000 s", network(1000, "id: a, arrivals: 0.8, "+exp1), 10},
		{"M/M/1, load 0.8, 1 of 12000 s", network(12_000, "id: a, arrivals: 0.8, "+exp1), 1},
		{"M/D/1, load 0.5, 4 of 1000 s", network(1000, "id: a, arrivals: 0.5, "+const1), 4},
		{"a network, 10 of 500 s", network(500,
			"id: a, arrivals: 0.5, "+exp1+", to: { b: 0.7, a: 0.1 }",
			"id: b, servers: 2, "+exp1+", to: { a: 0.2, c: 0.5 }",
			"id: c, buffer: 2, service: { distribution: exponential, mean: 2 }"), 10},
		{"a closed network, 10 of 500 s", network(500,
			"id: a, initial: 3, "+exp1+", to: { b: 0.5, a: 0.5 }",
			"id: b, "+exp1+", to: { a: 1 }"), 10},
		{"M/M/1, load 0.2, 1000 of 30 s after 30 s, in groups", "warmup: 30\n" +
			network(60, "id: a, arrivals: 0.2, "+exp1), 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := modeltest.MustLoad(t, Kind(), c.text)
			modeltest.Coverage(t, func(seed uint64) map[string]modeltest.Covered {
				r := modeltest.Summarize(t, s, seed, c.replications).(*Results)
				out := make(map[string]modeltest.Covered)
				for name, m := range r.measures() {
					if m.Theory != nil && m.Observed != nil && m.Observed.Known() && m.Observed.HalfWidth > 1e-9 {
						out[name] = modeltest.Covered{Low: m.Observed.Low, High: m.Observed.High, Truth: *m.Theory}
					}
				}
				return out
			})
		})
	}
}

// TestBounded: stations and replications by themselves up to measure.GroupsMax; then sums.
func TestBounded(t *testing.T) {
	modeltest.Bounded(t, modeltest.MustLoad(t, Kind(),
		network(50, "id: a, arrivals: 0.5, "+exp1+", to: { b: 0.5 }", "id: b, "+exp1)), 0)
}

// measures are all figures of a result by name.
func (r *Results) measures() map[string]Measure {
	all := map[string]Measure{"throughput": r.Network.Throughput, "in network": r.Network.InNetwork,
		"time in network": r.Network.TimeInNetwork}
	for id, s := range r.Stations {
		for name, m := range map[string]Measure{
			"arrivals": s.ArrivalRate, "throughput": s.Throughput, "utilisation": s.Utilisation,
			"waiting": s.WaitProbability, "blocking": s.Blocking,
			"in system": s.InSystem, "in queue": s.InQueue, "time": s.TimeInSystem, "time in queue": s.TimeInQueue,
		} {
			all[id+" "+name] = m
		}
	}
	return all
}
