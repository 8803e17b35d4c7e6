// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"math/rand/v2"

	"github.com/disco-sim/disco/sim"
)

func random(b *sim.Builder, p Params) {
	b.Horizon(300)
	b.Nodes("n", p.Nodes, func(n *sim.Node) {
		ring(n, p, func(_ *sim.Context, x float64) float64 { return x/2 + rand.Float64() })
	})
}
