// SPDX-License-Identifier: Apache-2.0

package supply

// rate is how often something happens at a point, about, a second: placement balances it.
type rate struct {
	outside float64 // demands from outside
	events  float64 // all demands
	units   float64 // asked for
	ordered float64 // orders placed
}

// rates are those of all points. Where suppliers supply each other, one round of orders counts.
func (s *Spec) rates() [][]rate {
	all := make([][]rate, len(s.Locations))
	total := 0
	for i := range s.Locations {
		loc := &s.Locations[i]
		all[i] = make([]rate, len(loc.Points))
		total += len(loc.Points)
		for k := range loc.Points {
			if d := loc.Points[k].Demand; d != nil {
				n := 1 / max(d.Gap.Mean(), 1/rateMax)
				all[i][k] = rate{outside: n, events: n, units: n * max(0, min(d.Size.Mean(), quantityMax))}
			}
		}
		for _, f := range loc.File {
			r := &all[i][f.Point]
			r.outside += 1 / s.Horizon
			r.events += 1 / s.Horizon
			r.units += float64(f.Quantity) / s.Horizon
		}
	}
	s.eachUpstream(func(i, k int) {
		p := &s.Locations[i].Points[k]
		r := &all[i][k]
		r.ordered = p.Stock.orders(r)
		if p.Made {
			return
		}
		c := &s.Locations[p.Supplier].Customers[p.Slot]
		if c.Own >= 0 {
			up := &all[p.Supplier][c.Own]
			up.events += r.ordered
			up.units += r.units
		}
	})
	return all
}

// orders is about how many orders a point places a second.
func (s *Stock) orders(r *rate) float64 {
	switch s.Policy {
	case BaseStock:
		return r.events
	case ReorderPoint:
		return min(r.events, r.units/float64(s.Quantity))
	}
	return min(1/s.Every, rateMax)
}

// eachUpstream visits all points, each one behind its customers where there is such an order, and the others behind all
// these.
func (s *Spec) eachUpstream(visit func(loc, point int)) {
	type place struct{ loc, point int32 }
	waits := make([][]int32, len(s.Locations)) // customers that weren't visited
	for i := range s.Locations {
		waits[i] = make([]int32, len(s.Locations[i].Points))
	}
	for i := range s.Locations {
		for _, c := range s.Locations[i].Customers {
			if c.Own >= 0 {
				waits[i][c.Own]++
			}
		}
	}
	var ready []place
	for i := range waits {
		for k, n := range waits[i] {
			if n == 0 {
				ready = append(ready, place{int32(i), int32(k)})
			}
		}
	}
	for len(ready) > 0 {
		at := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		visit(int(at.loc), int(at.point))
		p := &s.Locations[at.loc].Points[at.point]
		if p.Made {
			continue
		}
		if own := s.Locations[p.Supplier].Customers[p.Slot].Own; own >= 0 {
			if waits[p.Supplier][own]--; waits[p.Supplier][own] == 0 {
				ready = append(ready, place{p.Supplier, own})
			}
		}
	}
	for i := range waits {
		for k, n := range waits[i] {
			if n > 0 {
				visit(i, k)
			}
		}
	}
}
