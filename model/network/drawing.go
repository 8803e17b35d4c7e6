// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math"

	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Drawn = (*Results)(nil)

// Drawing implements scenario.Drawn: nodes at their places, and each direction of a link with how busy it was. A node
// is as busy as the busiest link that leaves it.
func (r *Results) Drawing() *scenario.Drawing {
	d, t := &scenario.Drawing{}, r.spec.Topology
	for n := range t.Nodes {
		p := &t.Nodes[n]
		b := scenario.Box{ID: p.Name, Kind: "node", Load: scenario.NoLoad, Placed: p.Placed, Latitude: p.Latitude,
			Longitude: p.Longitude}
		if p.Junction {
			b.Kind = "junction"
		}
		for _, id := range t.Out[n] {
			if u := r.Links[id].Utilisation; math.IsNaN(b.Share) || u > b.Share {
				b.Load = scenario.Load{Share: u, Of: "utilisation of its busiest link"}
			}
		}
		d.AddBox(b)
	}
	for id := range t.Channels {
		c, l := &t.Channels[id], &r.Links[id]
		d.AddLink(scenario.Link{ID: t.channelName(id), From: c.From, To: c.To,
			Load: scenario.Load{Share: l.Utilisation, Of: "utilisation"}, Amount: l.CarriedBPS, Unit: "bit/s"})
	}
	return d
}

// drawn are the names in the drawing of what an event hits.
func (t *Topology) drawn(target *Target) (ids []string) {
	if target.Node >= 0 {
		return []string{t.Nodes[target.Node].Name}
	}
	for id := range t.Channels {
		for _, c := range target.Cables {
			if t.Channels[id].Cable == c {
				ids = append(ids, t.channelName(id))
			}
		}
	}
	return ids
}
