// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Serial = (*Results)(nil)

// course is what the tallies of all stations have come to over the replications, stretch by stretch. Stations keep
// tallies in any case, for the intervals: time series cost a run nothing.
type course struct {
	spec    *Spec
	elapsed *measure.Batches
	reached float64 // by the replication that has come farthest
	tallies []tally
}

func newCourse(s *Spec, stretches int) *course {
	c := &course{spec: s, elapsed: measure.NewBatches(s.Warmup, s.Horizon, stretches)}
	for range s.Stations {
		c.tallies = append(c.tallies, newTally(s.Warmup, s.Horizon, stretches))
	}
	return c
}

// takeCourse adds a replication.
func (a *accumulator) takeCourse(rep scenario.Replication) error {
	c := a.course
	if c == nil {
		return nil
	}
	c.elapsed.Over(c.spec.Warmup, rep.Reached, 1)
	c.reached = max(c.reached, rep.Reached)
	for i := range c.tallies {
		one, err := a.m.readTally(rep, i)
		if err != nil {
			return err
		}
		for f, b := range one {
			c.tallies[i][f].Add(b)
		}
	}
	return nil
}

// seriesOf is a figure over time: a sum of fields, less one of them, over time or over another field.
type seriesOf struct {
	name, unit string
	of         []int
	less, over int // none: there is no such field; over none: over time
	perServer  bool
}

// none is no field.
const none = -1

// networkSeries are those of the network, stationSeries those of each station.
var (
	networkSeries = []seriesOf{
		{"throughput", "customers/s", []int{exits}, none, none, false},
		{"lost", "customers/s", []int{offered}, accepted, none, false},
		{"in_network", "customers", []int{present, moving}, none, none, false},
		{"time_in_network", "s", []int{sojourn}, none, exits, false},
	}
	stationSeries = []seriesOf{
		{"arrivals", "customers/s", []int{offered}, none, none, false},
		{"throughput", "customers/s", []int{served}, none, none, false},
		{"lost", "customers/s", []int{offered}, accepted, none, false},
		{"utilisation", "", []int{busy}, none, none, true},
		{"in_system", "customers", []int{present}, none, none, false},
		{"in_queue", "customers", []int{present}, busy, none, false},
		{"time_in_system", "s", []int{residence}, none, accepted, false},
		{"time_in_queue", "s", []int{waiting}, none, accepted, false},
	}
)

// Series implements scenario.Serial: first those of the network, then those of each of the first stations. Times are
// filed under the customer's arrival at a station, or his leaving the network.
func (r *Results) Series(yield func(*scenario.Series) bool) {
	c := r.course
	if c == nil {
		return
	}
	edges, seconds := c.close()
	total := func(field int) []float64 {
		sum := make([]float64, len(c.elapsed.Sums()))
		for i := range c.tallies {
			for k, x := range c.tallies[i][field].Sums() {
				sum[k] += x
			}
		}
		return sum
	}
	for i := range networkSeries {
		s := &networkSeries[i]
		if !yield(&scenario.Series{Name: s.name, Unit: s.unit, Edges: edges, Values: s.values(total, 1, seconds)}) {
			return
		}
	}
	for n := range min(len(c.tallies), scenario.SeriesOfMax) {
		st := &c.spec.Stations[n]
		one := func(field int) []float64 { return c.tallies[n][field].Sums() }
		for i := range stationSeries {
			s := &stationSeries[i]
			if !yield(&scenario.Series{Name: s.name, Of: st.ID, Unit: s.unit, Edges: edges,
				Values: s.values(one, float64(st.Servers), seconds)}) {
				return
			}
		}
	}
}

// close makes all stretches of one length, and returns where they begin and end, and how much time was simulated of
// each.
func (c *course) close() (edges, seconds []float64) {
	doublings := c.elapsed.Doublings()
	for i := range c.tallies {
		for _, b := range c.tallies[i] {
			doublings = min(doublings, b.Doublings())
		}
	}
	c.elapsed.Coarsen(doublings)
	for i := range c.tallies {
		for _, b := range c.tallies[i] {
			b.Coarsen(doublings)
		}
	}
	edges = c.elapsed.Edges(c.reached)
	return edges, c.elapsed.Sums()[:len(edges)-1]
}

// values works the figure out, of the sums of each field.
func (s *seriesOf) values(sums func(field int) []float64, servers float64, seconds []float64) []float64 {
	y, x := make([]float64, len(seconds)), seconds
	for _, f := range s.of {
		for k, v := range sums(f)[:len(y)] {
			y[k] += v
		}
	}
	if s.less != none {
		for k, v := range sums(s.less)[:len(y)] {
			y[k] = max(0, y[k]-v)
		}
	}
	if s.over != none {
		x = sums(s.over)[:len(y)]
	}
	if s.perServer {
		for k := range y {
			y[k] /= servers
		}
	}
	return measure.Quotients(y, x)
}
