// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/overview"
)

// rowsMax bounds every table of the text: a page for people. The JSON has all.
const rowsMax = 40

// WriteText writes the results for people: aligned tables, units on every number.
func (r *Results) WriteText(w io.Writer) error { return overview.WriteTables(w, r.tables()) }

// tables are all that there is to show, in the order of tableNames.
func (r *Results) tables() []overview.Table {
	return []overview.Table{
		{Name: "summary", Write: r.writeHead},
		{Name: "servers", Write: r.writeServers},
		{Name: "balancers", Write: r.writeBalancers},
		{Name: "outages", Write: func(b *bufio.Writer) { writeEvents(b, "outages", r.Outages) }},
		{Name: "spikes", Write: func(b *bufio.Writer) { writeEvents(b, "spikes", r.Spikes) }},
		{Name: "confidence", Write: r.writeConfidence},
		{Name: "replications", Write: r.writeReplications},
		{Name: "endpoints", Write: r.writeEndpoints},
		{Name: "edges", Write: r.writeEdges},
		{Name: "sampled", Write: r.writeSampled},
	}
}

func (r *Results) writeHead(b *bufio.Writer) {
	n := len(r.Replications)
	fmt.Fprintf(b, "service scenario %s: %s", r.spec.Name, table.Plural(n, "replication"))
	if r.WarmupSeconds > 0 {
		fmt.Fprintf(b, ", the first %s not counted", table.Seconds(r.WarmupSeconds))
	}
	if r.Interrupted {
		fmt.Fprintf(b, " of %s, INTERRUPTED after %s in all; rates are over the time reached\n\n",
			table.Seconds(r.HorizonSeconds), table.Seconds(r.SimulatedSeconds))
	} else {
		fmt.Fprintf(b, " of %s\n\n", table.Seconds(r.HorizonSeconds))
	}
	before := ""
	if r.WarmupSeconds > 0 {
		before = " + " + table.Count(r.RequestsBefore) + " in flight before"
	}
	fmt.Fprintf(b, "requests    %s generated%s = %s completed + %s dropped + %s in flight\n",
		table.Count(r.RequestsGenerated), before, table.Count(r.RequestsCompleted), table.Count(r.RequestsDropped),
		table.Count(r.RequestsInFlight))
	fmt.Fprintf(b, "generator   %s: %s requests/s; %s active users, the mean of %s\n",
		r.Generator.ID, table.Number(r.Generator.RateRPS), table.Number(r.Generator.UsersMean),
		table.Plural(int(r.Generator.Windows), "window"))
	c := r.Confidence
	if c == nil {
		c = &Confidence{ThroughputRPS: measure.Unknown(0, 0)}
	}
	fmt.Fprintf(b, "throughput  %s requests/s", table.NumberStep(r.ThroughputRPS, c.ThroughputRPS.Width()))
	if c.ThroughputRPS.Known() {
		fmt.Fprintf(b, "; 95 %% confidence %s to %s", table.NumberStep(c.ThroughputRPS.Low, c.ThroughputRPS.Width()),
			table.NumberStep(c.ThroughputRPS.High, c.ThroughputRPS.Width()))
	}
	b.WriteByte('\n')
	l := r.Latency
	if l == nil {
		b.WriteString("latency     no request completed\n")
		return
	}
	fmt.Fprintf(b, "latency     mean %s", table.SecondsStep(l.Mean, c.LatencyMean.Width()))
	if c.LatencyMean != nil && c.LatencyMean.Known() {
		fmt.Fprintf(b, "; 95 %% confidence %s to %s", table.SecondsStep(c.LatencyMean.Low, c.LatencyMean.Width()),
			table.SecondsStep(c.LatencyMean.High, c.LatencyMean.Width()))
	}
	fmt.Fprintf(b, "\n            p50 %s, p90 %s, p95 %s, p99 %s, p99.9 %s\n", table.Seconds(l.P50),
		table.Seconds(l.P90), table.Seconds(l.P95), table.Seconds(l.P99), table.Seconds(l.P999))
	fmt.Fprintf(b, "            min %s, max %s, standard deviation %s\n", table.Seconds(l.Min), table.Seconds(l.Max),
		table.Seconds(l.StdDev))
}

func (r *Results) writeServers(b *bufio.Writer) {
	t := table.New(rowsMax, "servers", "requests", "utilisation", "ready mean", "max", "I/O mean", "max", "MB mean",
		"max", "waiting for MB", "max", "residence")
	for i := range r.spec.Servers {
		if t.Full() {
			t.More(len(r.spec.Servers) - i)
			break
		}
		id := r.spec.Servers[i].ID
		s := r.server(i)
		t.Row(id, table.Count(s.Requests), table.Percent(s.Utilisation), table.Number(s.ReadyQueueMean),
			table.Count(s.ReadyQueueMax), table.Number(s.IOMean), table.Count(s.IOMax),
			table.Number(s.RAMMean), table.Number(s.RAMMax), table.Number(s.RAMQueueMean), table.Count(s.RAMQueueMax),
			table.SecondsOrNone(s.ResidenceMean))
	}
	t.Write(b)
}

// writeEndpoints lists the endpoints of servers that have several.
func (r *Results) writeEndpoints(b *bufio.Writer) {
	t := table.New(rowsMax, "endpoints", "requests", "share")
	for i := range r.spec.Servers {
		if n := len(r.spec.Servers[i].Endpoints); n < 2 {
			continue
		} else if t.Full() {
			t.More(n)
			continue
		}
		id := r.spec.Servers[i].ID
		s := r.server(i)
		for _, e := range s.Endpoints {
			t.Row(id+" "+e.Name, table.Count(e.Requests), table.Percent(per(float64(e.Requests), float64(s.Requests))))
		}
	}
	t.Write(b)
}

func (r *Results) writeBalancers(b *bufio.Writer) {
	t := table.New(rowsMax, "load balancers", "requests", "share")
	for i := range r.spec.Balancers {
		lb := &r.spec.Balancers[i]
		if t.Full() {
			t.More(1 + len(lb.Covers))
			continue
		}
		res := r.balancer(i)
		t.Row(lb.ID, table.Count(res.Requests), "")
		for k, target := range lb.Covers {
			if t.Full() {
				t.More(len(lb.Covers) - k)
				break
			}
			n := res.Targets[target]
			t.Row("  to "+target, table.Count(n), table.Percent(per(float64(n), float64(res.Requests))))
		}
	}
	t.Write(b)
}

func (r *Results) writeEdges(b *bufio.Writer) {
	t := table.New(rowsMax, "edges", "sent", "dropped", "in transit", "concurrent mean", "max")
	for i := range r.spec.Edges {
		if t.Full() {
			t.More(len(r.spec.Edges) - i)
			break
		}
		e := &r.spec.Edges[i]
		res := r.edge(i)
		t.Row(e.ID, table.Count(res.Sent), table.Count(res.Dropped), table.Count(res.InTransit),
			table.Number(res.ConcurrentMean), table.Count(res.ConcurrentMax))
	}
	t.Write(b)
}

func writeEvents(b *bufio.Writer, what string, events []EventResult) {
	heads := []string{what, "from", "to", "requests/s", "throughput/s", "latency mean", "p95", "transit mean"}
	if len(events) > 0 && events[0].SpikeS == 0 {
		heads = heads[:len(heads)-1] // an outage is of no edge
	}
	t := table.New(rowsMax, heads...)
	for i := range events {
		e := &events[i]
		if e.SpikeS > 0 {
			t.Row(e.ID + ": " + e.Target + " + " + table.Seconds(e.SpikeS))
		} else {
			t.Row(e.ID + ": " + e.Target + " down")
		}
		phase(t, "  before", e.Before, len(heads))
		phase(t, "  during", e.During, len(heads))
		phase(t, "  after", e.After, len(heads))
	}
	t.Write(b)
}

// phase adds the row of one phase, in as many columns as the table has.
func phase(t *table.Table, name string, p *Phase, columns int) {
	if p == nil {
		t.Row(name, "none")
		return
	}
	t.Row([]string{name, table.Seconds(p.From), table.Seconds(p.To), table.Number(p.RequestsRPS),
		table.Number(p.ThroughputRPS),
		table.SecondsOrNone(p.LatencyMean), table.SecondsOrNone(p.LatencyP95),
		table.SecondsOrNone(p.TransitMean)}[:columns]...)
}

func (r *Results) writeSampled(b *bufio.Writer) {
	t := table.New(rowsMax, "sampled every "+table.Seconds(r.spec.Settings.SamplePeriod), "mean", "max", "samples")
	add := func(id string, sampled map[string]Sampled) {
		for _, metric := range r.spec.Settings.Sampled {
			if s, ok := sampled[metric]; ok {
				t.Row(id+" "+metric, table.Number(s.Mean), table.Number(s.Max), table.Count(s.Samples))
			}
		}
	}
	// Which metrics are sampled is the same for all servers, and for all edges.
	for i := range r.spec.Servers {
		sampled := r.server(i).Sampled
		if t.Full() {
			t.More((len(r.spec.Servers) - i) * len(sampled))
			break
		}
		add(r.spec.Servers[i].ID, sampled)
	}
	for i := range r.spec.Edges {
		sampled := r.edge(i).Sampled
		if t.Full() {
			t.More((len(r.spec.Edges) - i) * len(sampled))
			break
		}
		add(r.spec.Edges[i].ID, sampled)
	}
	t.Write(b)
}

func (r *Results) writeConfidence(b *bufio.Writer) {
	c := r.Confidence
	if c == nil {
		return
	}
	t := table.New(rowsMax, fmt.Sprintf("95 %% confidence, %s", table.Plural(c.Replications, "replication")),
		"estimate", "from", "to")
	add := func(what string, i *measure.Interval, form func(x, step float64) string) {
		switch {
		case i == nil:
		case i.Known():
			t.Row(what, form(i.Mean, i.Width()), form(i.Low, i.Width()), form(i.High, i.Width()))
		default:
			t.Row(what, form(i.Mean, i.Width()), "too short", "too short")
		}
	}
	add("throughput, requests/s", &c.ThroughputRPS, table.NumberStep)
	add("latency mean", c.LatencyMean, table.SecondsStep)
	add("latency p50", c.LatencyP50, table.SecondsStep)
	add("latency p95", c.LatencyP95, table.SecondsStep)
	add("latency p99", c.LatencyP99, table.SecondsStep)
	for i := range r.spec.Servers {
		if t.Full() {
			t.More(2 * (len(r.spec.Servers) - i))
			break
		}
		id, s := r.spec.Servers[i].ID, r.serverConfidence(i)
		add(id+" utilisation", &s.Utilisation, table.PercentStep)
		add(id+" ready queue", &s.ReadyQueueMean, table.NumberStep)
	}
	t.Write(b)
}

func (r *Results) writeReplications(b *bufio.Writer) {
	if len(r.Replications) < 2 {
		return
	}
	t := table.New(rowsMax, "replications", "reached", "generated", "completed", "dropped", "in flight", "throughput/s",
		"latency mean", "p50", "p95", "p99")
	for _, row := range r.Replications {
		t.Row(strconv.Itoa(row.Index), table.Seconds(row.Reached), table.Count(row.Generated),
			table.Count(row.Completed), table.Count(row.Dropped), table.Count(row.InFlight),
			table.Number(row.ThroughputRPS), table.SecondsOrNone(row.LatencyMean), table.SecondsOrNone(row.LatencyP50),
			table.SecondsOrNone(row.LatencyP95), table.SecondsOrNone(row.LatencyP99))
	}
	t.Write(b)
}
