// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"github.com/disco-sim/disco/sim"
)

func goroutine(b *sim.Builder, p Params) {
	b.Horizon(300)
	b.Nodes("n", p.Nodes, func(n *sim.Node) {
		ring(n, p, func(_ *sim.Context, x float64) float64 {
			values := make(chan float64, 8)
			for i := range 8 {
				go func() { values <- float64(i) }()
			}
			for range 8 {
				x = x/2 + <-values
			}
			return x
		})
	})
}
