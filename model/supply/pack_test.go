// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/internal/wire/wiretest"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

// packedText is a network with everything that is packed: each policy, calendars, a source, lines that break, stocks
// that share what is said of them, an order delay.
const packedText = `
model: supply
horizon: 40
warmup: 5
products: [{id: tea}, {id: coffee}, {id: paper}]
calendars: [{id: weekdays, cycle: 7, open: [{from: 0, until: 3}, {from: 4, until: 5}]}]
locations:
  - {id: harbour, source: true}
  - {id: plant}
  - {id: depot, count: 2, calendar: weekdays}
  - {id: shop, count: 6}
links:
  - {from: harbour, to: depot, products: paper, lead_time: "gamma(2, 0.3) + 1", order_delay: 0.25}
  - {from: plant, to: depot, products: [tea, coffee], lead_time: "uniform(0.5, 1.5)"}
  - {from: depot, to: shop, lead_time: 0.5}
production:
  - {at: plant, time: "erlang(0.1, 3)", queue: 200, calendar: weekdays,
    failure: exponential(20), repair: exponential(1)}
stock:
  - {at: plant, policy: periodic, every: 1, lot: 5, initial: 40, forecast: {periods: 3, cover: 2, safety: 20}}
  - {at: depot, policy: reorder_point, reorder_point: 20, quantity: 30, costs: {holding: 0.1, order: 2, unit: 1}}
  - {at: shop, products: [tea, coffee], policy: base_stock, up_to: 9, unmet: lost, costs: {lost: 1, price: 3}}
  - {at: shop, products: paper, policy: newsvendor, every: 1, quantity: 12, costs: {salvage: 0.5, backlog: 1}}
demand:
  - {at: shop, products: [tea, paper], gap: exponential(0.3), size: geometric(0.5)}
  - {at: shop, products: coffee, start: 1, gap: "weibull(0.4, 2)"}
`

func TestPackedRun(t *testing.T) {
	modeltest.ComparePacked(t, Kind(), modeltest.MustLoad(t, Kind(), packedText).(*Model), 3)
}

// TestPackedWhole: every field of what is packed is decoded as it was encoded.
func TestPackedWhole(t *testing.T) {
	wiretest.Whole(t, Calendar{Cycle: 7, Windows: []Window{{1, 2}, {3, 4}}}, (*Calendar).fields)
	wiretest.Whole(t, Stock{Policy: Newsvendor, UpTo: 1, Reorder: 2, Quantity: 3, Every: 4, Periods: 5, Cover: 6,
		Safety: 7,
		Lot:    8, Initial: 9, Lost: true, Costs: Costs{1, 2, 3, 4, 5, 6, 7}}, (*Stock).fields)
	m := modeltest.MustLoad(t, Kind(), packedText).(*Model)
	b, err := m.Pack(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := unpack(b)
	if err != nil {
		t.Fatal(err)
	}
	for n := range m.spec.Locations {
		want := m.spec.Locations[n]
		got, err := s.(*packed).decode(n, stockRank)
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != want.ID || got.Source != want.Source || len(got.Points) != len(want.Points) ||
			len(got.Lines) != len(want.Lines) || len(got.Customers) != len(want.Customers) {
			t.Errorf("location %d: %+v, want %+v", n, got, want)
			continue
		}
		for k := range want.Points {
			g, w := got.Points[k], want.Points[k]
			if *g.Stock != *w.Stock || (g.Demand == nil) != (w.Demand == nil) ||
				w.Demand != nil && (g.Demand.Start != w.Demand.Start ||
					g.Demand.Gap.String() != w.Demand.Gap.String() ||
					g.Demand.Size.String() != w.Demand.Size.String()) {
				t.Errorf("point %d of %s: %+v, want %+v", k, want.ID, g, w)
			}
			g.Stock, w.Stock, g.Demand, w.Demand = nil, nil, nil, nil
			if g != w {
				t.Errorf("point %d of %s: %+v, want %+v", k, want.ID, g, w)
			}
			if k > 0 &&
				(got.Points[k].Stock == got.Points[k-1].Stock) != (want.Points[k].Stock == want.Points[k-1].Stock) {
				t.Errorf("points %d and %d of %s share a stock here or there only", k-1, k, want.ID)
			}
		}
		for k := range want.Customers {
			g, w := got.Customers[k], want.Customers[k]
			if g.Lead.String() != w.Lead.String() || g.Location != w.Location || g.Point != w.Point || g.Own != w.Own {
				t.Errorf("customer %d of %s: %+v, want %+v", k, want.ID, g, w)
			}
		}
	}
}

// TestNotPacked: a scenario with a distribution that text doesn't hold is read by workers.
func TestNotPacked(t *testing.T) {
	registry, err := scenario.NewRegistry(Kind())
	if err != nil {
		t.Fatal(err)
	}
	for gap, want := range map[string]string{"exponential(0.3)": KindName, "1": KindName, "gamma(2, 0.3) + 1": KindName,
		"{distribution: empirical, samples: [1, 2, 4]}":              "",
		"{distribution: exponential, mean: 2, min: 0.5, max: 4}":     "",
		"{distribution: normal, mean: 5, stddev: 1, at_least: 0.25}": ""} {
		text := strings.Replace(packedText, "gap: exponential(0.3)", "gap: "+gap, 1)
		if strings.Contains(gap, ", 0.3)") {
			text = strings.Replace(packedText, "gap: exponential(0.3)", `gap: "`+gap+`"`, 1)
		}
		doc, err := scenario.Parse("x.yml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := registry.Unpacks(doc, modeltest.MustLoad(t, Kind(), text)); got != want {
			t.Errorf("%s: packed %q, want %q", gap, got, want)
		}
	}
}

// openAll unpacks b and decodes all locations.
func openAll(b []byte) error {
	s, err := unpack(b)
	if err != nil {
		return err
	}
	p := s.(*packed)
	for n := range p.items.Len() {
		for rank := range 3 {
			if _, err := p.decode(n, rank); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestBadPacked(t *testing.T) {
	good, err := modeltest.MustLoad(t, Kind(), packedText).(*Model).Pack(nil)
	if err != nil {
		t.Fatal(err)
	}
	wiretest.Truncated(t, good, "supply: packed", openAll)
	b := slices.Clone(good)
	binary.LittleEndian.PutUint64(b[4+4+len("test"):], 0)
	if err := openAll(b); err == nil || !strings.Contains(err.Error(), "found the horizon 0") {
		t.Errorf("%v", err)
	}
	p := packer{spec: &Spec{Products: []string{"a"}}}
	lead := dist.Constant(1)
	for want, spoil := range map[string]func(l *Location){
		"found the point":             func(l *Location) { l.Points[0].Product = 1 },
		"found the stock":             func(l *Location) { l.Points[0].Stock.Lot = 0 },
		"found the customer":          func(l *Location) { l.Customers[0].Own = 1 },
		"found the demand":            func(l *Location) { l.File[0].Point = 1 },
		"found no distribution":       func(l *Location) { l.Customers[0].Lead = dist.Dist{} },
		"found the times":             func(l *Location) { l.Customers[0].Lead = dist.Constant(-1) },
		"found a calendar without":    func(l *Location) { l.Calendar.Windows = nil },
		"found a window from 2 to 1":  func(l *Location) { l.Calendar.Windows[0] = Window{2, 1} },
		"want none below 0":           func(l *Location) { l.Points[0].Demand.Gap = dist.Constant(-2) },
		"with stock 1 of 1 and deman": func(l *Location) { l.Points[0].Made = true },
	} {
		l := Location{ID: "x", Calendar: &Calendar{7, []Window{{0, 1}}}, Points: []Point{{Stock: &Stock{Lot: 1},
			Demand: &Demand{Gap: lead, Size: lead}}}, Customers: []Customer{{Lead: lead}},
			File: []FileDemand{{Time: 1, Quantity: 1}}}
		spoil(&l)
		b, err := wire.Append(nil, func(c *wire.Codec) { p.location(c, &l) })
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.Decode(b, func(c *wire.Codec) { p.location(c, &Location{}) }); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// FuzzUnpack: any bytes are refused, or are locations.
func FuzzUnpack(f *testing.F) {
	good, err := modeltest.MustLoad(f, Kind(), packedText).(*Model).Pack(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(_ *testing.T, b []byte) { _ = openAll(b) }) // it doesn't panic
}
