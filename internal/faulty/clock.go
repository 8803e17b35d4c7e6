// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"time"

	"github.com/disco-sim/disco/sim"
)

func clock(b *sim.Builder, p Params) {
	b.Horizon(300)
	b.Nodes("n", p.Nodes, func(n *sim.Node) {
		ring(n, p, func(_ *sim.Context, x float64) float64 { return x/2 + float64(time.Now().Nanosecond()%1000) })
	})
}
