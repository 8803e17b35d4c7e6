// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/disco-sim/disco/scenario"
)

// readStocks makes the stock points.
func (l *loader) readStocks(v scenario.Value) {
	items := v.List()
	if v.IsList() && len(items) == 0 {
		v.Refuse("an empty list", "one stock or more", "")
	}
	for _, item := range items {
		s := item.Section(stockFields...)
		at, products := l.locations.read(s.Field("at")), l.sorted(s.Field("products"))
		st := l.readStock(s)
		if l.points += len(at) * len(products); l.points > placesMax {
			item.Refuse(fmt.Sprintf("%d stocks up to here", l.points), fmt.Sprintf("at most %d", placesMax), "")
			return
		}
		if !l.addPoints(at, products, st, s) {
			return
		}
	}
}

// sorted is the products that a stock is of, rising: where nothing stands there, all.
func (l *loader) sorted(v scenario.Value) []int {
	if v.OrNull().Present() {
		all := l.products.read(v)
		slices.Sort(all)
		return all
	}
	if l.all == nil {
		for i := range l.products.ids {
			l.all = append(l.all, i)
		}
	}
	return l.all
}

// addPoints adds a stock of each product at each location.
func (l *loader) addPoints(at, sorted []int, st *Stock, s scenario.Section) bool {
	for _, i := range at {
		loc := &l.spec.Locations[i]
		if loc.Source {
			s.Field("at").Refuse(fmt.Sprintf("a stock at %s, a source", loc.ID),
				"a location that isn't a source, which "+
					"always has everything", "")
			return false
		}
		before := len(loc.Points)
		loc.Points = slices.Grow(loc.Points, len(sorted))
		for _, k := range sorted {
			loc.Points = append(loc.Points, Point{Product: int32(k), Stage: NoStage, Supplier: -1, Stock: st})
		}
		if before > 0 {
			slices.SortFunc(loc.Points, func(a, b Point) int { return cmp.Compare(a.Product, b.Product) })
		}
		for k := 1; k < len(loc.Points); k++ {
			if p := loc.Points[k].Product; p == loc.Points[k-1].Product {
				s.At().Refuse(fmt.Sprintf("a second stock of %s at %s", l.spec.Products[p], loc.ID),
					"each product once at a location", "")
				return false
			}
		}
	}
	return true
}

// find is the index of a product among the points of a location; -1: it isn't there.
func (loc *Location) find(product int) int {
	k, ok := slices.BinarySearchFunc(loc.Points, int32(product), func(p Point, n int32) int {
		return cmp.Compare(p.Product, n)
	})
	if !ok {
		return -1
	}
	return k
}

// units reads a number of units.
func units(v scenario.Value, least float64) int64 {
	return int64(v.Int(scenario.Between(least, quantityMax)))
}

func unitsOr(v scenario.Value, def int64, least float64) int64 {
	return int64(v.IntOr(int(def), scenario.Between(least, quantityMax)))
}

// readStock reads how a stock is kept, with the fields that its policy has and no others.
func (l *loader) readStock(s scenario.Section) *Stock {
	name := s.Field("policy").Word(policies...)
	st := &Stock{Policy: Policy(max(0, slices.Index(policies, name)))}
	before := l.r.Refusals()
	st.Lot = unitsOr(s.Field("lot"), 1, 1)
	var used []string
	if name == "" {
		return st // it was refused
	}
	switch st.Policy {
	case BaseStock:
		used = []string{"up_to"}
		st.UpTo = units(s.Field("up_to"), 0)
		st.Initial = st.UpTo
	case ReorderPoint:
		used = []string{"reorder_point", "quantity"}
		st.Reorder, st.Quantity = units(s.Field("reorder_point"), -quantityMax), units(s.Field("quantity"), 1)
		st.Initial = max(0, st.Reorder+st.Quantity)
	case Periodic:
		used = []string{"every", "up_to", "forecast"}
		l.readPeriodic(st, s)
	case Newsvendor:
		used = []string{"every", "quantity"}
		st.Every, st.Quantity, st.Lost = l.every(s.Field("every")), units(s.Field("quantity"), 1), true
	}
	for _, field := range []string{"up_to", "reorder_point", "quantity", "every", "forecast"} {
		if f := s.Field(field); f.Present() && !slices.Contains(used, field) {
			f.Refuse(field+", which the policy "+name+" doesn't have", "only its own fields: "+
				fmt.Sprint(used), "remove the field")
		}
	}
	if q := st.Quantity; l.r.Refusals() == before && q > 0 && q%st.Lot != 0 {
		s.Field("quantity").Refuse(fmt.Sprintf("%d, with a lot of %d", q, st.Lot), "a multiple of the lot", "")
	}
	st.Initial = unitsOr(s.Field("initial"), st.Initial, 0)
	if st.Policy == Newsvendor {
		s.Field("unmet").WordOr("lost", "lost")
	} else {
		st.Lost = s.Field("unmet").WordOr("backlog", "backlog", "lost") == "lost"
	}
	l.readCosts(&st.Costs, s.Field("costs").OrNull())
	return st
}

// readPeriodic reads up to where a periodic review orders: a level, or a forecast of demand.
func (l *loader) readPeriodic(st *Stock, s scenario.Section) {
	st.Every = l.every(s.Field("every"))
	v := s.Field("forecast").OrNull()
	if !v.Present() {
		st.UpTo = units(s.Field("up_to"), 0)
		st.Initial = st.UpTo
		return
	}
	if up := s.Field("up_to"); up.Present() {
		up.Refuse("up_to beside a forecast", "one of the two", "remove one of them")
	}
	f := v.Section(forecastFields...)
	st.Periods = f.Field("periods").Int(scenario.Between(1, historyMax))
	st.Cover = f.Field("cover").Float(scenario.AtLeast(0).AtMost(1e6))
	st.Safety = f.Field("safety").FloatOr(0, scenario.Between(-quantityMax, quantityMax))
}

// every reads the time from one review to the next.
func (l *loader) every(v scenario.Value) float64 {
	seconds := v.FloatOr(l.spec.Period, scenario.Between(secondsMin, secondsMax))
	if seconds > 0 && l.spec.Horizon/seconds > timesMax {
		v.Refuse(fmt.Sprintf("a review each %g s in a run of %g s", seconds, l.spec.Horizon), fmt.Sprintf(
			"at most %.0f reviews", float64(timesMax)), "")
	}
	return seconds
}

func (l *loader) readCosts(c *Costs, v scenario.Value) {
	if !v.Present() {
		return
	}
	s := v.Section(costFields...)
	for i, to := range []*float64{&c.Holding, &c.Backlog, &c.Lost, &c.Order, &c.Unit, &c.Price, &c.Salvage} {
		least := 0.0
		if to == &c.Salvage { // what is left may cost something to be rid of
			least = -moneyMax
		}
		*to = s.Field(costFields[i]).FloatOr(0, scenario.Between(least, moneyMax))
	}
}
