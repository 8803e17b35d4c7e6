// SPDX-License-Identifier: Apache-2.0

package devstone

import (
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// TestSeries: all transitions and messages are in some window.
func TestSeries(t *testing.T) {
	sum, all := modeltest.CompareSeries(t, Kind(), func(series bool) scenario.Scenario {
		return New(Params{Type: HO, Width: 4, Depth: 4, Pulses: 7, Series: series})
	}, 1)
	r := sum.(*Results)
	modeltest.Near(t, all, "transitions", float64(r.Transitions)/modeltest.SeriesReplications)
	modeltest.Near(t, all, "messages", float64(r.Messages)/modeltest.SeriesReplications)
}
