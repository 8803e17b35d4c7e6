// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Serial = (*Results)(nil)

// What a point counts by windows of simulated time, from 0 on, where time series are asked for.
const (
	askedFor     = iota // units
	metAtOnce           // of them
	neverMet            // of them
	orderedUnits        // by the point
	stockHeld           // units × time
	stockOwed           // units × time
	windowFields
)

// windowCount is how many windows each location has.
func (s *Spec) windowCount() int {
	if !s.Series {
		return 0
	}
	points := 0
	s.eachPoint(func(*Location, *Point) { points++ })
	return measure.WindowCount(windowFields * points)
}

// readCourse adds the windows of location i, which stand behind the sums of its points in its report, and returns what
// is before them.
func (a *accumulator) readCourse(i int, report []byte) ([]byte, error) {
	points := len(a.m.spec.Locations[i].Points)
	if a.course == nil || points == 0 || len(report) < reportBytes*points {
		return report, nil
	}
	return report[:reportBytes*points], a.course.Read(i, windowFields*points, report[reportBytes*points:])
}

// seriesOf is a figure over time: a field over time, or over another field.
type seriesOf struct {
	name, unit string
	of, over   int
}

const overTime = -1

// seriesList are those of the whole, and of each point.
var seriesList = []seriesOf{
	{"demand", "units/s", askedFor, overTime},
	{"fill_rate", "", metAtOnce, askedFor},
	{"lost", "units/s", neverMet, overTime},
	{"ordered", "units/s", orderedUnits, overTime},
	{"stock", "units", stockHeld, overTime},
	{"backlog", "units", stockOwed, overTime},
}

// Series implements scenario.Serial: first those of all points together, then those of each of the first points, which
// are about "location product".
func (r *Results) Series(yield func(*scenario.Series) bool) {
	if r.course == nil {
		return
	}
	edges, seconds := r.course.Close()
	more := func(of string, sums func(field int) []float64) bool {
		for i := range seriesList {
			s := &seriesList[i]
			over := seconds
			if s.over != overTime {
				over = sums(s.over)[:len(seconds)]
			}
			if !yield(&scenario.Series{Name: s.name, Of: of, Unit: s.unit, Edges: edges,
				Values: measure.Quotients(sums(s.of)[:len(seconds)], over)}) {
				return false
			}
		}
		return true
	}
	if !more("", r.sum) {
		return
	}
	shown := 0
	for i := range r.spec.Locations {
		loc := &r.spec.Locations[i]
		for k := range loc.Points {
			if shown == scenario.SeriesOfMax {
				return
			}
			shown++
			sums := func(field int) []float64 { return r.course.Sums(i, k*windowFields+field) }
			if !more(loc.ID+" "+r.spec.Products[loc.Points[k].Product], sums) {
				return
			}
		}
	}
}

// sum is the sum of a field over all points, in their order.
func (r *Results) sum(field int) []float64 {
	all := r.course.Total(0, 0, 0)
	for i := range r.spec.Locations {
		for k := range r.spec.Locations[i].Points {
			for w, x := range r.course.Sums(i, k*windowFields+field) {
				all[w] += x
			}
		}
	}
	return all
}
