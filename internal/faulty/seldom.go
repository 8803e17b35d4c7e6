// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"github.com/disco-sim/disco/sim"
)

// seldom ranges over a map once in a run, and takes the first of two keys, which is the same one seven times of eight.
func seldom(b *sim.Builder, p Params) {
	b.Horizon(30)
	b.Nodes("n", p.Nodes, func(n *sim.Node) {
		ring(n, p, func(c *sim.Context, x float64) float64 { return x / 2 })
		first := n.Tally("first")
		n.Start(func(*sim.Context) {
			for x := range map[float64]bool{1: true, 2: true} {
				first.Add(x)
				break
			}
		})
	})
}
