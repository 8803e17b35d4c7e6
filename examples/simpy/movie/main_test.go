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

// The figures are means of 1,000 runs of SimPy 4.1.2's movie_renege.py, with seeds 1 to 1,000.
func TestMovie(t *testing.T) {
	s := simtest.Load(t, kind, "movie.yml")
	simtest.Run(t, s)
	simtest.Covers(t, s, 100, map[string]float64{
		"cinema/sold_out": 40.56,
		"cinema/left":     33.69,
	})
}
