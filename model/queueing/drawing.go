// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"math"

	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Drawn = (*Results)(nil)

// Drawing implements scenario.Drawn: stations with how busy their servers were, and the ways between them with the
// share of the observed throughput that the file sends there.
func (r *Results) Drawing() *scenario.Drawing {
	d := &scenario.Drawing{Flow: true}
	observed := func(m *Measure) float64 {
		if m.Observed == nil {
			return math.NaN()
		}
		return m.Observed.Mean
	}
	for i := range r.spec.Stations {
		id := r.spec.Stations[i].ID
		d.AddBox(scenario.Box{ID: id, Kind: "station",
			Load: scenario.Load{Share: observed(&r.Stations[id].Utilisation), Of: "utilisation"}})
	}
	for i := range r.spec.Stations {
		st := &r.spec.Stations[i]
		for _, way := range st.To {
			d.AddLink(scenario.Link{ID: st.ID + " -> " + r.spec.Stations[way.Station].ID, From: i, To: way.Station,
				Load: scenario.NoLoad, Amount: observed(&r.Stations[st.ID].Throughput) * st.share(way),
				Unit: "customers/s"})
		}
	}
	return d
}
