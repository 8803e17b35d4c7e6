// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"testing"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/modeltest"
)

// TestCoverage: of every figure that has an interval, the interval holds the truth as
// often as it says. A server of exponential bursts at load 0.5 is M/M/1, whose time in
// the system is exponential of mean 2; the start, empty, is 2 of 2000 seconds and moves
// the means by a twentieth of a standard error.
func TestCoverage(t *testing.T) {
	const mean = 2
	m := newModel(tandem(0.5, 2000, oneEndpoint("srv", 1, 1e6, 1, cpu(exponential(1)))))
	modeltest.Coverage(t, func(seed uint64) map[string]modeltest.Covered {
		r := simulate(t, m, seed, 10)
		c := r.Confidence
		out := make(map[string]modeltest.Covered)
		add := func(name string, i *measure.Interval, truth float64) {
			out[name] = modeltest.Covered{Low: i.Low, High: i.High, Truth: truth}
		}
		add("throughput", &c.ThroughputRPS, 0.5)
		add("latency mean", c.LatencyMean, mean)
		add("latency p50", c.LatencyP50, mean*math.Log(2))
		add("latency p95", c.LatencyP95, mean*math.Log(20))
		add("latency p99", c.LatencyP99, mean*math.Log(100))
		add("utilisation", &r.ServerConfidence("srv").Utilisation, 0.5)
		add("ready queue", &r.ServerConfidence("srv").ReadyQueueMean, 0.5)
		return out
	})
}

// TestBounded: of a replication hardly more than its row of results is kept.
func TestBounded(t *testing.T) {
	modeltest.Bounded(t, newModel(tandem(0.5, 40, oneEndpoint("srv", 1, 1e6, 1, cpu(exponential(1))))), 400)
}
