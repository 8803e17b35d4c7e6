// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// TableNames implements overview.Shower.
func (m *Model) TableNames() []string { return overview.Names((&Results{}).tables()) }

// Overview implements overview.Shower.
func (m *Model) Overview(results scenario.Summary) *overview.Page {
	r := results.(*Results)
	p := &overview.Page{Tables: r.tables()}
	b := &p.Figures
	b.Heads = []string{"figures", ""}
	b.Row("events handled", overview.Num("/events_handled", float64(r.EventsHandled), overview.Count, ""))
	if t := r.Theory; t != nil {
		b.Row("expected", overview.Joined(" ± ", overview.Num("/theory/mean", t.Mean, overview.Plain, ""),
			overview.Num("/theory/stddev", t.StdDev, overview.Plain, "")))
		b.Row("deviation, in standard deviations", overview.Num("/theory/deviation", t.Deviation, overview.Plain, ""))
	}
	b.Row("sent to another process", overview.Num("/sent_remotely", float64(r.SentRemotely), overview.Count, ""))
	b.Row("events of one process", overview.Joined(" to ",
		overview.Num("/least_per_lp", float64(r.LeastPerLP), overview.Count, ""),
		overview.Num("/most_per_lp", float64(r.MostPerLP), overview.Count, "")))
	if r.Interrupted {
		p.Alarm = "INTERRUPTED before the end"
	}
	return p
}
