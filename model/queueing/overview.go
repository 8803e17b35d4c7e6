// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// TableNames implements overview.Shower.
func (m *Model) TableNames() []string { return overview.Names((&Results{}).tables()) }

// worstShown is how many stations the first screen has.
const worstShown = 8

// Overview implements overview.Shower.
func (m *Model) Overview(results scenario.Summary) *overview.Page {
	r := results.(*Results)
	p := &overview.Page{Figures: r.figures(), Blocks: []overview.Block{r.busiest()}, Tables: r.tables(),
		Theories: r.theories()}
	if r.WarmupSeconds > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("the first %s not counted", table.Seconds(r.WarmupSeconds)))
	}
	if r.Interrupted {
		p.Alarm = "INTERRUPTED: the figures are over the time reached"
	}
	if short := r.tooShort(); short != "" {
		p.Remarks = append(p.Remarks, short)
	}
	return p
}

// figures are those of the network as a whole, beside theory.
func (r *Results) figures() overview.Block {
	b := overview.Block{Heads: []string{"figures of the network", "observed", "95 % from", "to", "theory", ""}}
	estimate(&b, "throughput", "/network/throughput", "/s", r.Network.Throughput)
	estimate(&b, "customers in it", "/network/in_network", "", r.Network.InNetwork)
	estimate(&b, "time in it", "/network/time_in_network_s", " s", r.Network.TimeInNetwork)
	return b
}

// estimate adds a row with theory behind what was observed, and "outside" where the interval doesn't hold it.
func estimate(b *overview.Block, name, at, unit string, m Measure) {
	theory, mark, step := overview.Said(overview.None), overview.Said(overview.None), 0.0
	if o := m.Observed; o != nil {
		step = o.Width()
	}
	if m.Theory != nil {
		theory = overview.Num(at+"/theory", *m.Theory, sixDigits, "")
		theory.Terms[0].Step = step
	}
	if m.Within != nil && !*m.Within {
		mark = overview.Said("outside").BadIf(true)
	}
	b.Estimate(name, seen(at, unit, m, sixDigits), at+"/observed", m.Observed, theory, mark)
}

// theoriesMost is how many figures a picture has beside theory.
const theoriesMost = 100

// theories are the figures that theory knows, those of the network first.
func (r *Results) theories() (all []overview.Theory) {
	add := func(name string, m *Measure) {
		if m.Theory == nil || m.Observed == nil || len(all) == theoriesMost {
			return
		}
		t := overview.Theory{Name: name, Known: *m.Theory, Observed: m.Observed.Mean, Low: math.NaN(), High: math.NaN()}
		if m.Observed.Known() {
			t.Low, t.High = m.Observed.Low, m.Observed.High
		}
		all = append(all, t)
	}
	add("throughput", &r.Network.Throughput)
	add("customers in the network", &r.Network.InNetwork)
	add("time in the network", &r.Network.TimeInNetwork)
	for i := range r.spec.Stations {
		id := r.spec.Stations[i].ID
		s := r.Stations[id]
		add(id+": utilisation", &s.Utilisation)
		add(id+": customers waiting", &s.InQueue)
		add(id+": time", &s.TimeInSystem)
		add(id+": time waiting", &s.TimeInQueue)
	}
	return all
}

// seen is what was, if anything was.
func seen(at, unit string, m Measure, as overview.Form) overview.Cell {
	if m.Observed == nil {
		return overview.Said(overview.None)
	}
	return overview.Num(at+"/observed/mean", m.Observed.Mean, as, unit)
}

// sixDigits is what theory and observation are compared by.
func sixDigits(x, step float64) string { return digits(x, step, 6) }

// busiest are the stations whose servers were busy longest.
func (r *Results) busiest() overview.Block {
	b := overview.Block{Heads: []string{"busiest stations", "utilisation", "waiting", "time", "time waiting", "theory"},
		Table: "stations"}
	top := overview.NewTop(worstShown)
	for i := range r.spec.Stations {
		if o := r.Stations[r.spec.Stations[i].ID].Utilisation.Observed; o != nil {
			top.Add(i, o.Mean)
		}
	}
	for _, i := range top.Items {
		id := r.spec.Stations[i].ID
		s := r.Stations[id]
		at := func(field string) string { return overview.At("stations", id, field) }
		b.Row(id+" ("+s.Model+")",
			seen(at("utilisation"), "", s.Utilisation, overview.Share).
				BadIf(s.Utilisation.Observed.Mean > busyNoted),
			seen(at("in_queue"), "", s.InQueue, table.NumberStep),
			seen(at("time_in_system_s"), " s", s.TimeInSystem, table.NumberStep),
			seen(at("time_in_queue_s"), " s", s.TimeInQueue, table.NumberStep),
			overview.Maybe(at("time_in_queue_s")+"/theory", s.TimeInQueue.Theory, overview.Plain, " s"))
	}
	b.More = len(r.spec.Stations) - len(b.Rows)
	return b
}

// busyNoted is the utilisation from which a queue gets long.
const busyNoted = 0.9
