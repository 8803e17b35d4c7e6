// SPDX-License-Identifier: Apache-2.0

// Command carwash is SimPy's example of a carwash with a few machines. Times are in minutes.
package main

import (
	"math"

	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

type params struct {
	Machines int       `min:"1" default:"2"`
	Waiting  int       `min:"0" default:"4" doc:"cars at the start"`
	Gap      dist.Dist `unit:"min" doc:"between two cars; whole minutes"`
	Wash     dist.Dist `unit:"min" default:"5"`
	Dirt     dist.Dist `unit:"%" default:"uniform(50, 100)" doc:"what a wash takes away, cut to a whole number"`
}

var kind = sim.Kind("carwash", build)

func main() { sim.Main("carwash", build) }

func build(b *sim.Builder, p params) {
	b.Node("carwash", func(n *sim.Node) {
		machines := n.Server("machines", p.Machines)
		arrived, left := n.Counter("arrived"), n.Counter("left")
		dirt := n.Tally("dirt", sim.Unit("%"))
		car := func(car *sim.Process) {
			arrived.Inc()
			machines.Acquire(car)
			car.HoldFor(p.Wash)
			dirt.Add(math.Floor(car.Draw(p.Dirt)))
			machines.Release(car)
			left.Inc()
		}
		for range p.Waiting {
			n.Go(car)
		}
		n.Each(p.Gap, car)
	})
}
