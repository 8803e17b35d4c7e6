// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

// A packed scenario is what the locations of workers are made from: wire.Packed, whose items are locations, and what
// all of them need is times, products and the distributions that many share (docs/format/control.md, "Packed
// scenarios"). Distributions travel as text.

// sharedMax is how many distributions are among what all locations need; the others stand in the locations.
const sharedMax = 1024

// Packs reports whether all distributions can travel as text: lists and truncated ones can't.
func (m *Model) Packs() bool {
	good := map[dist.Dist]bool{{}: true} // and one that isn't set
	for i := range m.spec.Locations {
		for d := range m.spec.Locations[i].dists() {
			if !good[d] && !d.Parsable() {
				return false
			}
			good[d] = true
		}
	}
	return true
}

// dists yields the distributions of a location.
func (loc *Location) dists() func(yield func(dist.Dist) bool) {
	return func(yield func(dist.Dist) bool) {
		for i := range loc.Points {
			if d := loc.Points[i].Demand; d != nil && !(yield(d.Gap) && yield(d.Size)) {
				return
			}
		}
		for i := range loc.Customers {
			if !yield(loc.Customers[i].Lead) {
				return
			}
		}
		for i := range loc.Lines {
			if l := &loc.Lines[i]; !(yield(l.Time) && yield(l.Failure) && yield(l.Repair)) {
				return
			}
		}
	}
}

// Pack appends what workers need, for scenario.Packer.
func (m *Model) Pack(buf []byte) ([]byte, error) {
	p := packer{spec: m.spec, index: map[string]uint32{}}
	for i := range m.spec.Locations {
		for d := range m.spec.Locations[i].dists() {
			if _, known := p.index[d.String()]; !known && d.IsSet() && len(p.shared) < sharedMax {
				p.index[d.String()] = uint32(len(p.shared))
				p.shared = append(p.shared, d)
			}
		}
	}
	location := func(n int) (func(*wire.Codec), error) {
		l := m.spec.Locations[n] // encoding changes the lists that its points refer to
		return func(c *wire.Codec) { p.location(c, &l) }, nil
	}
	buf, err := wire.AppendPacked(buf, p.fields, len(m.spec.Locations), locationBytesMin, location)
	if err != nil {
		return nil, fmt.Errorf("supply: packing the scenario: %w", err)
	}
	return buf, nil
}

// packed is a scenario as its workers have it.
type packed struct {
	maker
	packer packer
	items  wire.Packed // by location
}

// unpack opens what Pack has written. Locations are decoded when their layers are made.
func unpack(b []byte) (scenario.Scenario, error) {
	p := &packed{maker: maker{spec: &Spec{}}}
	p.packer.spec = p.spec
	var err error
	if p.items, err = wire.OpenPacked(b, p.packer.fields); err != nil {
		return nil, fmt.Errorf("supply: packed scenario of %d bytes: %w", len(b), err)
	}
	p.location = p.decode
	return p, nil
}

// decode decodes what a layer of location n needs.
func (p *packed) decode(n, rank int) (*Location, error) {
	loc := &Location{}
	if err := p.items.Decode(n, func(c *wire.Codec) { p.packer.location(c, loc) }); err != nil {
		return nil, fmt.Errorf("supply: packed location %d: %w", n, err)
	}
	if rank != stockRank {
		loc.Customers = nil
	}
	if rank == demandRank {
		loc.Lines = nil
		if !loc.sells() {
			loc.Points = nil
		}
	}
	if rank != demandRank {
		loc.File = nil
	}
	if rank == lineRank && len(loc.Lines) == 0 {
		loc.Points = nil
	}
	return loc, nil
}

// Graph is the launcher's alone.
func (p *packed) Graph() *node.Graph { return nil }

// Accumulate is the launcher's alone.
func (p *packed) Accumulate() scenario.Accumulator { return nil }

// Bytes that elements of lists have at least.
const (
	lengthBytes      = 4
	locationBytesMin = lengthBytes + 1 + 1 + 6*lengthBytes
	windowBytes      = 16
	pointBytesMin    = 4*4 + 1 + 8 + 1 + 2*4
	stockBytesMin    = 1 + 5 + 5*8 + 1 + 2 + 7*8
	demandBytesMin   = 8 + 2*4
	customerBytesMin = 3*4 + 4
	lineBytesMin     = 3*4 + 1 + 1
	fileBytesMin     = 8 + 4 + 1
)

// packer encodes and decodes locations.
type packer struct {
	spec   *Spec
	shared []dist.Dist
	index  map[string]uint32 // of them, by text
}

func (p *packer) fields(c *wire.Codec) {
	s := p.spec
	c.String(&s.Name)
	for _, v := range []*float64{&s.Horizon, &s.Warmup, &s.Period} {
		c.Float(v)
	}
	if c.Int(&s.windows); c.Decoding() && !measure.WindowsFit(s.windows) {
		c.Fail("found %d windows, want 0 or an even number of at most %d", s.windows, measure.WindowsMax)
	}
	wire.List(c, &s.Products, lengthBytes, func(id *string) { c.String(id) })
	wire.List(c, &p.shared, lengthBytes, func(d *dist.Dist) { distText(c, d) })
	if c.Decoding() && !(s.Horizon > 0 && s.Warmup >= 0 && s.Warmup < s.Horizon && s.Period > 0) {
		c.Fail("found the horizon %v, the warm-up %v, the period %v", s.Horizon, s.Warmup, s.Period)
	}
}

// distText is a distribution as text; "" where it isn't set.
func distText(c *wire.Codec, d *dist.Dist) {
	text := ""
	if !c.Decoding() && d.IsSet() {
		text = d.String()
	}
	c.String(&text)
	if !c.Decoding() || c.Failed() || text == "" {
		return
	}
	var err error
	if *d, err = dist.Parse(text); err != nil {
		c.Fail("%v", err)
	}
}

// dist is a distribution: the number of a shared one, or its text. at is what it is of, for messages.
func (p *packer) dist(c *wire.Codec, d *dist.Dist, needed bool) {
	number := uint32(len(p.shared)) // none of them
	if !c.Decoding() && d.IsSet() {
		if k, ok := p.index[d.String()]; ok {
			number = k
		}
	}
	c.Uint32(&number)
	switch {
	case int(number) < len(p.shared):
		if c.Decoding() {
			*d = p.shared[number]
		}
	case int(number) > len(p.shared):
		c.Fail("found the distribution %d of %d", number, len(p.shared))
	default:
		distText(c, d)
	}
	if c.Decoding() && !c.Failed() && needed && !d.IsSet() {
		c.Fail("found no distribution, want one")
	}
}

// seconds is a distribution of times.
func (p *packer) seconds(c *wire.Codec, d *dist.Dist, needed bool) {
	if p.dist(c, d, needed); c.Decoding() && !c.Failed() && d.IsSet() && d.Min() < 0 {
		c.Fail("found the times %v, want none below 0", d)
	}
}

// location is all of one. Points refer to its stocks and demands by number, since many share one.
func (p *packer) location(c *wire.Codec, l *Location) {
	c.String(&l.ID)
	c.Bool(&l.Source)
	wire.Optional(c, &l.Calendar, (*Calendar).fields)
	wire.List(c, &l.Lines, lineBytesMin, func(line *Line) {
		p.seconds(c, &line.Time, true)
		c.Varint(&line.Queue)
		wire.Optional(c, &line.Calendar, (*Calendar).fields)
		p.seconds(c, &line.Failure, false)
		p.seconds(c, &line.Repair, line.Failure.IsSet())
	})
	var stocks []*Stock
	var demands []*Demand
	if !c.Decoding() {
		stocks, demands = l.lists()
	}
	wire.List(c, &stocks, stockBytesMin, func(s **Stock) {
		if c.Decoding() {
			*s = &Stock{}
		}
		(*s).fields(c)
	})
	wire.List(c, &demands, demandBytesMin, func(d **Demand) {
		if c.Decoding() {
			*d = &Demand{}
		}
		c.Float(&(*d).Start)
		p.seconds(c, &(*d).Gap, true)
		p.dist(c, &(*d).Size, true)
	})
	p.points(c, l, stocks, demands)
	wire.List(c, &l.Customers, customerBytesMin, func(customer *Customer) {
		c.Int32(&customer.Location)
		c.Int32(&customer.Point)
		c.Int32(&customer.Own)
		p.seconds(c, &customer.Lead, true)
		if c.Decoding() && (customer.Location < 0 || customer.Point < 0 || customer.Own < -1 ||
			int(customer.Own) >= len(l.Points) || customer.Own < 0 && !l.Source) {
			c.Fail("found the customer %+v of %d points", *customer, len(l.Points))
		}
	})
	last := 0.0
	wire.List(c, &l.File, fileBytesMin, func(f *FileDemand) {
		c.Float(&f.Time)
		c.Int32(&f.Point)
		c.Varint(&f.Quantity)
		if c.Decoding() && (f.Time < last || f.Point < 0 || int(f.Point) >= len(l.Points) || f.Quantity < 1 ||
			f.Quantity > quantityMax) {
			c.Fail("found the demand %+v behind %v s", *f, last)
		}
		last = f.Time
	})
}

// lists are the different stocks and demands of a location's points.
func (l *Location) lists() (stocks []*Stock, demands []*Demand) {
	for i := range l.Points {
		p := &l.Points[i]
		if find(stocks, p.Stock) == 0 {
			stocks = append(stocks, p.Stock)
		}
		if p.Demand != nil && find(demands, p.Demand) == 0 {
			demands = append(demands, p.Demand)
		}
	}
	return stocks, demands
}

// find is the number of one among some, from 1 on, looked for from behind since neighbours share them; 0: it isn't
// there.
func find[T any](all []*T, one *T) uint32 {
	for k := len(all); k > 0; k-- {
		if all[k-1] == one {
			return uint32(k)
		}
	}
	return 0
}

func (p *packer) points(c *wire.Codec, l *Location, stocks []*Stock, demands []*Demand) {
	last := int32(-1)
	wire.List(c, &l.Points, pointBytesMin, func(pt *Point) {
		for _, v := range []*int32{&pt.Product, &pt.Stage, &pt.Supplier, &pt.Slot} {
			c.Int32(v)
		}
		c.Bool(&pt.Made)
		c.Float(&pt.Delay)
		c.Varint(&pt.Most)
		stock, demand := find(stocks, pt.Stock), find(demands, pt.Demand)
		c.Uint32(&stock)
		c.Uint32(&demand)
		if !c.Decoding() || c.Failed() {
			return
		}
		if stock < 1 || int(stock) > len(stocks) || int(demand) > len(demands) || pt.Product <= last ||
			int(pt.Product) >= len(p.spec.Products) || pt.Supplier < 0 || pt.Slot < 0 || pt.Delay < 0 || pt.Most < 0 ||
			pt.Made && int(pt.Slot) >= len(l.Lines) {
			c.Fail("found the point %+v with stock %d of %d and demand %d of %d", *pt, stock, len(stocks), demand,
				len(demands))
			return
		}
		if last, pt.Stock = pt.Product, stocks[stock-1]; demand > 0 {
			pt.Demand = demands[demand-1]
		}
	})
}

func (cal *Calendar) fields(c *wire.Codec) {
	c.Float(&cal.Cycle)
	last := 0.0
	wire.List(c, &cal.Windows, windowBytes, func(w *Window) {
		c.Float(&w.From)
		c.Float(&w.Until)
		if c.Decoding() && !(w.From >= last && w.Until > w.From && w.Until <= cal.Cycle) {
			c.Fail("found a window from %v to %v behind %v of a cycle of %v", w.From, w.Until, last, cal.Cycle)
		}
		last = w.Until
	})
	if c.Decoding() && len(cal.Windows) == 0 {
		c.Fail("found a calendar without windows")
	}
}

func (s *Stock) fields(c *wire.Codec) {
	c.Byte((*uint8)(&s.Policy))
	for _, v := range []*int64{&s.UpTo, &s.Reorder, &s.Quantity, &s.Lot, &s.Initial} {
		c.Varint(v)
	}
	for _, v := range []*float64{&s.Every, &s.Cover, &s.Safety} {
		c.Float(v)
	}
	c.Int(&s.Periods)
	c.Bool(&s.Lost)
	for _, v := range []*float64{&s.Costs.Holding, &s.Costs.Backlog, &s.Costs.Lost, &s.Costs.Order, &s.Costs.Unit,
		&s.Costs.Price, &s.Costs.Salvage} {
		c.Float(v)
	}
	if !c.Decoding() || c.Failed() {
		return
	}
	within := func(v, least int64) bool { return v >= least && v <= quantityMax }
	if int(s.Policy) >= len(policies) || !within(s.UpTo, 0) || !within(s.Reorder, -quantityMax) ||
		!within(s.Quantity, 0) || !within(s.Lot, 1) || !within(s.Initial, 0) || s.Periods < 0 ||
		s.Periods > historyMax || s.Policy == ReorderPoint && s.Quantity < 1 || !s.continuous() && !(s.Every > 0) {
		c.Fail("found the stock %+v", *s)
	}
}
