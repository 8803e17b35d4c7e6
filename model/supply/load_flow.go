// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"
	"strings"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

// readLines makes the production lines.
func (l *loader) readLines(v scenario.Value) {
	if !v.Present() {
		return
	}
	for _, item := range v.List() {
		s := item.Section(lineFields...)
		at, products := l.locations.read(s.Field("at")), l.products.set(s.Field("products"))
		line := Line{Time: l.seconds(s.Field("time")), Calendar: l.calendar(s.Field("calendar").OrNull())}
		if q := s.Field("queue").OrNull(); q.Present() {
			line.Queue = units(q, 1)
		}
		failure, repair := s.Field("failure").OrNull(), s.Field("repair").OrNull()
		if failure.Present() || repair.Present() {
			line.Failure, line.Repair = l.seconds(s.Field("failure")), l.seconds(s.Field("repair"))
			if mean := line.Failure; mean.IsSet() && l.spec.Horizon/mean.Mean() > timesMax {
				failure.Refuse(fmt.Sprintf("a breakdown each %g s in a run of %g s", mean.Mean(), l.spec.Horizon),
					fmt.Sprintf("at most %.0f of them", float64(timesMax)), "")
			}
		}
		for _, i := range at {
			if !l.addLine(i, products, line, s) {
				return
			}
		}
	}
}

// addLine adds a line to a location, for those of the products that it has a stock of.
func (l *loader) addLine(i int, products set, line Line, s scenario.Section) bool {
	loc := &l.spec.Locations[i]
	made := false
	for at := range loc.Points {
		p := &loc.Points[at]
		k := p.Product
		if !products.has(k) {
			continue
		}
		if p.Supplier >= 0 {
			s.At().Refuse(fmt.Sprintf("a second line for %s at %s", l.spec.Products[k], loc.ID), "one for a product",
				"")
			return false
		}
		if step := p.Stock.step(); line.Queue > 0 && step > line.Queue {
			s.Field("queue").Refuse(fmt.Sprintf("a queue of %d units for %s at %s, which is ordered %d at a time",
				line.Queue,
				l.spec.Products[k], loc.ID, step), "a queue that an order fits into: else it is never placed", "")
			return false
		}
		if p.Stock.Policy == Newsvendor && line.Queue > 0 && p.Stock.Quantity > line.Queue {
			s.Field("queue").Refuse(fmt.Sprintf("a queue of %d units for %s at %s, whose quantity is %d", line.Queue,
				l.spec.Products[k], loc.ID, p.Stock.Quantity), "at least the quantity", "")
			return false
		}
		p.Supplier, p.Slot, p.Made, p.Most = int32(i), int32(len(loc.Lines)), true, line.Queue
		made = true
	}
	if !made {
		s.At().Refuse(fmt.Sprintf("a line at %s, which has no stock of what it makes", loc.ID),
			"a line that fills a stock of its location", "add the stock")
		return false
	}
	loc.Lines = append(loc.Lines, line)
	return true
}

// readLinks says who supplies whom.
func (l *loader) readLinks(v scenario.Value) {
	if !v.Present() {
		return
	}
	for _, item := range v.List() {
		s := item.Section(linkFields...)
		from, to := l.locations.read(s.Field("from")), l.locations.read(s.Field("to"))
		products := l.products.set(s.Field("products"))
		lead := l.seconds(s.Field("lead_time"))
		delay := s.Field("order_delay").FloatOr(0, scenario.AtLeast(0).AtMost(secondsMax))
		if len(from) > len(to) && len(to) > 0 {
			s.Field("from").Refuse(fmt.Sprintf("%d suppliers of %d customers", len(from), len(to)),
				"at most as many suppliers as customers", "a stock has one supplier")
			continue
		}
		goes := false
		for k, customer := range to {
			if len(from) == 0 {
				break
			}
			n, ok := l.addLink(from[k*len(from)/len(to)], customer, products, lead, delay, s)
			if !ok {
				return
			}
			goes = goes || n > 0
		}
		if !goes && l.good() {
			item.Refuse("a link over which nothing goes",
				"customers with a stock of one of its products that they don't "+
					"make", "")
		}
	}
}

// addLink lets one location supply another with those of the products that it has a stock of and doesn't make.
func (l *loader) addLink(from, to int, products set, lead dist.Dist, delay float64, s scenario.Section) (n int,
	ok bool) {
	supplier, customer := &l.spec.Locations[from], &l.spec.Locations[to]
	if from == to {
		s.At().Refuse("a link from "+supplier.ID+" to itself", "two locations", "")
		return 0, false
	}
	if customer.Source {
		s.Field("to").Refuse("a link to "+customer.ID+", a source", "a location that orders", "")
		return 0, false
	}
	for at := range customer.Points {
		p := &customer.Points[at]
		k := p.Product
		if p.Made || !products.has(k) {
			continue
		}
		if p.Supplier >= 0 {
			s.At().Refuse(fmt.Sprintf("a second supplier of %s for %s: %s and %s", l.spec.Products[k], customer.ID,
				l.spec.Locations[p.Supplier].ID, supplier.ID), "one for a product", "name the products of each link")
			return n, false
		}
		own := -1
		if !supplier.Source {
			if own = supplier.find(int(k)); own < 0 {
				s.Field("from").Refuse(fmt.Sprintf("%s, which has no stock of %s", supplier.ID, l.spec.Products[k]),
					"a supplier with a stock of what it supplies, or a source", "")
				return n, false
			}
		}
		p.Supplier, p.Slot, p.Delay = int32(from), int32(len(supplier.Customers)), delay
		supplier.Customers = append(supplier.Customers, Customer{Location: int32(to), Point: int32(at), Own: int32(own),
			Lead: lead})
		n++
	}
	return n, true
}

// readDemands lets customers come from outside.
func (l *loader) readDemands(v scenario.Value) {
	if !v.Present() {
		return
	}
	for _, item := range v.List() {
		s := item.Section(demandFields...)
		at, products := l.locations.read(s.Field("at")), l.products.set(s.Field("products"))
		d := &Demand{Start: s.Field("start").FloatOr(0, scenario.AtLeast(0).AtMost(secondsMax)),
			Gap: l.seconds(s.Field("gap")), Size: dist.Constant(1)}
		if size := s.Field("size").OrNull(); size.Present() {
			d.Size = dist.Read(size)
			if d.Size.IsSet() && !(d.Size.Max() >= 0.5 && d.Size.Min() <= quantityMax) {
				size.Refuse(fmt.Sprintf("%v, which rounded is never from 1 to %.0f", d.Size, float64(quantityMax)),
					"the distribution of a number of units", "")
			}
		}
		for _, i := range at {
			if !l.addDemand(i, products, d, s) {
				return
			}
		}
	}
}

func (l *loader) addDemand(i int, products set, d *Demand, s scenario.Section) bool {
	loc := &l.spec.Locations[i]
	any := false
	for at := range loc.Points {
		k := loc.Points[at].Product
		if !products.has(k) {
			continue
		}
		if any = true; loc.Points[at].Demand != nil {
			s.At().Refuse(fmt.Sprintf("a second demand of %s at %s", l.spec.Products[k], loc.ID), "one for a product",
				"")
			return false
		}
		loc.Points[at].Demand = d
	}
	if !any {
		s.At().Refuse(fmt.Sprintf("demand at %s, which has no stock of what is asked for", loc.ID),
			"demand for a stock of its location", "add the stock")
	}
	return any
}

// check refuses networks that can't work: stocks without a supplier, orders that go round in no time.
func (l *loader) check(root scenario.Section) {
	for i := range l.spec.Locations {
		loc := &l.spec.Locations[i]
		for k := range loc.Points {
			if p := &loc.Points[k]; p.Supplier < 0 {
				root.Field("stock").Refuse(fmt.Sprintf("a stock of %s at %s without a supplier",
					l.spec.Products[p.Product],
					loc.ID), "a link that leads there, or production", "add one to links or production")
				return
			}
		}
	}
	if circle := l.spec.circle(); circle != nil {
		names := make([]string, 0, len(circle))
		for _, i := range circle {
			names = append(names, l.spec.Locations[i].ID)
		}
		root.Field("links").Refuse("orders that go round in no time: "+strings.Join(names, " orders from "),
			"no circle of links without an order_delay", "give one of the links an order_delay above 0")
		return
	}
	if !l.spec.stages() {
		root.Field("demand").Refuse("no demand at any stock", "demand or a demand_file", "")
		return
	}
	idle := 0
	l.spec.eachPoint(func(_ *Location, p *Point) {
		if p.Stage == NoStage {
			idle++
		}
	})
	if idle > 0 {
		root.Field("stock").Note(fmt.Sprintf("has %d stocks that no demand reaches", idle))
	}
}
