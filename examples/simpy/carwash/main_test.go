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

// The figures are means of 4,000 runs of SimPy 4.1.2's carwash.py, with seeds 1 to 4,000.
func TestCarwash(t *testing.T) {
	s := simtest.Load(t, kind, "carwash.yml")
	simtest.Run(t, s)
	simtest.Covers(t, s, 100, map[string]float64{
		"carwash/arrived":       6.278,
		"carwash/left":          5.606,
		"carwash/machines.wait": 2.070,
		"carwash/dirt":          74.49,
	})
}
