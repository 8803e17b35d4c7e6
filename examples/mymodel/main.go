// SPDX-License-Identifier: Apache-2.0

// Command mymodel runs a model of one's own with all the commands of disco-run: how fast does a rumour spread in an
// office?
//
//	go build && ./mymodel run office.yml --workers 2
package main

import (
	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

// Params is what a scenario file says. The tags give bounds, units and defaults.
type Params struct {
	People    int       `min:"2" max:"1000000" doc:"one of them knows the rumour at the start"`
	Gap       dist.Dist `unit:"s" min:"0" doc:"between two talks of somebody who knows it"`
	Talk      dist.Dist `unit:"s" above:"0" default:"5" doc:"how long a talk takes"`
	MailShare float64   `min:"0" max:"1" default:"0" doc:"of the talks that are mails"`
	MailDelay dist.Dist `unit:"s" min:"0" default:"exponential(600)" doc:"until a mail is read"`
}

// News is the event that people send each other.
type News struct{ ByMail bool }

var kind = sim.Kind("gossip", build)

func main() { sim.Main("gossip", build) }

// build makes a node of every person, who may talk to every other. The least time that a talk takes is the lookahead:
// the larger, the more the workers do at the same time.
func build(b *sim.Builder, p Params) {
	office := sim.MeshOf[News](b, p.Talk)
	b.Nodes("person", p.People, func(n *sim.Node) {
		told, knew, byMail := n.Counter("told"), n.Counter("knew"), n.Counter("first_by_mail")
		heard := n.Tally("heard", sim.Unit("s"), sim.Percentiles(50, 90, 100))
		knows := false
		sim.Saved(n, "knows", &knows) // so that the run can go on from a checkpoint

		var talk *sim.Later[struct{}]
		hear := func(c *sim.Context) {
			knows = true
			knew.Inc()
			heard.Add(c.Now())
			talk.After(c.Draw(p.Gap), struct{}{})
		}
		talk = sim.NewLater(n, "talk", func(c *sim.Context, _ struct{}) {
			whom := int(c.Draw(dist.Uniform(0, float64(p.People-1)).Named("whom")))
			if whom >= n.Index() {
				whom++ // somebody else
			}
			if c.Draw(dist.Bernoulli(p.MailShare).Named("how")) == 1 {
				office.SendAfter(c, p.Talk.Min()+c.Draw(p.MailDelay), whom, News{ByMail: true})
			} else {
				office.Send(c, whom, News{})
			}
			talk.After(c.Draw(p.Gap), struct{}{})
		})
		sim.On(n, func(c *sim.Context, news News) {
			told.Inc()
			if !knows {
				if news.ByMail {
					byMail.Inc()
				}
				hear(c)
			}
		})
		if n.Index() == 0 {
			n.Start(hear)
		}
	})
}
