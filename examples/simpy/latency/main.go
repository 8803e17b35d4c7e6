// SPDX-License-Identifier: Apache-2.0

// Command latency is SimPy's example of a cable between two who exchange messages: here a link between two nodes.
package main

import (
	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

type params struct {
	Gap   dist.Dist `unit:"s" default:"5" doc:"between two messages"`
	Delay dist.Dist `unit:"s" default:"10" doc:"of the cable"`
}

type message struct{ Sent float64 }

var kind = sim.Kind("latency", build)

func main() { sim.Main("latency", build) }

func build(b *sim.Builder, p params) {
	b.Node("sender", func(n *sim.Node) {
		cable := sim.LinkTo[message](n, "receiver", p.Delay)
		n.Every(p.Gap, func(c *sim.Context) { cable.Send(c, message{c.Now()}) })
	})
	b.Node("receiver", func(n *sim.Node) {
		delay := n.Tally("delay", sim.Unit("s"))
		sim.On(n, func(c *sim.Context, m message) { delay.Add(c.Now() - m.Sent) })
	})
}
