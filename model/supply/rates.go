// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"math"
	"slices"
)

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

// rhythm is when something happens: at a time and then each so many seconds, or, as mixed, at any times.
type rhythm struct{ from, every float64 }

var mixed = rhythm{}

// later is the rhythm of what follows each time so many seconds later.
func (r rhythm) later(seconds float64) rhythm {
	if r == mixed {
		return mixed
	}
	return rhythm{math.Mod(r.from+seconds, r.every), r.every}
}

// has reports whether one has all the times of another one.
func (r rhythm) has(other rhythm) bool {
	return math.Mod(other.every, r.every) == 0 && math.Mod(math.Abs(other.from-r.from), r.every) == 0
}

// beats is the rhythms of events, and how many epochs a second they have together.
type beats struct {
	rhythms []rhythm
	known   map[rhythm]bool
	epochs  float64
}

// comparedMax bounds the rhythms with which another one is compared: more than a few are those of as many lead times.
const comparedMax = 64

// add counts what has a rhythm, or else happens so often a second by itself.
func (b *beats) add(r rhythm, rate float64) {
	switch {
	case r == mixed:
		b.epochs += rate
	case !b.known[r]:
		b.known[r] = true
		if !slices.ContainsFunc(b.rhythms, func(x rhythm) bool { return x.has(r) }) {
			b.epochs += min(1/r.every, rateMax)
		}
		if len(b.rhythms) < comparedMax {
			b.rhythms = append(b.rhythms, r)
		}
	}
}

// epochs is about how many different epochs the events of a second have. Orders are placed at epochs of demand, or of
// reviews, and what comes of them arrives at its own; but what has one rhythm comes at the same: demands at equal
// intervals, reviews, and deliveries in the same time of what was ordered at these.
func (s *Spec) epochs(asked [][]rate) float64 {
	b := beats{known: map[rhythm]bool{}}
	asks := make([][]*rhythm, len(s.Locations)) // when each point is asked; nil: it isn't
	for i := range s.Locations {
		loc := &s.Locations[i]
		asks[i] = make([]*rhythm, len(loc.Points))
		b.epochs += float64(len(loc.File)) / s.Horizon
		for k := range loc.Points {
			if d := loc.Points[k].Demand; d != nil {
				r := mixed
				if d.Gap.Min() == d.Gap.Max() {
					r = rhythm{d.Start, d.Gap.Min()}.later(0)
				}
				b.add(r, 1/max(d.Gap.Mean(), 1/rateMax))
				asks[i][k] = &r
			}
		}
		for _, f := range loc.File {
			asks[i][f.Point] = &mixed
		}
	}
	s.eachUpstream(func(i, k int) {
		loc := &s.Locations[i]
		p := &loc.Points[k]
		orders := mixed
		switch {
		case loc.Calendar != nil:
		case !p.Stock.continuous():
			orders = rhythm{0, p.Stock.Every}
			b.add(orders, 0)
		case asks[i][k] != nil:
			orders = *asks[i][k]
		}
		if p.Made { // lots of a line come one behind the other
			b.epochs += asked[i][k].ordered
			return
		}
		c := &s.Locations[p.Supplier].Customers[p.Slot]
		at := orders.later(p.Delay)
		delivered := mixed
		if c.Lead.Min() == c.Lead.Max() {
			delivered = at.later(c.Lead.Min())
		}
		b.add(delivered, asked[i][k].ordered)
		if c.Own < 0 {
			return
		}
		if up := &asks[p.Supplier][c.Own]; *up == nil {
			*up = &at
		} else if **up != at {
			*up = &mixed
		}
	})
	return b.epochs
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
