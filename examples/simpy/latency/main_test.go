// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/sim/simtest"
)

func TestMain(m *testing.M) {
	simtest.Worker(kind)
	leaktest.Main(m)
}

// What SimPy 4.1.2's latency.py prints: 17 messages, 10 s after they were sent, in every run.
func TestLatency(t *testing.T) {
	s := simtest.Load(t, kind, "latency.yml")
	simtest.Run(t, s)
	r := simtest.Results(t, s, 100)
	d := r.Statistic("receiver/delay")
	if *d.Count != 1700 || *d.Min != 10 || *d.Max != 10 {
		t.Errorf("%d messages in 100 replications took %v to %v s, want 1,700, 10 s each", *d.Count, *d.Min, *d.Max)
	}
}
