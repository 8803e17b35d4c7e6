// SPDX-License-Identifier: Apache-2.0

// Command pipes is SimPy's example of processes that communicate: a generator puts messages into a pipe for one
// consumer, and into a pipe for each of several. Each kind of pipes is a node.
package main

import (
	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

type params struct {
	Gap  dist.Dist `unit:"s" doc:"between two messages"`
	Work dist.Dist `unit:"s" doc:"of a consumer after each message"`
}

// pipe holds the times at which messages were put into it.
type pipe struct {
	sent []float64
	more sim.Signal
}

var kind = sim.Kind("pipes", build)

func main() { sim.Main("pipes", build) }

func build(b *sim.Builder, p params) {
	b.Node("one", func(n *sim.Node) { communicate(n, p, 1) })
	b.Node("many", func(n *sim.Node) { communicate(n, p, 2) })
}

func communicate(n *sim.Node, p params, consumers int) {
	received, late := n.Counter("received"), n.Counter("late", sim.Doc("messages that had to wait in a pipe"))
	pipes := make([]pipe, consumers)
	n.Every(p.Gap, func(c *sim.Context) {
		for i := range pipes {
			pipes[i].sent = append(pipes[i].sent, c.Now())
			pipes[i].more.Send()
		}
	})
	for i := range pipes {
		in := &pipes[i]
		n.Go(func(consumer *sim.Process) {
			for {
				for len(in.sent) == 0 {
					in.more.Wait(consumer)
				}
				if received.Inc(); in.sent[0] < consumer.Now() {
					late.Inc()
				}
				in.sent = in.sent[1:]
				consumer.HoldFor(p.Work)
			}
		})
	}
}
