// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"flag"
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/disco-sim/disco/model/modeltest"
)

var update = flag.Bool("update", false, "write the expected texts in testdata anew")

// everything is a network with all that there is: policies, lost sales and backlogs, calendars, breakdowns, a queue
// that fills, sources, delays of orders, a circle of suppliers, demand from distributions and from a file.
const everything = `
model: supply
horizon: 60
warmup: 10
period: 2
products: [{id: a}, {id: b}, {id: c}, {id: d, count: 2}]
calendars:
  - {id: office, cycle: 1, open: [{from: 0.25, until: 0.5}, {from: 0.625, until: 0.75}]}
  - {id: weekdays, cycle: 7, open: [{from: 0, until: 5}]}
locations:
  - {id: maker, source: true}
  - {id: plant, calendar: weekdays}
  - {id: warehouse}
  - {id: shop, count: 3, calendar: office}
  - {id: kiosk}
production:
  - {at: plant, products: [a, b], time: exponential(0.05), queue: 60, calendar: weekdays, failure: exponential(9),
     repair: exponential(1)}
  - {at: plant, products: [c], time: 0.125}
links:
  - {from: plant, to: warehouse, products: [a, b], lead_time: "gamma(2, 0.5)"}
  - {from: warehouse, to: plant, products: d-1, lead_time: 0.5, order_delay: 0.25}
  - {from: maker, to: warehouse, products: [c, d-1], lead_time: exponential(1), order_delay: 0.5}
  - {from: warehouse, to: shop, products: [a, b, c], lead_time: "uniform(0.5, 1.5)"}
  - {from: maker, to: kiosk, lead_time: 0.1}
stock:
  - {at: shop, products: a, policy: base_stock, up_to: 12, costs: {holding: 1, backlog: 9}}
  - {at: shop, products: b, policy: reorder_point, reorder_point: 4, quantity: 6, lot: 3, unmet: lost,
     costs: {lost: 5, order: 2}}
  - {at: shop, products: c, policy: periodic, every: 0.5, up_to: 9, initial: 0}
  - {at: warehouse, products: [a, b], policy: reorder_point, reorder_point: 15, quantity: 20}
  - {at: warehouse, products: [c, d-1], policy: periodic, every: 2, forecast: {periods: 3, cover: 2.5, safety: 4}}
  - {at: plant, products: a, policy: base_stock, up_to: 30, lot: 4}
  - {at: plant, products: [b, c, d-1], policy: periodic, every: 3, up_to: 40, lot: 5}
  - {at: kiosk, policy: newsvendor, every: 1, quantity: 20, costs: {unit: 1, price: 3, salvage: 0.25}}
demand:
  - {at: shop, products: a, gap: exponential(0.3)}
  - {at: shop, products: b, gap: "gamma(0.5, 2)", size: geometric(0.5)}
  - {at: kiosk, start: 0.5, gap: 1, size: "normal(20, 5)"}
  - {at: plant, products: d-1, gap: exponential(1)}
demand_file: testdata/demand.csv
`

// observedIn runs replications of a file and gives the figures of one point.
func observedIn(t *testing.T, text, location, product string, seed uint64, replications int) Figures {
	t.Helper()
	r := modeltest.Summarize(t, modeltest.MustLoad(t, Kind(), text), seed, replications).(*Results)
	for _, p := range r.Points {
		if p.Location == location && p.Product == product {
			return p.Figures
		}
	}
	t.Fatalf("no stock of %s at %s", product, location)
	return nil
}

// halfWidthsMax is how many half widths of its 95 % interval an observation may miss what is known: with ten
// replications a t of 4.5, which chance exceeds in one of 700 tests of a figure. Seeds are fixed.
const halfWidthsMax = 2

// agree wants a figure to be what is known.
func agree(t *testing.T, all Figures, name string, want float64) {
	t.Helper()
	x := all[name]
	if x == nil || !x.Known() {
		t.Errorf("%s: %+v, want an interval", name, x)
		return
	}
	if miss := math.Abs(x.Mean - want); miss > halfWidthsMax*x.HalfWidth+1e-9*math.Abs(want) {
		t.Errorf("%s: observed %v ± %v, want %v", name, x.Mean, x.HalfWidth, want)
	}
	t.Logf("%s: observed %.5g ± %.2g, known %.5g", name, x.Mean, x.HalfWidth, want)
}

// poisson is the number of customers in some time.
func poisson(mean float64) distuv.Poisson { return distuv.Poisson{Lambda: mean} }

// beyond is the mean of what a number has above x.
func beyond(p distuv.Poisson, x int) float64 {
	sum := 0.0
	for k := max(0, x+1); float64(k) < p.Lambda+40*math.Sqrt(p.Lambda)+40; k++ {
		sum += float64(k-x) * p.Prob(float64(k))
	}
	return sum
}
