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

// The figures are means of 4,000 runs of SimPy 4.1.2's bank_renege.py, with seeds 1 to 4,000.
func TestBank(t *testing.T) {
	s := simtest.Load(t, kind, "bank.yml")
	simtest.Run(t, s)
	simtest.Covers(t, s, 100, map[string]float64{
		"bank/counter.served":  3.013,
		"bank/counter.reneged": 1.987,
		"bank/wait":            0.8597,
	})
}
