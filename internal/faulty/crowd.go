// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"github.com/disco-sim/disco/sim"
)

// begun is how many nodes this process has.
var begun int

// crowd is six nodes that fail where a process has two of them: over three workers.
func crowd(b *sim.Builder, _ Params) {
	b.Horizon(30)
	p := Params{Nodes: 6}
	b.Nodes("n", p.Nodes, func(n *sim.Node) {
		n.Start(func(*sim.Context) { begun++ })
		ring(n, p, func(c *sim.Context, x float64) float64 {
			if begun == 2 && c.Now() > 5 {
				panic("two is a crowd")
			}
			return x/2 + c.Now()
		})
	})
}
