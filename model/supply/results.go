// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"math"

	"github.com/disco-sim/disco/model/measure"
)

// Results is what a run has found out, over all replications: the JSON "results".
type Results struct {
	HorizonSeconds float64 `json:"horizon_s"` // of one replication
	WarmupSeconds  float64 `json:"warmup_s"`  // of it not counted
	PeriodSeconds  float64 `json:"period_s"`  // of the bullwhip ratio
	Replications   int     `json:"replications"`
	Samples        int     `json:"samples"` // replications, or groups of them, that count
	Confidence     float64 `json:"confidence_level"`
	Interrupted    bool    `json:"interrupted"` // some replication did not reach the horizon

	Total  Figures        `json:"total"`
	Stages []*StageResult `json:"stages"`
	Points []*PointResult `json:"points"` // none where there are more than pointsShown

	name   string
	course *measure.Course // by location; nil: no time series were asked for
	spec   *Spec
	all    int      // points
	sums   []sample // of each point, where there are too many for Points
}

// Figures are estimates by name; what doesn't exist, such as a share of nothing, is left out.
type Figures map[string]*measure.Interval

// StageResult is all points that are so many supply links away from demand.
type StageResult struct {
	Stage   int     `json:"stage"`
	Points  int     `json:"points"`
	Figures Figures `json:"figures"`
}

// PointResult is one product at one location.
type PointResult struct {
	Location string  `json:"location"`
	Product  string  `json:"product"`
	Stage    *int    `json:"stage"` // null: no demand reaches it
	Figures  Figures `json:"figures"`
}

// What a sample has besides its sums.
const (
	elapsed  = sumFields + iota // seconds × points
	seconds                     // of the replication
	orderVar                    // variance of orders a period × periods
	demandVar
	holdingCost
	backlogCost
	lostCost
	orderingCost
	salvaged
	income
	sampleFields
)

// sample is what one replication, or a group of them, says of a point, a stage or all.
type sample [sampleFields]float64

func (x *sample) join(y *sample) {
	for f := range x {
		x[f] += y[f]
	}
}

// merge adds another point of the same replication.
func (x *sample) merge(y *sample) {
	s := max(x[seconds], y[seconds])
	x.join(y)
	x[seconds] = s
}

// makeSample is what a replication says of one point.
func makeSample(s *sums, st *Stock, simulated float64) (x sample) {
	copy(x[:], s[:])
	x[elapsed], x[seconds] = simulated, simulated
	if n := s[periods]; n > 1 {
		x[orderVar] = max(0, s[orders2]-s[orders1]*s[orders1]/n)
		x[demandVar] = max(0, s[demand2]-s[demand1]*s[demand1]/n)
	}
	c := &st.Costs
	x[holdingCost] = c.Holding * s[stockTime]
	x[backlogCost] = c.Backlog * s[owedTime]
	x[lostCost] = c.Lost * s[lostUnits]
	x[orderingCost] = float64(c.Order*s[orders]) + float64(c.Unit*s[ordered])
	x[salvaged] = c.Salvage * s[thrown]
	x[income] = c.Price * s[given]
	return x
}

// figure is one estimate: a sum of fields over a field.
type figure struct {
	name, text string // text "": not in the text
	over       int
	of         []int
	minus      []int
	most       float64 // 0: none; a figure may be below 0 only with minus
}

var figureList = []figure{
	{name: "demand_per_s", text: "demand /s", of: []int{demanded}, over: seconds},
	{name: "fill_rate", text: "fill rate", of: []int{filled}, over: demanded, most: 1},
	{name: "ready_rate", text: "ready rate", of: []int{readyTime}, over: elapsed, most: 1},
	{name: "cycle_service", text: "cycle service", of: []int{goodCycles}, over: cycles, most: 1},
	{name: "stock", text: "stock on hand", of: []int{stockTime}, over: seconds},
	{name: "backlog", text: "backlog", of: []int{owedTime}, over: seconds},
	{name: "on_order", text: "on order", of: []int{orderTime}, over: seconds},
	{name: "lost_per_s", of: []int{lostUnits}, over: seconds},
	{name: "sold_per_s", of: []int{given}, over: seconds},
	{name: "received_per_s", of: []int{received}, over: seconds},
	{name: "orders_per_s", text: "orders /s", of: []int{orders}, over: seconds},
	{name: "order_size", of: []int{ordered}, over: orders},
	{name: "thrown_per_s", of: []int{thrown}, over: seconds},
	{name: "bullwhip", text: "bullwhip", of: []int{orderVar}, over: demandVar},
	{name: "holding_cost_per_s", of: []int{holdingCost}, over: seconds},
	{name: "backlog_cost_per_s", of: []int{backlogCost}, over: seconds},
	{name: "lost_cost_per_s", of: []int{lostCost}, over: seconds},
	{name: "ordering_cost_per_s", of: []int{orderingCost}, over: seconds},
	{name: "cost_per_s", text: "cost /s", of: []int{holdingCost, backlogCost, lostCost, orderingCost},
		minus: []int{salvaged}, over: seconds},
	{name: "profit_per_s", of: []int{income, salvaged},
		minus: []int{holdingCost, backlogCost, lostCost, orderingCost}, over: seconds},
}

// figures are the estimates of samples that are replications, or groups of them.
func figures(all []sample) Figures {
	out := make(Figures, len(figureList))
	series, room := make([]measure.Series, len(all)), make([]float64, 2*len(all))
	for i := range figureList {
		f := &figureList[i]
		for k := range all {
			y, x := room[2*k:2*k+1:2*k+1], room[2*k+1:2*k+2]
			y[0], x[0] = 0, all[k][f.over]
			for _, of := range f.of {
				y[0] += all[k][of]
			}
			for _, of := range f.minus {
				y[0] -= all[k][of]
			}
			series[k] = measure.Series{Y: y, X: x}
		}
		r, ok := measure.Ratio(series)
		if !ok {
			continue
		}
		if f.minus == nil {
			most := math.Inf(1)
			if f.most > 0 {
				most = f.most
			}
			r = r.Clip(most)
		}
		out[f.name] = &r
	}
	return out
}
