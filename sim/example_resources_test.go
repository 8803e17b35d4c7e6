// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

// simulate runs a model of one node for an hour.
func simulate(setup func(n *sim.Node)) {
	m, err := sim.New("example", func(b *sim.Builder) {
		b.Horizon(3600)
		b.Node("front", setup)
	})
	if err == nil {
		_, err = modeltest.Run(m, modeltest.Config{Seed: 1})
	}
	if err != nil {
		fmt.Println(err)
	}
}

func ExampleServer() {
	simulate(func(n *sim.Node) {
		agents := n.Server("agents", 2)
		for range 4 {
			n.Go(func(call *sim.Process) {
				if !agents.AcquireWithin(call, 45) {
					fmt.Println("hung up at", call.Now())
					return
				}
				call.Hold(30)
				agents.Release(call)
				fmt.Println("done at", call.Now())
			})
		}
	})
	// Output:
	// done at 30
	// done at 30
	// done at 60
	// done at 60
}

func ExampleServer_Serve() {
	simulate(func(n *sim.Node) {
		machine := n.Server("machine", 1, sim.PreemptResume)
		job := func(name string, start, priority float64) {
			n.Go(func(p *sim.Process) {
				p.Hold(start)
				machine.Serve(p, 100, sim.Priority(priority))
				fmt.Println(name, "done at", p.Now())
			})
		}
		job("normal", 0, 1)
		job("urgent", 30, 0)
	})
	// Output:
	// urgent done at 130
	// normal done at 200
}

func ExampleServer_Use() {
	simulate(func(n *sim.Node) {
		till := n.Server("till", 1, sim.QueueLimit(3))
		n.Start(func(c *sim.Context) {
			for i := range 6 {
				if !till.Use(c, 20, func(c *sim.Context) { fmt.Println(i, "paid at", c.Now()) }) {
					fmt.Println(i, "went elsewhere")
				}
			}
		})
	})
	// Output:
	// 4 went elsewhere
	// 5 went elsewhere
	// 0 paid at 20
	// 1 paid at 40
	// 2 paid at 60
	// 3 paid at 80
}

func ExampleServer_Schedule() {
	simulate(func(n *sim.Node) {
		agents := n.Server("agents", 0)
		agents.Schedule(math.Inf(1), sim.CapacityFrom{From: 600, Units: 2}, sim.CapacityFrom{From: 1800, Units: 1})
		agents.Breakdowns(dist.Constant(900), dist.Constant(60), sim.Resume)
		n.Go(func(call *sim.Process) {
			agents.Serve(call, 400)
			fmt.Println("done at", call.Now(), "of", agents.Capacity(), "agents")
		})
	})
	// Output:
	// done at 1060 of 2 agents
}

func ExampleContainer() {
	simulate(func(n *sim.Node) {
		tank := n.Container("tank", 200, 50)
		n.Go(func(car *sim.Process) {
			tank.Get(car, 40)
			fmt.Println("first car at", car.Now())
		})
		n.Go(func(car *sim.Process) {
			tank.Get(car, 40)
			fmt.Println("second car at", car.Now())
		})
		n.Go(func(truck *sim.Process) {
			truck.Hold(300)
			tank.Put(truck, 150)
		})
	})
	// Output:
	// first car at 0
	// second car at 300
}

func ExampleStoreOf() {
	type part struct {
		Kind string
		Made float64
	}
	simulate(func(n *sim.Node) {
		parts := sim.StoreOf[part](n, "parts", 10)
		n.Go(func(p *sim.Process) {
			for _, kind := range []string{"wheel", "frame"} {
				p.Hold(5)
				parts.Put(p, part{kind, p.Now()})
			}
		})
		n.Go(func(p *sim.Process) {
			frame := parts.GetMatch(p, func(x part) bool { return x.Kind == "frame" })
			fmt.Println(frame, parts.Get(p))
		})
	})
	// Output:
	// {frame 10} {wheel 5}
}

func ExampleBatch() {
	simulate(func(n *sim.Node) {
		ferry := n.Batch("ferry", 3, 60)
		for i := range 4 {
			n.Go(func(car *sim.Process) {
				car.Hold(float64(10 * i))
				if size, number := ferry.Join(car); number == 0 {
					fmt.Println(size, "cars cross at", car.Now())
				}
			})
		}
	})
	// Output:
	// 3 cars cross at 20
	// 1 cars cross at 90
}

func ExampleGate() {
	simulate(func(n *sim.Node) {
		shop := sim.NewGate(false)
		n.Start(func(c *sim.Context) { c.At(600, func(*sim.Context) { shop.Open() }) })
		n.Go(func(customer *sim.Process) {
			shop.Pass(customer)
			fmt.Println("in at", customer.Now())
		})
	})
	// Output:
	// in at 600
}

func ExampleRemoteServer() {
	m, err := sim.New("example", func(b *sim.Builder) {
		b.Horizon(3600)
		delay := dist.Constant(0.5)
		b.Node("back", func(n *sim.Node) { n.Server("experts", 1).Offer(delay, "front") })
		b.Node("front", func(n *sim.Node) {
			experts := n.RemoteServer("back", "experts", delay)
			for range 2 {
				n.Go(func(call *sim.Process) {
					experts.Acquire(call)
					call.Hold(30)
					experts.Release(call)
					fmt.Println("done at", call.Now())
				})
			}
		})
	})
	if err == nil {
		_, err = modeltest.Run(m, modeltest.Config{Seed: 1})
	}
	fmt.Println(err)
	// Output:
	// done at 31
	// done at 62
	// <nil>
}
