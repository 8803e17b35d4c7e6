// SPDX-License-Identifier: Apache-2.0

// Command bank is SimPy's example of a bank with one counter, whose customers leave when they have waited too long.
package main

import (
	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

type params struct {
	Customers int       `min:"1" default:"5"`
	Gap       dist.Dist `unit:"s" default:"exponential(10)" doc:"between two customers; the first comes at 0"`
	Service   dist.Dist `unit:"s" default:"exponential(12)"`
	Limit     dist.Dist `unit:"s" default:"uniform(1, 3)" doc:"how long a customer waits"`
}

var kind = sim.Kind("bank", build)

func main() { sim.Main("bank", build) }

func build(b *sim.Builder, p params) {
	b.Node("bank", func(n *sim.Node) {
		counter := n.Server("counter", 1)
		wait := n.Tally("wait", sim.Unit("s"), sim.Doc("of all customers, those who leave too"))
		n.Go(func(door *sim.Process) {
			for range p.Customers {
				door.Go(func(customer *sim.Process) {
					start := customer.Now()
					served := counter.AcquireWithin(customer, customer.Draw(p.Limit))
					wait.Add(customer.Now() - start)
					if served {
						customer.HoldFor(p.Service)
						counter.Release(customer)
					}
				})
				door.HoldFor(p.Gap)
			}
		})
	})
}
