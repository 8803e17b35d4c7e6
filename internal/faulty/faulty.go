// SPDX-License-Identifier: Apache-2.0

// Package faulty has models with one fault each, of the sort that gives wrong numbers without an error: what
// `disco-run verify` is there to find. Every fault has a file of its own.
//
// Guarantee: a plain run of each of them over two workers ends well, and none of its results can be relied on.
//
//	func main() { app.Main(faulty.Kinds()...) }
package faulty

import (
	"fmt"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

// Kinds are all of them, and a good one.
func Kinds() []scenario.Kind {
	return []scenario.Kind{sim.Kind("good", good), sim.Kind("clock", clock), sim.Kind("random", random),
		sim.Kind("maporder", mapOrder), sim.Kind("goroutine", goroutine), sim.Kind("shared", shared), memoryKind(),
		sim.Kind("seldom", seldom), sim.Kind("crowd", crowd), sim.Kind("later", later)}
}

// Params are those of all of them.
type Params struct {
	Nodes int `yaml:"nodes" default:"2" min:"2"`
}

// Lap is what goes round.
type Lap struct {
	Round int
	Value float64
}

// ring passes laps on, and works at them.
func ring(n *sim.Node, p Params, work func(c *sim.Context, x float64) float64) {
	next := sim.LinkTo[Lap](n, fmt.Sprintf("n-%d", (n.Index()+1)%p.Nodes), dist.Constant(1))
	values := n.Tally("value")
	n.Every(dist.Exponential(0.5).Named("gap"), func(c *sim.Context) { values.Add(work(c, 0)) })
	sim.On(n, func(c *sim.Context, e Lap) {
		e.Value = work(c, e.Value)
		values.Add(e.Value)
		e.Round++
		next.Send(c, e)
	})
	n.Start(func(c *sim.Context) { next.Send(c, Lap{}) })
}

func good(b *sim.Builder, p Params) {
	b.Horizon(300)
	b.Nodes("n", p.Nodes, func(n *sim.Node) {
		ring(n, p, func(c *sim.Context, x float64) float64 { return x/2 + c.Now() })
	})
}
