// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"strconv"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// TableNames implements overview.Shower.
func (m *Model) TableNames() []string { return overview.Names((&Results{}).tables()) }

// worstShown is how many links and flows the first screen has.
const worstShown = 5

// Overview implements overview.Shower.
func (m *Model) Overview(results scenario.Summary) *overview.Page {
	r := results.(*Results)
	p := &overview.Page{Figures: r.figures(), Tables: r.tables()}
	p.Blocks = []overview.Block{r.happened(), r.busiest(), r.lossy()}
	if l := r.latencies; l != nil && l.Count > 0 {
		p.Distributions = []overview.Distribution{{Name: "latency", Unit: "s", Count: l.Count, At: l.P}}
	}
	if r.Interrupted {
		p.Alarm = fmt.Sprintf("INTERRUPTED after %s in all; rates are over the time reached",
			table.Seconds(r.SimulatedSeconds))
	}
	if r.WarmupSeconds > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("the first %s not counted", table.Seconds(r.WarmupSeconds)))
	}
	if r.Confidence == nil {
		p.Remarks = append(p.Remarks, "one replication has no intervals: --replications 10 gives them")
	}
	return p
}

// figures are those that matter, with their intervals.
func (r *Results) figures() overview.Block {
	b := overview.Block{Heads: []string{"figures", "", "95 % from", "to"}}
	c := r.Confidence
	if c == nil {
		c = &Confidence{}
	}
	b.Row("offered", overview.Num("/offered_pps", r.OfferedPPS, overview.Plain, " packets/s"))
	b.Estimate("delivered", overview.Num("/delivered_pps", r.DeliveredPPS, overview.Plain, " packets/s"),
		"/confidence_95/delivered_pps", c.DeliveredPPS)
	b.Estimate("lost, of those sent", overview.Num("/loss_ratio", r.LossRatio, lossForm, "").BadIf(r.Lost > 0),
		"/confidence_95/loss_ratio", c.LossRatio)
	l := r.Latency
	if l == nil {
		b.Row("latency", overview.Said("no packet was delivered"))
		return b
	}
	b.Estimate("latency, mean", overview.Num("/latency_s/mean", l.Mean, overview.Seconds, ""),
		"/confidence_95/latency_mean_s", c.LatencyMean)
	b.Estimate("latency, 99th percentile", overview.Num("/latency_s/p99", l.P99, overview.Seconds, ""),
		"/confidence_95/latency_p99_s", c.LatencyP99)
	if r.Hops != nil {
		b.Row("links that a packet takes", overview.Num("/hops/mean", r.Hops.Mean, overview.Plain, ""))
	}
	return b
}

// lossForm is that of losses, which may be few: four digits of a percentage.
func lossForm(x, step float64) string { return table.NumberStep(100*x, 100*step) + " %" }

// happened is what outages and the like did: the whole network before, while and after each.
func (r *Results) happened() overview.Block {
	b := overview.Block{Table: "outages", Heads: []string{"outages (before → during → after)", "delivered/s",
		"latency mean", "from", "to"}}
	for i := range r.Outages {
		o := &r.Outages[i]
		if o.During == nil {
			continue // the run hasn't got so far
		}
		number := func(phase string, p *Phase, field string, of func(p *Phase) *float64,
			as overview.Form) overview.Cell {
			if p == nil {
				return overview.Said(overview.None)
			}
			return overview.Maybe(overview.At("outages", i, phase, field), of(p), as, "")
		}
		change := func(field string, of func(p *Phase) *float64, as overview.Form) overview.Cell {
			return overview.Change(number("before", o.Before, field, of, as),
				number("during", o.During, field, of, as), number("after", o.After, field, of, as))
		}
		name := o.Target + ": " + o.Kind
		if o.Replication != nil {
			name += ", replication " + strconv.Itoa(*o.Replication)
		}
		b.Row(name, change("delivered_pps", func(p *Phase) *float64 { return &p.DeliveredPPS }, table.NumberStep),
			change("latency_mean_s", func(p *Phase) *float64 { return p.LatencyMean }, overview.Seconds),
			overview.Num(overview.At("outages", i, "start_s"), o.Start, overview.Seconds, ""),
			overview.Num(overview.At("outages", i, "end_s"), o.End, overview.Seconds, ""))
	}
	return b
}

// busiest are the links that were sending longest.
func (r *Results) busiest() overview.Block {
	b := overview.Block{Heads: []string{"busiest links", "utilisation", "queue mean", "max", "wait mean"},
		Table: "links"}
	top := overview.NewTop(worstShown)
	for i := range r.Links {
		top.Add(i, r.Links[i].Utilisation)
	}
	for _, i := range top.Items {
		l := &r.Links[i]
		at := func(field string) string { return overview.At("links", i, field) }
		b.Row(l.From+" → "+l.To, overview.Num(at("utilisation"), l.Utilisation, overview.Share, "").
			BadIf(l.Utilisation > busyNoted),
			overview.Num(at("queue_mean"), l.QueueMean, overview.Plain, ""),
			overview.Num(at("queue_max"), float64(l.QueueMax), overview.Count, ""),
			overview.Num(at("wait_mean_s"), l.WaitMean, overview.Seconds, ""))
	}
	b.More = len(r.Links) - len(b.Rows)
	return b
}

// busyNoted is the utilisation from which a queue gets long.
const busyNoted = 0.9

// lossy are the flows that lost the most.
func (r *Results) lossy() overview.Block {
	b := overview.Block{Heads: []string{"flows that lost most", "lost", "sent", "latency mean"}, Table: "flows"}
	top, lost := overview.NewTop(worstShown), 0
	for i := range r.Flows {
		if r.Flows[i].Lost > 0 {
			top.Add(i, float64(r.Flows[i].Lost))
			lost++
		}
	}
	for _, i := range top.Items {
		f := &r.Flows[i]
		at := func(fields ...any) string { return overview.At(append([]any{"flows", i}, fields...)...) }
		mean := overview.Maybe(at("latency_mean_s"), f.LatencyMean, overview.Seconds, "")
		if f.Latency != nil {
			mean = overview.Num(at("latency_s", "mean"), f.Latency.Mean, overview.Seconds, "")
		}
		b.Row(f.From+" → "+f.To, overview.Num(at("lost"), float64(f.Lost), overview.Count, ""),
			overview.Num(at("sent"), float64(f.Sent), overview.Count, ""), mean)
	}
	b.More = lost - len(b.Rows)
	return b
}
