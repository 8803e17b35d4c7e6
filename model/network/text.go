// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/overview"
)

// rowsMax bounds every table of the text: a page for people. The JSON has all.
const rowsMax = 20

// WriteText writes the results for people: aligned tables, units on every number.
func (r *Results) WriteText(w io.Writer) error { return overview.WriteTables(w, r.tables()) }

// tables are all that there is to show, in the order of tableNames.
func (r *Results) tables() []overview.Table {
	return []overview.Table{
		{Name: "summary", Write: r.writeHead},
		{Name: "links", Write: r.writeLinks},
		{Name: "flows", Write: r.writeFlows},
		{Name: "events", Write: r.writeEvents},
		{Name: "outages", Write: r.writeOutages},
		{Name: "replications", Write: r.writeReplications},
	}
}

func (r *Results) writeHead(b *bufio.Writer) {
	t := r.spec.Topology
	fmt.Fprintf(b, "network scenario %s: %s, %s, %s; %s", r.spec.Name, table.Plural(len(t.Nodes), "node"),
		table.Plural(len(t.Cables), "link"), table.Plural(len(r.spec.Flows), "flow"),
		table.Plural(len(r.Replications), "replication"))
	if r.WarmupSeconds > 0 {
		fmt.Fprintf(b, ", the first %s not counted", table.Seconds(r.WarmupSeconds))
	}
	if r.Interrupted {
		fmt.Fprintf(b, " of %s, INTERRUPTED after %s in all; rates are over the time reached\n\n",
			table.Seconds(r.HorizonSeconds), table.Seconds(r.SimulatedSeconds))
	} else {
		fmt.Fprintf(b, " of %s\n\n", table.Seconds(r.HorizonSeconds))
	}
	c := r.Confidence
	if c == nil {
		c = &Confidence{}
	}
	before := ""
	if r.WarmupSeconds > 0 {
		before = " + " + table.Count(r.Before) + " in flight before"
	}
	fmt.Fprintf(b, "packets    %s sent%s = %s delivered + %s lost + %s in flight\n", table.Count(r.Sent), before,
		table.Count(r.Delivered), table.Count(r.Lost), table.Count(r.InFlight))
	fmt.Fprintf(b,
		"lost       %s to full buffers, %s in outages, %s without a route, %s at random: %.4g %% of those sent",
		table.Count(r.LostBy.FullBuffer), table.Count(r.LostBy.Outage), table.Count(r.LostBy.NoRoute),
		table.Count(r.LostBy.Random), 100*r.LossRatio)
	if c.LossRatio != nil && c.LossRatio.Known() {
		fmt.Fprintf(b, "; 95 %% confidence %s to %s %%", table.NumberStep(100*c.LossRatio.Low, 100*c.LossRatio.Width()),
			table.NumberStep(100*c.LossRatio.High, 100*c.LossRatio.Width()))
	}
	fmt.Fprintf(b, "\ndelivered  %s packets/s of %s offered", table.NumberStep(r.DeliveredPPS, c.DeliveredPPS.Width()),
		table.Number(r.OfferedPPS))
	if c.DeliveredPPS != nil && c.DeliveredPPS.Known() {
		fmt.Fprintf(b, "; 95 %% confidence %s to %s", table.NumberStep(c.DeliveredPPS.Low, c.DeliveredPPS.Width()),
			table.NumberStep(c.DeliveredPPS.High, c.DeliveredPPS.Width()))
	}
	b.WriteByte('\n')
	l := r.Latency
	if l == nil {
		b.WriteString("latency    no packet was delivered\n")
		return
	}
	fmt.Fprintf(b, "latency    mean %s", table.SecondsStep(l.Mean, c.LatencyMean.Width()))
	if c.LatencyMean != nil && c.LatencyMean.Known() {
		fmt.Fprintf(b, "; 95 %% confidence %s to %s", table.SecondsStep(c.LatencyMean.Low, c.LatencyMean.Width()),
			table.SecondsStep(c.LatencyMean.High, c.LatencyMean.Width()))
	}
	fmt.Fprintf(b, "\n           p50 %s, p90 %s, p95 %s, p99 %s, p99.9 %s\n", table.Seconds(l.P50),
		table.Seconds(l.P90), table.Seconds(l.P95), table.Seconds(l.P99), table.Seconds(l.P999))
	fmt.Fprintf(b, "           min %s, max %s, standard deviation %s\n", table.Seconds(l.Min), table.Seconds(l.Max),
		table.Seconds(l.StdDev))
	fmt.Fprintf(b, "hops       mean %s, max %d\n", table.Number(r.Hops.Mean), r.Hops.Max)
}

// writeLinks shows the busiest links.
func (r *Results) writeLinks(b *bufio.Writer) {
	rows := slices.Clone(r.Links)
	slices.SortStableFunc(rows, func(x, y LinkResult) int { return cmp.Compare(y.Utilisation, x.Utilisation) })
	t := table.New(rowsMax, "busiest links", "rate", "delay", "packets", "utilisation", "queue mean", "max",
		"wait mean", "max", "lost: full", "outage", "random")
	for _, l := range rows {
		t.Row(l.From+" -> "+l.To, table.Rate(l.RateBPS), table.Seconds(l.DelaySeconds), table.Count(l.Packets),
			table.Percent(l.Utilisation), table.Number(l.QueueMean), table.Count(l.QueueMax),
			table.Seconds(l.WaitMean), table.Seconds(l.WaitMax), table.Count(l.LostBy.FullBuffer),
			table.Count(l.LostBy.Outage), table.Count(l.LostBy.Random))
	}
	t.Write(b)
}

// writeFlows shows the flows that have lost the most, and then those that sent the
// most.
func (r *Results) writeFlows(b *bufio.Writer) {
	rows := make([]*FlowResult, len(r.Flows))
	for i := range r.Flows {
		rows[i] = &r.Flows[i]
	}
	slices.SortStableFunc(rows, func(x, y *FlowResult) int {
		return cmp.Or(cmp.Compare(y.Lost, x.Lost), cmp.Compare(y.Sent, x.Sent))
	})
	t := table.New(rowsMax, "flows, most lost first", "sent", "delivered", "lost", "in flight", "hops", "shortest path",
		"latency mean", "p50", "p99")
	for _, f := range rows {
		cells := []string{f.From + " -> " + f.To, table.Count(f.Sent), table.Count(f.Delivered), table.Count(f.Lost),
			table.Count(f.InFlight), "-", table.SecondsOrNone(f.ShortestPath)}
		if f.Hops != nil {
			cells[5] = table.Number(f.Hops.Mean)
		}
		switch {
		case f.Latency != nil:
			cells = append(cells, table.Seconds(f.Latency.Mean), table.Seconds(f.Latency.P50),
				table.Seconds(f.Latency.P99))
		default:
			cells = append(cells, table.SecondsOrNone(f.LatencyMean), "-", "-")
		}
		t.Row(cells...)
	}
	t.Write(b)
}

func (r *Results) writeEvents(b *bufio.Writer) {
	t := table.New(rowsMax, "events", "targets", "happened", "lasted in all")
	for _, e := range r.Events {
		t.Row(e.ID+": "+e.Kind, table.Count(int64(e.Targets)), table.Count(int64(e.Count)), table.Seconds(e.Seconds))
	}
	t.Write(b)
}

func (r *Results) writeOutages(b *bufio.Writer) {
	t := table.New(2*rowsMax, "before, during and after", "from", "to", "sent/s", "delivered/s", "lost: full", "outage",
		"no route", "random", "latency mean", "p95", "p99", "its links: packets/s", "utilisation", "queue mean")
	for i := range r.Outages {
		o := &r.Outages[i]
		name := o.ID + ": " + o.Kind + ", " + o.Target
		if o.Replication != nil {
			name += " (replication " + strconv.Itoa(*o.Replication) + ")"
		}
		t.Row(name)
		phaseRow(t, "  before", o.Before)
		phaseRow(t, "  during", o.During)
		phaseRow(t, "  after", o.After)
	}
	t.Write(b)
}

func phaseRow(t *table.Table, name string, p *Phase) {
	if p == nil {
		t.Row(name, "none")
		return
	}
	cells := []string{name, table.Seconds(p.From), table.Seconds(p.To), table.Number(p.SentPPS),
		table.Number(p.DeliveredPPS),
		table.Count(p.Lost.FullBuffer), table.Count(p.Lost.Outage), table.Count(p.Lost.NoRoute),
		table.Count(p.Lost.Random),
		table.SecondsOrNone(p.LatencyMean), table.SecondsOrNone(p.LatencyP95), table.SecondsOrNone(p.LatencyP99)}
	if l := p.Links; l != nil {
		cells = append(cells, table.Number(l.CarriedPPS), table.Percent(l.Utilisation), table.Number(l.QueueMean))
	}
	t.Row(cells...)
}

func (r *Results) writeReplications(b *bufio.Writer) {
	if len(r.Replications) < 2 {
		return
	}
	t := table.New(2*rowsMax, "replications", "reached", "sent", "delivered", "lost: full", "outage", "no route",
		"random", "in flight", "delivered/s", "latency mean", "p99")
	for _, row := range r.Replications {
		t.Row(strconv.Itoa(row.Index), table.Seconds(row.Reached), table.Count(row.Sent), table.Count(row.Delivered),
			table.Count(row.LostBy.FullBuffer), table.Count(row.LostBy.Outage),
			table.Count(row.LostBy.NoRoute), table.Count(row.LostBy.Random), table.Count(row.InFlight),
			table.Number(row.DeliveredPPS), table.SecondsOrNone(row.LatencyMean),
			table.SecondsOrNone(row.LatencyP99))
	}
	t.Write(b)
}
