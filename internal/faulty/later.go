// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"time"

	"github.com/disco-sim/disco/sim"
)

// later has a fault in its third replication only.
func later(b *sim.Builder, p Params) {
	b.Horizon(20)
	now := func() float64 { return float64(time.Now().Nanosecond() % 1000) }
	b.Nodes("n", p.Nodes, func(n *sim.Node) {
		ring(n, p, func(c *sim.Context, x float64) float64 {
			if c.Replication() == 2 && c.Now() > 10 {
				return x/2 + now()
			}
			return x / 2
		})
	})
}
