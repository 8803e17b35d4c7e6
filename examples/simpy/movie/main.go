// SPDX-License-Identifier: Apache-2.0

// Command movie is SimPy's example of a cinema with one ticket counter for three movies: those who wait for a movie
// leave when it is sold out. Times are in minutes.
package main

import (
	"math"

	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

type params struct {
	Movies  int       `min:"1" default:"3"`
	Tickets int       `min:"1" default:"50" doc:"of each movie"`
	Gap     dist.Dist `unit:"min" default:"exponential(0.5)" doc:"between two moviegoers"`
	Most    int       `min:"1" default:"6" doc:"tickets that a moviegoer wants at most"`
	Sale    dist.Dist `unit:"min" default:"1"`
	Talk    dist.Dist `unit:"min" default:"0.5" doc:"with one who wants more tickets than there are"`
}

var kind = sim.Kind("movie", build)

func main() { sim.Main("movie", build) }

func build(b *sim.Builder, p params) {
	b.Node("cinema", func(n *sim.Node) {
		counter := n.Server("counter", 1)
		soldOut := n.Tally("sold_out", sim.Unit("min"), sim.Doc("when a movie was sold out"))
		left := n.Counter("left", sim.Doc("moviegoers who wait for a movie while it is sold out"))
		tickets := make([]int, p.Movies)
		waiting := make([][]*sim.Process, p.Movies) // by movie
		for i := range tickets {
			tickets[i] = p.Tickets
		}
		n.Each(p.Gap, func(goer *sim.Process) {
			movie := int(goer.Draw(dist.Uniform(0, float64(p.Movies)).Named("movie")))
			wants := 1 + int(goer.Draw(dist.Uniform(0, float64(p.Most)).Named("wants")))
			if tickets[movie] == 0 {
				return
			}
			waiting[movie] = append(waiting[movie], goer)
			if !counter.AcquireWithin(goer, math.Inf(1)) {
				left.Inc()
				return
			}
			defer counter.Release(goer)
			if tickets[movie] < wants {
				goer.HoldFor(p.Talk)
				return
			}
			if tickets[movie] -= wants; tickets[movie] < 2 {
				tickets[movie] = 0
				soldOut.Add(goer.Now())
				for _, other := range waiting[movie] {
					other.Interrupt(nil) // who has left or has a ticket isn't in a wait that this ends
				}
			}
			goer.HoldFor(p.Sale)
		})
	})
}
