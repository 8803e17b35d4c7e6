// SPDX-License-Identifier: Apache-2.0

// Command shop is SimPy's example of a shop whose machines break down, and one repairman, who has other work to do
// while none is broken. Times are in minutes.
package main

import (
	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

type params struct {
	Machines int       `min:"1" default:"10"`
	Part     dist.Dist `unit:"min" min:"0" doc:"work on a part"`
	Uptime   dist.Dist `unit:"min" default:"exponential(300)" doc:"between two failures of a machine"`
	Repair   dist.Dist `unit:"min" default:"30"`
	Job      dist.Dist `unit:"min" default:"30" doc:"other work of the repairman"`
}

var kind = sim.Kind("shop", build)

func main() { sim.Main("shop", build) }

func build(b *sim.Builder, p params) {
	b.Node("shop", func(n *sim.Node) {
		repairman := n.Server("repairman", 1, sim.PreemptResume)
		parts, jobs := n.Counter("parts"), n.Counter("jobs")
		for range p.Machines {
			machine(n, p, repairman, parts)
		}
		n.Go(func(other *sim.Process) {
			for {
				repairman.Serve(other, other.Draw(p.Job), sim.Priority(1))
				jobs.Inc()
			}
		})
	})
}

// machine makes parts, and is repaired when it breaks down at work.
func machine(n *sim.Node, p params, repairman *sim.Server, parts *sim.Counter) {
	broken := false
	n.Start(func(c *sim.Context) {
		worker := c.Go(func(worker *sim.Process) {
			for {
				left, failed := worker.HoldOrInterrupt(worker.Draw(p.Part))
				for failed {
					broken = true
					repairman.Serve(worker, worker.Draw(p.Repair))
					broken = false
					left, failed = worker.HoldOrInterrupt(left)
				}
				parts.Inc()
			}
		})
		c.Go(func(failure *sim.Process) {
			for {
				failure.HoldFor(p.Uptime)
				if !broken {
					worker.Interrupt(nil)
				}
			}
		})
	})
}
