// SPDX-License-Identifier: Apache-2.0

package devstone

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
	count := func(name, at string, n uint64) { b.Row(name, overview.Num(at, float64(n), overview.Count, "")) }
	count("transitions", "/transitions", r.Transitions)
	if r.Expected > 0 {
		count("expected", "/expected", r.Expected)
	}
	count("transitions of a pulse", "/transitions_per_pulse", r.PerPulse)
	count("messages", "/messages", r.Messages)
	count("outputs", "/outputs", r.Outputs)
	if r.Interrupted {
		p.Alarm = "INTERRUPTED before the end"
	}
	return p
}
