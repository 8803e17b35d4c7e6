// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// replications of known networks.
const replications = 10

// long is the horizon of one of them: shorter in short tests, whose intervals are wider then.
func long(seconds float64) float64 {
	if testing.Short() {
		return seconds / 4
	}
	return seconds
}

// oneShop is a shop that a source supplies.
func oneShop(horizon float64, lead, stock, demand string) string {
	return fmt.Sprintf("model: supply\nhorizon: %g\nwarmup: 200\nproducts: [{id: p}]\n"+
		"locations: [{id: shop}, {id: maker, source: true}]\nlinks: [{from: maker, to: shop, lead_time: %s}]\n"+
		"stock: [{at: shop, %s}]\ndemand: [{at: shop, %s}]\n", horizon, lead, stock, demand)
}

// TestPalm: with base stock and Poisson demand what is on order is Poisson with the mean of the demand in a lead time,
// whatever its distribution (Palm 1938).
func TestPalm(t *testing.T) {
	const rate, mean, level = 2.0, 3.0, 8
	for _, lead := range []string{"3", "exponential(3)", `"gamma(3, 0.5)"`, `"uniform(1, 5)"`,
		`"hyperexponential(3, 2)"`, `"exponential(1) + 2"`} {
		t.Run(lead, func(t *testing.T) {
			all := observedIn(t, oneShop(long(20_000), lead, fmt.Sprintf("policy: base_stock, up_to: %d, "+
				"costs: {holding: 2, backlog: 5, order: 3, unit: 1}", level), "gap: exponential(0.5)"), "shop", "p", 1,
				replications)
			checkPalm(t, all, rate, rate*mean, level)
		})
	}
}

func checkPalm(t *testing.T, all Figures, rate, onOrder float64, level int) {
	t.Helper()
	x := poisson(onOrder)
	backlog := beyond(x, level)
	stock := backlog + float64(level) - onOrder
	agree(t, all, "demand_per_s", rate)
	agree(t, all, "fill_rate", x.CDF(float64(level-1)))
	agree(t, all, "ready_rate", x.CDF(float64(level-1)))
	agree(t, all, "stock", stock)
	agree(t, all, "backlog", backlog)
	agree(t, all, "on_order", onOrder)
	agree(t, all, "orders_per_s", rate)
	agree(t, all, "cost_per_s", 2*stock+5*backlog+4*rate)
	agree(t, all, "bullwhip", 1)
}

// TestTwoStages: a warehouse that keeps nothing passes every order on, so that the shop's lead time is the sum of both:
// what is owed between locations is delivered in its order when it has come.
func TestTwoStages(t *testing.T) {
	text := fmt.Sprintf(`
model: supply
horizon: %g
warmup: 200
products: [{id: p}]
locations: [{id: shop}, {id: warehouse}, {id: maker, source: true}]
links:
  - {from: warehouse, to: shop, lead_time: 1}
  - {from: maker, to: warehouse, lead_time: 2}
stock:
  - {at: shop, policy: base_stock, up_to: 8, costs: {holding: 2, backlog: 5, order: 3, unit: 1}}
  - {at: warehouse, policy: base_stock, up_to: 0}
demand: [{at: shop, gap: exponential(0.5)}]
`, long(20_000))
	checkPalm(t, observedIn(t, text, "shop", "p", 2, replications), 2, 6, 8)
	all := observedIn(t, text, "warehouse", "p", 2, replications)
	agree(t, all, "backlog", 4)
	agree(t, all, "on_order", 4)
	if x := all["fill_rate"]; x.Mean != 0 {
		t.Errorf("a warehouse without stock fills %v", x.Mean)
	}
}

// TestReorderPoint: with Poisson demand of single units and a constant lead time the inventory position is uniform from
// r + 1 to r + Q and independent of the demand in the lead time that follows (Hadley and Whitin 1963, chapter 4).
func TestReorderPoint(t *testing.T) {
	const rate, lead = 2.0, 3.0
	for _, c := range []struct{ r, q int }{{8, 30}, {5, 1}, {-3, 6}, {3, 4}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			all := observedIn(t, oneShop(long(20_000), "3", fmt.Sprintf("policy: reorder_point, reorder_point: %d, "+
				"quantity: %d, costs: {holding: 1, backlog: 4, order: 10}", c.r, c.q), "gap: exponential(0.5)"),
				"shop", "p",
				3, replications)
			x := poisson(rate * lead)
			fill, backlog, position := 0.0, 0.0, 0.0
			for y := c.r + 1; y <= c.r+c.q; y++ {
				fill += x.CDF(float64(y-1)) / float64(c.q)
				backlog += beyond(x, y) / float64(c.q)
				position += float64(y) / float64(c.q)
			}
			stock := position - rate*lead + backlog
			agree(t, all, "fill_rate", fill)
			agree(t, all, "ready_rate", fill)
			agree(t, all, "stock", stock)
			agree(t, all, "backlog", backlog)
			agree(t, all, "on_order", rate*lead)
			agree(t, all, "orders_per_s", rate/float64(c.q))
			agree(t, all, "cost_per_s", stock+4*backlog+10*rate/float64(c.q))
			if beyond(x, c.r+c.q) < 1e-9 { // never two orders short
				agree(t, all, "cycle_service", x.CDF(float64(c.r)))
			}
		})
	}
}

// TestLost: with lost sales what is on order has the distribution of busy servers in Erlang's loss system, whatever the
// lead times (Karush 1957).
func TestLost(t *testing.T) {
	const rate, mean, level = 2.0, 3.0, 8
	blocked, sum := 1.0, 0.0 // Erlang B, by its recursion
	for n := 1; n <= level; n++ {
		blocked = rate * mean * blocked / (float64(n) + rate*mean*blocked)
	}
	for n, term := 0, 1.0; n <= level; n++ {
		sum += term
		term *= rate * mean / float64(n+1)
	}
	if direct := math.Pow(rate*mean, level) / math.Gamma(level+1) / sum; math.Abs(direct-blocked) > 1e-12 {
		t.Fatalf("Erlang B is %v and %v", blocked, direct)
	}
	for _, lead := range []string{"3", "exponential(3)", `"uniform(0, 6)"`} {
		all := observedIn(t, oneShop(long(20_000), lead, "policy: base_stock, up_to: 8, unmet: lost, costs: {lost: 7}",
			"gap: exponential(0.5)"), "shop", "p", 9, replications)
		agree(t, all, "fill_rate", 1-blocked)
		agree(t, all, "on_order", rate*mean*(1-blocked))
		agree(t, all, "stock", level-rate*mean*(1-blocked))
		agree(t, all, "lost_per_s", rate*blocked)
		agree(t, all, "sold_per_s", rate*(1-blocked))
		agree(t, all, "cost_per_s", 7*rate*blocked)
		if x := all["backlog"]; x.Mean != 0 {
			t.Errorf("a backlog of %v beside lost sales", x.Mean)
		}
	}
}

// TestPeriodic: with a review each R the stock at u behind a review's arrival is the level less the demand in a lead
// time and u, for u from 0 to R (Hadley and Whitin 1963, chapter 5).
func TestPeriodic(t *testing.T) {
	const rate, lead, every, level = 2.0, 3.0, 2.0, 10
	backlog := 0.0
	const steps = 1000 // Simpson's rule
	for i := range steps + 1 {
		weight := 2 + 2*float64(i%2)
		if i == 0 || i == steps {
			weight = 1
		}
		backlog += weight * beyond(poisson(rate*(lead+every*float64(i)/steps)), level) / (3 * steps)
	}
	all := observedIn(t, oneShop(long(20_000), "3", "policy: periodic, every: 2, up_to: 10", "gap: exponential(0.5)"),
		"shop", "p", 10, replications)
	agree(t, all, "backlog", backlog)
	agree(t, all, "stock", level-rate*(lead+every/2)+backlog)
	agree(t, all, "on_order", rate*lead)
	agree(t, all, "orders_per_s", (1-math.Exp(-rate*every))/every)
}

// TestClosed: a location orders when it is open, and not before.
func TestClosed(t *testing.T) {
	text := oneShop(1000, "0.125", "policy: base_stock, up_to: 1", "start: 0.625, gap: 1")
	text = strings.Replace(text, "{id: shop}", "{id: shop, calendar: day}", 1) +
		"calendars: [{id: day, cycle: 1, open: [{from: 0.25, until: 0.5}]}]\n"
	all := observedIn(t, text, "shop", "p", 1, 1)
	for name, want := range map[string]float64{"ready_rate": 0.25, "on_order": 0.125, "orders_per_s": 1,
		"fill_rate": 1} {
		if got := all[name].Mean; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestNewsvendor: the profit of a quantity is what the distribution of demand says, and no quantity has more than the
// (price - cost)/(price - salvage) quantile (Arrow, Harris and Marschak 1951). Demand is normal, rounded to whole
// units, and none below 0; orders arrive before it.
func TestNewsvendor(t *testing.T) {
	const price, cost, salvage, mean, deviation = 5.0, 2.0, 0.5, 100, 30
	d := distuv.Normal{Mu: mean, Sigma: deviation}
	profit := func(q int) float64 {
		sold := 0.0 // the sum of P(D >= k), rounded to the nearest
		for k := 1; k <= q; k++ {
			sold += 1 - d.CDF(float64(k)-0.5)
		}
		return price*sold - cost*float64(q) + salvage*(float64(q)-sold)
	}
	best := 0
	for d.CDF(float64(best)+0.5) < (price-cost)/(price-salvage) {
		best++
	}
	seen := map[int]float64{}
	for _, q := range []int{best - 25, best, best + 25} {
		all := observedIn(t, oneShop(long(4000), "0.1", fmt.Sprintf("policy: newsvendor, every: 1, quantity: %d, "+
			"costs: {unit: %g, price: %g, salvage: %g}", q, cost, price, salvage),
			`start: 0.5, gap: 1, size: "normal(100, 30)"`), "shop", "p", 4, replications)
		agree(t, all, "profit_per_s", profit(q))
		agree(t, all, "order_size", float64(q))
		seen[q] = all["profit_per_s"].Mean
		if profit(q) > profit(best) {
			t.Errorf("a profit of %v with %d, %v with the quantile, %d", profit(q), q, profit(best), best)
		}
	}
	// The same seeds give the same demand, so the differences are seen well.
	if seen[best] <= seen[best-25] || seen[best] <= seen[best+25] {
		t.Errorf("profits by quantity: %v, want most with %d", seen, best)
	}
}

// TestBullwhip: orders up to a moving average of p periods times a cover of L vary 1 + 2L/p + 2L²/p² times as much as
// independent demand, where they hardly ever would be below 0 (Chen, Drezner, Ryan and Simchi-Levi 2000).
func TestBullwhip(t *testing.T) {
	for _, c := range []struct{ p, cover float64 }{{4, 3}, {10, 2}, {5, 1}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			all := observedIn(t, oneShop(long(8000), "2", fmt.Sprintf("policy: periodic, every: 1, "+
				"forecast: {periods: %g, cover: %g, safety: 100}", c.p, c.cover), `gap: 1, size: "normal(1000, 100)"`),
				"shop", "p", 5, replications)
			k := c.cover / c.p
			agree(t, all, "bullwhip", 1+2*k+2*k*k)
			agree(t, all, "demand_per_s", 1000)
			agree(t, all, "orders_per_s", 1)
		})
	}
}

// onePlant is a plant that makes what is asked of it.
func onePlant(horizon float64, line, stock, demand string) string {
	return fmt.Sprintf("model: supply\nhorizon: %g\nwarmup: 200\nproducts: [{id: p}]\nlocations: [{id: plant}]\n"+
		"calendars: [{id: day, cycle: 1, open: [{from: 0.25, until: 0.5}, {from: 0.625, until: 0.75}]}]\n"+
		"production: [{at: plant, %s}]\nstock: [{at: plant, %s}]\ndemand: [{at: plant, %s}]\n", horizon, line, stock,
		demand)
}

// TestLine: what is on order at a line that makes units one by one is the number in M/D/1 and M/M/1 (Pollaczek and
// Khinchine), and with a stock of S above it the backlog is what is beyond S.
func TestLine(t *testing.T) {
	const load = 0.7
	all := observedIn(t, onePlant(long(40_000), "time: 0.7", "policy: base_stock, up_to: 0", "gap: exponential(1)"),
		"plant", "p", 6, replications)
	agree(t, all, "on_order", load+load*load/2/(1-load))
	agree(t, all, "backlog", load+load*load/2/(1-load))
	all = observedIn(t, onePlant(long(40_000), "time: exponential(0.7)", "policy: base_stock, up_to: 3",
		"gap: exponential(1)"), "plant", "p", 7, replications)
	agree(t, all, "on_order", load/(1-load))
	agree(t, all, "fill_rate", 1-math.Pow(load, 3))
	agree(t, all, "backlog", math.Pow(load, 4)/(1-load))
}

// TestCapacity: a line that always has work makes what its calendar and its breakdowns leave it time for; those come
// whether it works or not, so the shares multiply.
func TestCapacity(t *testing.T) {
	for _, c := range []struct {
		line string
		rate float64
	}{
		{"time: 0.1", 10},
		{"time: 0.1, calendar: day", 10 * 0.375},
		{"time: exponential(0.1), failure: exponential(3), repair: exponential(1)", 10 * 0.75},
		{"time: exponential(0.1), failure: exponential(3), repair: exponential(1), calendar: day", 10 * 0.375 * 0.75},
		{"time: exponential(0.1), failure: exponential(3), repair: exponential(1), queue: 500", 10 * 0.75},
	} {
		t.Run(c.line, func(t *testing.T) {
			horizon := long(8000)
			all := observedIn(t, onePlant(horizon, c.line,
				"policy: periodic, every: 10, up_to: 1000000, initial: 0, unmet: lost", "gap: exponential(0.05)"),
				"plant",
				"p", 8, replications)
			if x := all["received_per_s"]; x.HalfWidth == 0 { // no chance in it: one unit may be seen or not
				if miss := math.Abs(x.Mean - c.rate); miss > 1.001/(horizon-200) {
					t.Errorf("%v a second, want %v", x.Mean, c.rate)
				}
				return
			}
			agree(t, all, "received_per_s", c.rate)
		})
	}
}
