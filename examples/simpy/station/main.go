// SPDX-License-Identifier: Apache-2.0

// Command station is SimPy's example of a gas station whose pumps share a tank, which a truck fills when it runs low.
package main

import (
	"math"

	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

type params struct {
	Pumps     int       `min:"1" default:"2"`
	Tank      float64   `unit:"l" above:"0" default:"200"`
	Threshold float64   `min:"0" max:"1" default:"0.25" doc:"share of the tank below which the truck is called"`
	CarTank   float64   `unit:"l" above:"0" default:"50"`
	Level     dist.Dist `unit:"l" default:"uniform(5, 26)" doc:"in a car that comes, cut to a whole number"`
	Speed     float64   `unit:"l/s" above:"0" default:"2"`
	Gap       dist.Dist `unit:"s" default:"uniform(30, 301)" doc:"between two cars, cut to a whole number"`
	Truck     dist.Dist `unit:"s" default:"300" doc:"until the truck comes"`
	Check     dist.Dist `unit:"s" default:"10" doc:"between two looks at the tank"`
}

var kind = sim.Kind("station", build)

func main() { sim.Main("station", build) }

func build(b *sim.Builder, p params) {
	b.Node("station", func(n *sim.Node) {
		pumps := n.Server("pumps", p.Pumps)
		tank := n.Container("tank", p.Tank, p.Tank)
		calls, litres, stay := n.Counter("calls"), n.Tally("litres", sim.Unit("l")), n.Tally("stay", sim.Unit("s"))
		n.Go(func(street *sim.Process) {
			for {
				street.Hold(math.Floor(street.Draw(p.Gap)))
				street.Go(func(car *sim.Process) {
					start, amount := car.Now(), p.CarTank-math.Floor(car.Draw(p.Level))
					pumps.Acquire(car)
					tank.Get(car, amount)
					car.Hold(amount / p.Speed)
					pumps.Release(car)
					litres.Add(amount)
					stay.Add(car.Now() - start)
				})
			}
		})
		n.Go(func(control *sim.Process) {
			for {
				if tank.Amount()/tank.Capacity() < p.Threshold {
					calls.Inc()
					control.HoldFor(p.Truck)
					tank.TryPut(control, tank.Capacity()-tank.Amount())
				}
				control.HoldFor(p.Check)
			}
		})
	})
}
