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

// The figures are means of 3,000 runs of SimPy 4.1.2's gas_station_refuel.py, with seeds 1 to 3,000.
func TestStation(t *testing.T) {
	s := simtest.Load(t, kind, "station.yml")
	simtest.Run(t, s)
	simtest.Covers(t, s, 100, map[string]float64{
		"station/calls":        0.8433,
		"station/litres":       34.91,
		"station/stay":         22.60,
		"station/pumps.served": 5.306,
	})
}
