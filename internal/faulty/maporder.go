// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"github.com/disco-sim/disco/sim"
)

func mapOrder(b *sim.Builder, p Params) {
	b.Horizon(300)
	b.Nodes("n", p.Nodes, func(n *sim.Node) {
		weights := map[string]float64{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
		ring(n, p, func(_ *sim.Context, x float64) float64 {
			for _, w := range weights {
				x = x/2 + w
			}
			return x
		})
	})
}
