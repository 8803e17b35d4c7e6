// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/disco-sim/disco/internal/overviewtest"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/sim/dist"
)

// clinic is a model with servers: one that breaks down, and a group.
func clinic(b *Builder) {
	b.Nodes("ward", 7, func(n *Node) {
		beds := n.Server("beds", 1+n.Index()/3)
		stay, left := n.Tally("stay", Unit("s")), n.Counter("left")
		n.Each(dist.Exponential(3).Named("gap"), func(p *Process) {
			came := p.Now()
			beds.Serve(p, p.Draw(dist.Exponential(1+float64(n.Index())/4).Named("care")))
			stay.Add(p.Now() - came)
			left.Inc()
		})
	})
	b.Node("lift", func(n *Node) {
		lift := n.Server("lift", 1)
		lift.Breakdowns(dist.Exponential(50), dist.Exponential(5), Resume)
		rides := n.Gauge("rides")
		n.Each(dist.Exponential(2).Named("gap"), func(p *Process) {
			rides.Add(1)
			lift.Serve(p, 1)
			rides.Add(-1)
		})
	})
}

// TestOverview: the first screen has the model's own figures first, and the busiest servers.
func TestOverview(t *testing.T) {
	m := model(t, 400, 20, clinic)
	for n := range 3 {
		if figures := overviewtest.Check(t, m, summarize(t, m, n+1)); figures < 20 {
			t.Errorf("%d figures: the page is empty", figures)
		}
	}
	text := ""
	page := m.Overview(summarize(t, m, 3))
	for _, line := range overview.Render(page, overview.Limits{Lines: overview.Lines, Columns: 100}) {
		text += line.Text() + "\n"
	}
	modeltest.Golden(t, "testdata/overview.txt", text, *update)
}
