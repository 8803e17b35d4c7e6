// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"math"

	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Drawn = (*Results)(nil)

// Drawing implements scenario.Drawn: sources, and each stock with the share of demand that it couldn't meet at once;
// links are what stocks have received from their suppliers.
func (r *Results) Drawing() *scenario.Drawing {
	d, s := &scenario.Drawing{Flow: true}, r.spec
	first := make([]int, len(s.Locations)) // box of a location's first point, or of the source
	boxes, points := 0, 0
	for i := range s.Locations {
		loc := &s.Locations[i]
		first[i] = boxes
		if loc.Source {
			d.AddBox(scenario.Box{ID: loc.ID, Kind: "source", Load: scenario.NoLoad})
			boxes++
			continue
		}
		for k := range loc.Points {
			b := scenario.Box{ID: loc.ID + " " + s.Products[loc.Points[k].Product], Kind: "stock",
				Load: scenario.Load{Share: r.unmet(points), Of: "demand that wasn't met at once"}}
			if loc.Points[k].Made {
				b.Kind = "production"
			}
			d.AddBox(b)
			boxes, points = boxes+1, points+1
		}
	}
	points = 0
	for i := range s.Locations {
		for k := range s.Locations[i].Points {
			p := &s.Locations[i].Points[k]
			from, to := first[p.Supplier], first[i]+k
			if own := ownPoint(s, p); own >= 0 {
				from += own
			}
			if !p.Made && max(from, to) < scenario.BoxesMax {
				d.AddLink(scenario.Link{ID: d.Boxes[from].ID + " -> " + d.Boxes[to].ID, From: from, To: to,
					Load: scenario.NoLoad, Amount: r.received(points), Unit: "units/s"})
			} else if !p.Made {
				d.OmittedLinks++
			}
			points++
		}
	}
	return d
}

// ownPoint is the point of the supplier from which a point is supplied, -1 of a source.
func ownPoint(s *Spec, p *Point) int {
	if p.Made || s.Locations[p.Supplier].Source {
		return -1
	}
	return int(s.Locations[p.Supplier].Customers[p.Slot].Own)
}

// unmet is the share of a point's demand that it couldn't meet at once.
func (r *Results) unmet(point int) float64 {
	if r.sums != nil {
		return 1 - r.sums[point][filled]/r.sums[point][demanded]
	}
	return 1 - r.meanOf(point, "fill_rate")
}

// received is what a point has received, in units a second.
func (r *Results) received(point int) float64 {
	if r.sums != nil {
		return r.sums[point][received] / r.sums[point][seconds]
	}
	return r.meanOf(point, "received_per_s")
}

func (r *Results) meanOf(point int, figure string) float64 {
	if f := r.Points[point].Figures[figure]; f != nil {
		return f.Mean
	}
	return math.NaN()
}
