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

// The figure is the mean of 600 runs of SimPy 4.1.2's machine_shop.py, with seeds 1 to 600: 33,119 ± 32.
func TestShop(t *testing.T) {
	s := simtest.Load(t, kind, "shop.yml")
	simtest.Run(t, s)
	r := simtest.Results(t, s, 100)
	simtest.Agree(t, r, "shop/parts", 33119)
}
