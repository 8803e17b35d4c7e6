// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// TableNames implements overview.Shower.
func (m *Model) TableNames() []string { return overview.Names((&Results{}).tables()) }

// worstShown is how many stocks the first screen has.
const worstShown = 6

// Overview implements overview.Shower.
func (m *Model) Overview(results scenario.Summary) *overview.Page {
	r := results.(*Results)
	p := &overview.Page{Figures: r.figures(), Blocks: []overview.Block{r.byStage(), r.worst()}, Tables: r.tables()}
	if r.WarmupSeconds > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("the first %s not counted", table.Seconds(r.WarmupSeconds)))
	}
	if r.Interrupted {
		p.Alarm = "INTERRUPTED: the figures are over the time reached"
	}
	if r.Samples == 1 {
		p.Remarks = append(p.Remarks, "one replication has no intervals: --replications 10 gives them")
	}
	if len(r.Points) < r.all {
		p.Remarks = append(p.Remarks, fmt.Sprintf("%s: each in the table that --csv writes",
			table.Plural(r.all, "stock")))
	}
	return p
}

// figures are those of all stocks together.
func (r *Results) figures() overview.Block {
	b := overview.Block{Heads: []string{fmt.Sprintf("figures of all (%s)", table.Plural(r.all, "stock")), "",
		"95 % from", "to"}}
	for _, f := range []struct{ name, text string }{{"fill_rate", "fill rate"}, {"stock", "stock on hand"},
		{"backlog", "backlog"}, {"bullwhip", "bullwhip"}, {"cost_per_s", "cost /s"}} {
		if x := r.Total[f.name]; x != nil {
			at := overview.At("total", f.name)
			b.Estimate(f.text, overview.Num(at+"/mean", x.Mean, overview.Plain, ""), at, x)
		}
	}
	return b
}

// cells are figures of a stage or of a stock.
func cells(all Figures, at func(field string) string, names ...string) (row []overview.Cell) {
	for _, name := range names {
		c := overview.Said(overview.None)
		if x := all[name]; x != nil {
			c = overview.Num(at(name)+"/mean", x.Mean, overview.Plain, "")
		}
		row = append(row, c)
	}
	return row
}

// byStage is how service, stock and orders change on the way from demand.
func (r *Results) byStage() overview.Block {
	b := overview.Block{Table: "stages", Heads: []string{"stages, from demand on", "fill rate", "on hand", "backlog",
		"bullwhip", "cost /s"}}
	for i, s := range r.Stages {
		at := func(field string) string { return overview.At("stages", i, "figures", field) }
		b.Row(fmt.Sprintf("stage %d (%s)", s.Stage, table.Plural(s.Points, "stock")),
			cells(s.Figures, at, "fill_rate", "stock", "backlog", "bullwhip", "cost_per_s")...)
	}
	return b
}

// worst are the stocks that could deliver least of what was asked for.
func (r *Results) worst() overview.Block {
	b := overview.Block{Heads: []string{"lowest fill rates", "fill rate", "on hand", "backlog", "on order", "cost /s"},
		Table: "stocks"}
	top := overview.NewTop(worstShown)
	for i, p := range r.Points {
		if x := p.Figures["fill_rate"]; x != nil {
			top.Add(i, -x.Mean)
		}
	}
	for _, i := range top.Items {
		p := r.Points[i]
		at := func(field string) string { return overview.At("points", i, "figures", field) }
		b.Row(p.Location+" "+p.Product,
			cells(p.Figures, at, "fill_rate", "stock", "backlog", "on_order", "cost_per_s")...)
	}
	b.More = len(r.Points) - len(b.Rows)
	return b
}
