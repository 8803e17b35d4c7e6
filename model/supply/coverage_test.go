// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
)

// TestCoverage: of every figure that has an interval and is known, the interval holds it as often as it says.
func TestCoverage(t *testing.T) {
	const rate, level = 2.0, 8
	x := poisson(6)
	backlog := beyond(x, level)
	fill := x.CDF(level - 1)
	for _, c := range []struct {
		name, text   string
		replications int
		known        map[string]float64
	}{
		{"base stock, 20 of 500 s", oneShop(700, "exponential(3)", "policy: base_stock, up_to: 8, costs: {holding: 1}",
			"gap: exponential(0.5)"), 20, map[string]float64{"demand_per_s": rate, "fill_rate": fill,
			"ready_rate": fill,
			"backlog":    backlog, "stock": backlog + level - 6, "on_order": 6, "orders_per_s": rate,
			"cost_per_s": backlog + level - 6}},
		{"base stock, 200 of 100 s, in groups", oneShop(300, "3", "policy: base_stock, up_to: 8",
			"gap: exponential(0.5)"),
			200, map[string]float64{"demand_per_s": rate, "fill_rate": fill, "stock": backlog + level - 6}},
		{"moving average, 10 of 3000 s", oneShop(3200, "2",
			"policy: periodic, every: 1, forecast: {periods: 4, cover: 3, "+
				"safety: 100}", `gap: 1, size: "normal(1000, 100)"`), 10,
			map[string]float64{"bullwhip": 1 + 6./4 + 18./16, "demand_per_s": 1000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := modeltest.MustLoad(t, Kind(), c.text)
			modeltest.Coverage(t, func(seed uint64) map[string]modeltest.Covered {
				all := modeltest.Summarize(t, s, seed, c.replications).(*Results).Points[0].Figures
				out := map[string]modeltest.Covered{}
				for name, truth := range c.known {
					if i := all[name]; i != nil && i.Known() {
						out[name] = modeltest.Covered{Low: i.Low, High: i.High, Truth: truth}
					}
				}
				return out
			})
		})
	}
}
