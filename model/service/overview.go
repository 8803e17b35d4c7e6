// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// TableNames implements overview.Shower.
func (m *Model) TableNames() []string { return overview.Names((&Results{}).tables()) }

// worstShown is how many servers and edges the first screen has.
const worstShown = 5

// Overview implements overview.Shower.
func (m *Model) Overview(results scenario.Summary) *overview.Page {
	r := results.(*Results)
	p := &overview.Page{Figures: r.figures(), Tables: r.tables()}
	p.Blocks = []overview.Block{r.happened("outages", r.Outages), r.happened("spikes", r.Spikes), r.busiest(),
		r.lossy()}
	if l := &r.tally.latency; l.Count > 0 {
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
	b.Row("requests completed", overview.Num("/requests_completed", float64(r.RequestsCompleted), overview.Count, ""))
	b.Row("requests dropped", overview.Num("/requests_dropped", float64(r.RequestsDropped), overview.Count, "").
		BadIf(r.RequestsDropped > 0))
	c := r.Confidence
	if c == nil {
		c = &Confidence{ThroughputRPS: measure.Unknown(0, 0)}
	}
	b.Estimate("throughput", overview.Num("/throughput_rps", r.ThroughputRPS, overview.Plain, " requests/s"),
		"/confidence_95/throughput_rps", &c.ThroughputRPS)
	l := r.Latency
	if l == nil {
		b.Row("latency", overview.Said("no request completed"))
		return b
	}
	b.Estimate("latency, mean", overview.Num("/latency_s/mean", l.Mean, overview.Seconds, ""),
		"/confidence_95/latency_mean_s", c.LatencyMean)
	b.Estimate("latency, 95th percentile", overview.Num("/latency_s/p95", l.P95, overview.Seconds, ""),
		"/confidence_95/latency_p95_s", c.LatencyP95)
	b.Estimate("latency, 99th percentile", overview.Num("/latency_s/p99", l.P99, overview.Seconds, ""),
		"/confidence_95/latency_p99_s", c.LatencyP99)
	return b
}

// happened is what outages or spikes did: the whole system before, while and after each.
func (r *Results) happened(what string, events []EventResult) overview.Block {
	b := overview.Block{Table: what, Heads: []string{what + " (before → during → after)", "throughput/s",
		"latency mean", "from", "to"}}
	for i := range events {
		e := &events[i]
		if e.During == nil {
			continue // the run hasn't got so far
		}
		number := func(phase string, p *Phase, field string, of func(p *Phase) *float64,
			as overview.Form) overview.Cell {
			if p == nil {
				return overview.Said(overview.None)
			}
			return overview.Maybe(overview.At(what, i, phase, field), of(p), as, "")
		}
		change := func(field string, of func(p *Phase) *float64, as overview.Form) overview.Cell {
			return overview.Change(number("before", e.Before, field, of, as),
				number("during", e.During, field, of, as), number("after", e.After, field, of, as))
		}
		name := e.Target + " down"
		if e.SpikeS > 0 {
			name = e.Target + " + " + table.Seconds(e.SpikeS)
		}
		b.Row(name, change("throughput_rps", func(p *Phase) *float64 { return &p.ThroughputRPS }, table.NumberStep),
			change("latency_mean_s", func(p *Phase) *float64 { return p.LatencyMean }, overview.Seconds),
			overview.Num(overview.At(what, i, "start_s"), e.Start, overview.Seconds, ""),
			overview.Num(overview.At(what, i, "end_s"), e.End, overview.Seconds, ""))
	}
	return b
}

// busiest are the servers whose cores were held longest.
func (r *Results) busiest() overview.Block {
	b := overview.Block{Heads: []string{"busiest servers", "utilisation", "ready mean", "max", "residence"},
		Table: "servers"}
	top, s := overview.NewTop(worstShown), ServerResult{}
	for i := range r.spec.Servers {
		r.fillServer(&s, i)
		top.Add(i, s.Utilisation)
	}
	for _, i := range top.Items {
		r.fillServer(&s, i)
		id := r.spec.Servers[i].ID
		at := func(field string) string { return overview.At("servers", id, field) }
		b.Row(id, overview.Num(at("utilisation"), s.Utilisation, overview.Share, "").BadIf(s.Utilisation > busyNoted),
			overview.Num(at("ready_queue_mean"), s.ReadyQueueMean, overview.Plain, ""),
			overview.Num(at("ready_queue_max"), float64(s.ReadyQueueMax), overview.Count, ""),
			overview.Maybe(at("residence_mean_s"), s.ResidenceMean, overview.Seconds, ""))
	}
	b.More = len(r.spec.Servers) - len(b.Rows)
	return b
}

// busyNoted is the utilisation from which a queue gets long.
const busyNoted = 0.9

// lossy are the edges that dropped the most.
func (r *Results) lossy() overview.Block {
	b := overview.Block{Heads: []string{"edges that dropped most", "dropped", "sent", "concurrent mean", "max"},
		Table: "edges"}
	top, e, dropped := overview.NewTop(worstShown), EdgeResult{}, 0
	for i := range r.spec.Edges {
		if r.fillEdge(&e, i); e.Dropped > 0 {
			top.Add(i, float64(e.Dropped))
			dropped++
		}
	}
	for _, i := range top.Items {
		r.fillEdge(&e, i)
		id := r.spec.Edges[i].ID
		at := func(field string) string { return overview.At("edges", id, field) }
		b.Row(id, overview.Num(at("dropped"), float64(e.Dropped), overview.Count, ""),
			overview.Num(at("sent"), float64(e.Sent), overview.Count, ""),
			overview.Num(at("concurrent_mean"), e.ConcurrentMean, overview.Plain, ""),
			overview.Num(at("concurrent_max"), float64(e.ConcurrentMax), overview.Count, ""))
	}
	b.More = dropped - len(b.Rows)
	return b
}
