// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"errors"
	"fmt"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

// pointsShown is the number of points up to which each has figures with intervals, which take their samples'
// memory. Beyond it the table of a run (--csv) has the means of each, the JSON those of stages.
const pointsShown = 2000

// accumulator implements scenario.Accumulator.
type accumulator struct {
	m            *Model
	replications int
	interrupted  bool
	total        *measure.Groups[sample]
	stages       []*measure.Groups[sample]
	counts       []int                     // points by stage
	points       []*measure.Groups[sample] // where there are few
	sums         []sample                  // where there are many
	course       *measure.Course           // by location; nil: no time series were asked for
}

// Accumulate begins the results of a run.
func (m *Model) Accumulate() scenario.Accumulator {
	a := &accumulator{m: m, total: measure.NewGroups((*sample).join)}
	n := 0
	m.spec.eachPoint(func(_ *Location, p *Point) {
		n++
		for int(p.Stage) >= len(a.stages) {
			a.stages = append(a.stages, measure.NewGroups((*sample).join))
			a.counts = append(a.counts, 0)
		}
		if p.Stage != NoStage {
			a.counts[p.Stage]++
		}
	})
	if m.spec.windows > 0 {
		a.course = measure.NewCourse(m.spec.Horizon, m.spec.windows, len(m.spec.Locations))
	}
	if n > pointsShown {
		a.sums = make([]sample, n)
		return a
	}
	for range n {
		a.points = append(a.points, measure.NewGroups((*sample).join))
	}
	return a
}

// eachPoint visits all points, in the order of their locations and products.
func (s *Spec) eachPoint(visit func(loc *Location, p *Point)) {
	for i := range s.Locations {
		for k := range s.Locations[i].Points {
			visit(&s.Locations[i], &s.Locations[i].Points[k])
		}
	}
}

// Add reads the reports of one replication.
func (a *accumulator) Add(rep scenario.Replication) error {
	a.replications++
	a.interrupted = a.interrupted || rep.Reached < rep.Horizon
	a.course.Begin(rep.Reached)
	simulated := max(0, rep.Reached-a.m.spec.Warmup)
	total, stages := sample{}, make([]sample, len(a.stages))
	n := 0
	for i := range a.m.spec.Locations {
		loc := &a.m.spec.Locations[i]
		var report []byte
		if id := len(a.m.graph.Simprocs)*i + stockRank; id < len(rep.Reports) {
			report = rep.Reports[id]
		}
		report, err := a.readCourse(i, report)
		if err != nil {
			return fmt.Errorf("supply: replication %d: the report of %s: %w", rep.Index, loc.ID, err)
		}
		if len(report) != reportBytes*len(loc.Points) {
			return fmt.Errorf("supply: replication %d: the report of %s has %d bytes, want %d", rep.Index, loc.ID,
				len(report), reportBytes*len(loc.Points))
		}
		for k := range loc.Points {
			s, err := readSums(report, k)
			if err != nil {
				return fmt.Errorf("supply: replication %d: the report of %s: %w", rep.Index, loc.ID, err)
			}
			x := makeSample(&s, loc.Points[k].Stock, simulated)
			if a.sums != nil {
				a.sums[n].join(&x)
			} else {
				a.points[n].Add(x)
			}
			n++
			total.merge(&x)
			if stage := loc.Points[k].Stage; stage != NoStage {
				stages[stage].merge(&x)
			}
		}
	}
	a.total.Add(total)
	for i := range stages {
		a.stages[i].Add(stages[i])
	}
	return nil
}

// Summary makes estimates of the sums.
func (a *accumulator) Summary() (scenario.Summary, error) {
	if a.replications == 0 {
		return nil, errors.New("supply: no replication to summarize")
	}
	s := a.m.spec
	total := a.total.Close()
	r := &Results{HorizonSeconds: s.Horizon, WarmupSeconds: s.Warmup, PeriodSeconds: s.Period,
		Replications: a.replications, Samples: len(total), Confidence: measure.Confidence, Interrupted: a.interrupted,
		Total: figures(total), Points: []*PointResult{}, name: s.Name, all: max(len(a.sums), len(a.points)),
		sums: a.sums, course: a.course, spec: s}
	for i, g := range a.stages {
		r.Stages = append(r.Stages, &StageResult{Stage: i, Points: a.counts[i], Figures: figures(g.Close())})
	}
	s.eachPoint(func(loc *Location, p *Point) {
		if n := len(r.Points); n < len(a.points) {
			r.Points = append(r.Points, &PointResult{Location: loc.ID, Product: s.Products[p.Product],
				Stage: p.stage(), Figures: figures(a.points[n].Close())})
		}
	})
	return r, nil
}

// stage is the stage of a point, nil where it has none.
func (p *Point) stage() *int {
	if p.Stage == NoStage {
		return nil
	}
	n := int(p.Stage)
	return &n
}
