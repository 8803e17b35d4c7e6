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

// The figures are means of 3,000 runs of SimPy 4.1.2's process_communication.py, with seeds 1 to 3,000.
func TestPipes(t *testing.T) {
	s := simtest.Load(t, kind, "pipes.yml")
	simtest.Run(t, s)
	simtest.Covers(t, s, 100, map[string]float64{
		"one/received":  11.92,
		"one/late":      1.626,
		"many/received": 23.82,
		"many/late":     3.208,
	})
}
