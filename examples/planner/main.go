// SPDX-License-Identifier: Apache-2.0

// Command planner is a shop that asks a solver each morning what to order: an example of a model that asks the outside
// world.
package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/external/command"
	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

type params struct {
	Solver  string    `default:"./solver.sh" doc:"program that reads a problem and writes how much to order"`
	Timeout float64   `min:"0.1" default:"10" doc:"seconds of wall time for one attempt to ask it"`
	Shops   int       `min:"1" default:"4"`
	Demand  dist.Dist `unit:"s" default:"exponential(900)" doc:"between two customers of a shop"`
	Lead    dist.Dist `unit:"s" default:"uniform(3600, 7200)" doc:"between an order and its delivery"`
}

const day = 86400 // s

var kind = sim.Kind("planner", build)

func main() { sim.Main("planner", build) }

// problem is what the solver is asked.
type problem struct {
	Shop    int   `json:"shop"`
	Stock   int64 `json:"stock"`
	Ordered int64 `json:"ordered"`
	Sold    int64 `json:"sold"` // since the day before
}

type delivery struct{ Amount int64 }

func build(b *sim.Builder, p params) {
	b.Horizon(10 * day)
	b.External(external.External{Name: "solver", Ask: command.Command{Path: p.Solver}.Ask,
		Policy: external.Policy{Timeout: time.Duration(p.Timeout * float64(time.Second)), Attempts: 3, NeedsKey: true}})
	b.Nodes("shop", p.Shops, func(n *sim.Node) { shop(n, p) })
	b.Node("factory", func(n *sim.Node) {
		orders := n.Counter("ordered", sim.Doc("pieces"))
		sim.On(n, func(_ *sim.Context, d delivery) { orders.Add(float64(d.Amount)) })
		n.Stateless()
	})
}

// shop sells what it has, and asks each morning how much to order.
func shop(n *sim.Node, p params) {
	var stock, ordered, sold int64 = 100, 0, 0
	sim.Saved(n, "stock", &stock)
	sim.Saved(n, "ordered", &ordered)
	sim.Saved(n, "sold", &sold)
	solver := n.External("solver")
	factory := sim.LinkTo[delivery](n, "factory", p.Lead)
	lost := n.Counter("lost", sim.Doc("customers who found nothing"))
	failed := n.Counter("failed", sim.Doc("mornings without an answer"))
	arrive := sim.NewLater(n, "arrive", func(_ *sim.Context, d delivery) {
		stock, ordered = stock+d.Amount, ordered-d.Amount
	})
	n.Every(p.Demand, func(*sim.Context) {
		if stock == 0 {
			lost.Add(1)
			return
		}
		stock, sold = stock-1, sold+1
	})
	n.Every(dist.Constant(day), func(c *sim.Context) {
		request, err := json.Marshal(problem{n.Index(), stock, ordered, sold})
		if err != nil {
			c.Fail(err)
		}
		sold = 0
		answer, err := solver.Ask(c, request)
		if err != nil {
			failed.Add(1)
			return
		}
		amount := int64(0)
		if _, err := fmt.Sscan(string(answer), &amount); err != nil || amount < 0 {
			c.Fail(fmt.Errorf("the solver answered %.40q, want how much to order", answer))
		}
		ordered += amount
		factory.Send(c, delivery{amount})
		arrive.After(c.Draw(p.Lead), delivery{amount})
	})
}
