// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// TableNames implements overview.Shower.
func (m *Model) TableNames() []string { return overview.Names((&Results{}).tables()) }

const (
	figuresLeast = 3 // on the first screen
	figuresShown = 6
	worstShown   = 5
	spreadsMost  = 8
)

// Overview implements overview.Shower.
func (m *Model) Overview(results scenario.Summary) *overview.Page {
	r := results.(*Results)
	p := &overview.Page{Figures: r.figures(), Blocks: []overview.Block{r.busiest()}, Tables: r.tables()}
	for _, t := range r.totals {
		if v := &t.all.values; t.entry.kind == tallyKind && v.Count > 0 && len(p.Distributions) < spreadsMost {
			p.Distributions = append(p.Distributions, overview.Distribution{Name: t.entry.name, Unit: t.entry.unit,
				Count: v.Count, At: v.P})
		}
	}
	if r.WarmupSeconds > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("the first %s not counted", table.Seconds(r.WarmupSeconds)))
	}
	if r.Antithetic {
		p.Notes = append(p.Notes, table.Plural(r.Samples, "sample")+" of antithetic replications")
	}
	if r.Interrupted {
		p.Alarm = "INTERRUPTED: the figures are over the time reached"
	}
	if len(r.Statistics) == 0 {
		p.Remarks = append(p.Remarks, "the model declares no statistics")
	}
	if r.tooShort() {
		p.Remarks = append(p.Remarks, tooShort)
	}
	return p
}

// Ranks of statistics: what is shown first has the least.
const (
	rankWait  = 3 // times waited for resources; before them come the model's own tallies, counters and gauges
	rankOther = 4 // what else resources record
	rankZero  = 5 // of that what never happened
)

// rank is how soon a statistic is shown.
func (s *Statistic) rank() int {
	_, name, _ := strings.Cut(s.Name, "/")
	switch {
	case !strings.Contains(name, "."):
		return slices.Index([]string{kindNames[tallyKind], kindNames[counterKind], kindNames[gaugeKind]}, s.Kind)
	case strings.HasSuffix(name, ".wait"):
		return rankWait
	case s.Total != nil && *s.Total == 0:
		return rankZero
	}
	return rankOther
}

// at is where the JSON has something of the statistic.
func (s *Statistic) at(fields ...any) string {
	return overview.At(append([]any{"statistics", s.Name}, fields...)...)
}

// figures are the first statistics, by rank and the order of their declaration; what resources record beside the time
// waited only where there is little else.
func (r *Results) figures() overview.Block {
	all := slices.Clone(r.Statistics)
	slices.SortStableFunc(all, func(x, y *Statistic) int { return cmp.Compare(x.rank(), y.rank()) })
	count := 0
	for count < min(figuresShown, len(all)) && (count < figuresLeast || all[count].rank() <= rankWait) {
		count++
	}
	shown := all[:count]
	percent := r.percent(shown)
	b := overview.Block{Heads: []string{"figures", "count", "mean", "95 % from", "to", percentileName(percent), "max"},
		More: len(all) - len(shown), Table: strings.Join(overview.Names(r.tables()), ",")}
	for _, s := range shown {
		count, mean, i := overview.Said(overview.None), overview.Said(overview.None), s.estimate()
		percentile := overview.Said(overview.None)
		at, unit := s.at("mean"), ""
		if s.Kind == kindNames[counterKind] {
			at, unit = s.at("rate_per_s"), "/s"
			count = overview.Num(s.at("total"), *s.Total, counted, "")
		}
		if s.Count != nil {
			count = overview.Num(s.at("count"), float64(*s.Count), overview.Count, "")
		}
		if i != nil {
			mean = overview.Num(at+"/mean", i.Mean, overview.Plain, unit)
		}
		if x := s.Percentile(percent); x != nil {
			percentile = overview.Num(s.at("percentiles", percentileName(percent), "mean"), x.Mean, overview.Plain, "")
		}
		cells := append([]overview.Cell{count}, overview.Interval(mean, at, i)...)
		b.Row(s.title(), append(cells, percentile, overview.Maybe(s.at("max"), s.Max, overview.Plain, ""))...)
	}
	return b
}

// counted is the form of what a Counter has counted, which needn't be whole.
func counted(x, step float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return overview.Count(x, step)
	}
	return digits(x, step, 6)
}

// percent is the percentile that is shown: 95, or the greatest that one of the statistics has.
func (r *Results) percent(shown []*Statistic) (percent float64) {
	for _, s := range shown {
		for _, p := range s.shown {
			if p == 95 {
				return p
			}
			if p < 100 {
				percent = max(percent, p)
			}
		}
	}
	return percent
}

// busiest are the servers of which most was in use, of groups with figures by node each by itself.
func (r *Results) busiest() overview.Block {
	b := overview.Block{Heads: []string{"busiest servers", "utilisation", "queue", "wait", "down"},
		Table: "gauges"}
	type server struct{ name, node string }
	var all []server
	top := overview.NewTop(worstShown)
	for _, s := range r.Statistics {
		name, ok := strings.CutSuffix(s.Name, ".utilisation")
		if !ok || s.Kind != kindNames[gaugeKind] || s.Mean == nil {
			continue
		}
		for i, f := range s.PerNode.values {
			if f.Mean != nil {
				top.Add(len(all), *f.Mean)
				all = append(all, server{name, s.PerNode.names[i]})
			}
		}
		if len(s.PerNode.values) == 0 {
			top.Add(len(all), s.Mean.Mean)
			all = append(all, server{name, ""})
		}
	}
	for _, i := range top.Items {
		cell := func(field string, as overview.Form, unit string) overview.Cell {
			return r.meanOf(all[i].name+field, all[i].node, as, unit)
		}
		name := all[i].name
		if all[i].node != "" {
			_, resource, _ := strings.Cut(name, "/")
			name = all[i].node + "/" + resource
		}
		use := cell(".utilisation", overview.Share, "")
		b.Row(name, use.BadIf(use.Terms[0].Value > busyNoted), cell(".queue", overview.Plain, ""),
			cell(".wait", overview.Plain, " s"), cell(".down", overview.Share, ""))
	}
	b.More = len(all) - len(b.Rows)
	return b
}

// busyNoted is the utilisation from which a queue gets long.
const busyNoted = 0.9

// meanOf is the mean of a statistic, or that of one node.
func (r *Results) meanOf(name, node string, as overview.Form, unit string) overview.Cell {
	s := r.Statistic(name)
	switch {
	case s == nil:
	case node == "" && s.Mean != nil:
		return overview.Num(s.at("mean", "mean"), s.Mean.Mean, as, unit)
	case node != "" && s.Node(node) != nil:
		return overview.Maybe(s.at("per_node", node, "mean"), s.Node(node).Mean, as, unit)
	}
	return overview.Said(overview.None)
}
