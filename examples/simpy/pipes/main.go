// SPDX-License-Identifier: Apache-2.0

// Command pipes is SimPy's example of processes that communicate: a generator puts messages into a pipe for one
// consumer, and into a pipe for each of several. Each kind of pipes is a node.
package main

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

type params struct {
	Gap  dist.Dist `unit:"s" doc:"between two messages"`
	Work dist.Dist `unit:"s" doc:"of a consumer after each message"`
}

var kind = sim.Kind("pipes", build)

func main() { sim.Main("pipes", build) }

func build(b *sim.Builder, p params) {
	b.Node("one", func(n *sim.Node) { communicate(n, p, 1) })
	b.Node("many", func(n *sim.Node) { communicate(n, p, 2) })
}

func communicate(n *sim.Node, p params, consumers int) {
	received, late := n.Counter("received"), n.Counter("late", sim.Doc("messages that had to wait in a pipe"))
	pipes := make([]*sim.Store[float64], consumers) // of the times at which messages were sent
	for i := range pipes {
		pipes[i] = sim.StoreOf[float64](n, fmt.Sprint("pipe-", i), math.MaxInt)
		n.Go(func(consumer *sim.Process) {
			for {
				if sent := pipes[i].Get(consumer); sent < consumer.Now() {
					late.Inc()
				}
				received.Inc()
				consumer.HoldFor(p.Work)
			}
		})
	}
	n.Every(p.Gap, func(c *sim.Context) {
		for _, pipe := range pipes {
			pipe.TryPut(c, c.Now())
		}
	})
}
