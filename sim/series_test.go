// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// TestSeries: series of counters, tallies and gauges add up to the results, and percentiles lie among the values.
func TestSeries(t *testing.T) {
	sum, all := modeltest.CompareSeries(t, scenario.Kind{}, func(series bool) scenario.Scenario {
		return savable(t, false, func(b *Builder) { b.m.series = series })
	}, 1)
	r := sum.(*Results)
	seen, wait := r.Statistic("n/seen"), r.Statistic("n/wait")
	modeltest.Near(t, all, "seen n", *seen.Total/modeltest.SeriesReplications)
	modeltest.Near(t, all, "level n", r.HorizonSeconds*r.Statistic("n/level").Mean.Mean)
	if all["seen n"].Unit != "/s" || len(all["wait n"].Values) < 8 {
		t.Errorf("series %+v and %+v", all["seen n"], all["wait n"])
	}
	values := 0
	for k, x := range all["wait.p99 n"].Values {
		if median := all["wait.p50 n"].Values[k]; !math.IsNaN(x) {
			values++
			if median > x || x > 1.02**wait.Max || median < 0.98**wait.Min {
				t.Errorf("window %d: median %v, p99 %v of %v to %v", k, median, x, *wait.Min, *wait.Max)
			}
		}
	}
	if values == 0 {
		t.Error("no percentiles")
	}
}
