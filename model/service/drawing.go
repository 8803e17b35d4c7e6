// SPDX-License-Identifier: Apache-2.0

package service

import "github.com/disco-sim/disco/scenario"

var _ scenario.Drawn = (*Results)(nil)

// Drawing implements scenario.Drawn: all boxes, servers with how busy their cores were, and edges with what was sent
// over them.
func (r *Results) Drawing() *scenario.Drawing {
	d := &scenario.Drawing{Flow: true}
	t := r.spec.topology
	kinds := [...]string{"generator", "client", "load balancer", "server"}
	s := ServerResult{}
	for n := range t.boxes {
		at := &t.boxes[n]
		b := scenario.Box{ID: at.id, Kind: kinds[at.role], Load: scenario.NoLoad}
		if at.role == serverRole {
			r.fillServer(&s, at.index)
			b.Load = scenario.Load{Share: s.Utilisation, Of: "utilisation"}
		}
		d.AddBox(b)
	}
	e := EdgeResult{}
	for i, ends := range t.edges {
		r.fillEdge(&e, i)
		d.AddLink(scenario.Link{ID: r.spec.Edges[i].ID, From: ends.from, To: ends.to, Load: scenario.NoLoad,
			Amount: per(float64(e.Sent), r.tally.boxes[ends.from].end), Unit: "requests/s"})
	}
	return d
}
