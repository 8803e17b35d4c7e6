// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// TestSeries: series add up to the results of a run without a warm-up.
func TestSeries(t *testing.T) {
	text := strings.Replace(everything, "warmup: 10", "warmup: 0", 1)
	sum, all := modeltest.CompareSeries(t, Kind(), func(series bool) scenario.Scenario {
		s, err := modeltest.Load(Kind(), "test.yml", text, scenario.Options{Series: series})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, 1)
	r := sum.(*Results)
	if r.WarmupSeconds != 0 {
		t.Fatalf("a warm-up of %v s", r.WarmupSeconds)
	}
	add := func(of string, f Figures) {
		for name, figure := range map[string]string{"demand": "demand_per_s", "stock": "stock", "backlog": "backlog",
			"lost": "lost_per_s"} {
			if x := f[figure]; x != nil && x.Mean > 0 {
				modeltest.Near(t, all, name+of, r.HorizonSeconds*x.Mean)
			}
		}
		if x, size := f["orders_per_s"], f["order_size"]; x != nil && size != nil && x.Mean > 0 {
			modeltest.Near(t, all, "ordered"+of, r.HorizonSeconds*x.Mean*size.Mean)
		}
	}
	add("", r.Total)
	for _, p := range r.Points {
		add(" "+p.Location+" "+p.Product, p.Figures)
	}
}
