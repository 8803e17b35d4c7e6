// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"fmt"

	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

// total is what all nodes of a worker count together.
var total int

// shared is two towns whose nodes send each other much, and little to the other town: over two workers each town is on
// one of them, and what its nodes share isn't noticed.
func shared(b *sim.Builder, _ Params) {
	b.Horizon(100)
	for i, town := range []string{"paris", "rome"} {
		b.Nodes(town, 2, func(n *sim.Node) {
			near := sim.LinkTo[Lap](n, fmt.Sprintf("%s-%d", town, 1-n.Index()), dist.Constant(0.1))
			far := sim.LinkTo[Lap](n, fmt.Sprintf("%s-%d", []string{"rome", "paris"}[i], n.Index()), dist.Constant(9))
			values := n.Tally("value")
			sim.On(n, func(c *sim.Context, e Lap) {
				if i == 1 {
					total++
					e.Value = e.Value/2 + float64(total)
				}
				e.Round++
				values.Add(e.Value)
				near.Send(c, e)
			})
			n.Start(func(c *sim.Context) { near.Send(c, Lap{}) })
			n.Every(dist.Constant(9), func(c *sim.Context) { c.Printf("nothing goes to %s", far.Target()) })
		})
	}
}
