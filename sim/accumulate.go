// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"math"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

// Accumulate implements scenario.Scenario.
func (m *Model) Accumulate() scenario.Accumulator {
	a := &accumulator{m: m}
	if a.err = m.Check(); a.err != nil {
		return a
	}
	for _, e := range m.schema.entries {
		t := &total{entry: e, samples: measure.NewGroups((*sample).join)}
		if e.perNode {
			t.perNode = make([]nodeTotal, 0, e.nodes)
		}
		a.totals = append(a.totals, t)
	}
	return a
}

// accumulator adds up replications.
type accumulator struct {
	m            *Model
	err          error
	totals       []*total // by entry of the schema
	replications int
	samples      int // independent ones: replications, or pairs of antithetic ones
	last         int // index of the last replication
	interrupted  bool
	reached      float64 // by the replication that has come farthest
}

// total is all that one statistic has measured.
type total struct {
	entry   *schemaEntry
	all     amounts
	rep     amounts // of the replication at hand
	half    sample  // of the first of an antithetic pair
	paired  bool    // half is one
	samples *measure.Groups[sample]
	perNode []nodeTotal
	visited int // nodes of the replication at hand
}

// sample is what one replication, or a pair, or a group of them has measured: independent of others.
type sample struct {
	sum, weight float64
	values      *measure.Values // nil but for a tally
}

func (s *sample) join(o *sample) {
	s.sum += o.sum
	s.weight += o.weight
	if s.values != nil {
		s.values.Merge(o.values)
	}
}

// nodeTotal is what one node of a group has measured, in short.
type nodeTotal struct {
	name             string
	sum, weight      float64
	moments          measure.Moments
	least, top, last float64
	gauges           int
}

// Add implements scenario.Accumulator.
func (a *accumulator) Add(rep scenario.Replication) error {
	if a.err != nil {
		return a.err
	}
	m := a.m
	for id, list := range m.schema.lists {
		name := func() string { return m.nodeName(id / len(m.layers)) }
		var report []byte
		if id < len(rep.Reports) {
			report = rep.Reports[id]
		}
		err := m.schema.read(m, report, list, func(e *schemaEntry, x *amounts) {
			a.totals[e.number].addNode(name, x)
		})
		if err != nil {
			return fmt.Errorf("sim: replication %d: the report of %s: %w", rep.Index, name(), err)
		}
	}
	// Of a pair whose other half is missing the sample is a single replication.
	second := m.antithetic && rep.Index%2 == 1 && a.replications > 0 && a.last == rep.Index-1
	for _, t := range a.totals {
		t.endReplication(m.antithetic && rep.Index%2 == 0, second)
	}
	if !second {
		a.samples++
	}
	a.replications++
	a.last = rep.Index
	a.interrupted = a.interrupted || rep.Reached < rep.Horizon
	a.reached = max(a.reached, rep.Reached)
	return nil
}

// addNode takes in what a node has measured.
func (t *total) addNode(name func() string, x *amounts) {
	if t.entry.perNode {
		if t.visited == len(t.perNode) {
			t.perNode = append(t.perNode, nodeTotal{name: name()})
		}
		t.perNode[t.visited].add(x)
	}
	t.visited++
	t.rep.merge(x)
}

func (n *nodeTotal) add(x *amounts) {
	n.sum += x.sum
	n.weight += x.weight
	n.moments.Merge(&x.values.Moments)
	if n.gauges == 0 {
		n.least, n.top = x.least, x.top
	}
	n.least, n.top = min(n.least, x.least), max(n.top, x.top)
	n.last += x.last
	n.gauges += x.gauges
}

// endReplication makes a sample of the replication at hand, or a half of one.
func (t *total) endReplication(first, second bool) {
	s := sample{sum: t.rep.sum, weight: t.rep.weight}
	if t.entry.kind == tallyKind {
		s.values = &measure.Values{}
		s.values.Merge(&t.rep.values)
	}
	if t.paired && !second {
		t.samples.Add(t.half)
	}
	if second {
		t.half.join(&s)
		s = t.half
	}
	t.half, t.paired = s, first
	if !first {
		t.samples.Add(s)
	}
	t.all.merge(&t.rep)
	t.rep, t.visited = amounts{}, 0
}

// close are all samples.
func (t *total) close() []sample {
	if t.paired {
		t.samples.Add(t.half)
		t.paired = false
	}
	return t.samples.Close()
}

// ratio is the interval of sum over weight: over samples, or of a single one over stretches of its time.
func (t *total) ratio(list []sample) *measure.Interval {
	var series []measure.Series
	for _, s := range list {
		series = append(series, measure.Series{Y: []float64{s.sum}, X: []float64{s.weight}})
	}
	if len(list) == 1 && t.all.y != nil && t.all.x != nil {
		y, x := t.aligned()
		series[0] = measure.Series{Y: y, X: x}
	}
	i, ok := measure.Ratio(series)
	if !ok {
		return nil
	}
	if t.entry.kind == counterKind || t.all.values.Min >= 0 && t.all.least >= 0 {
		i = i.Clip(math.Inf(1))
	}
	return &i
}

// aligned are sums and weights by stretches of one length, as far as there were any.
func (t *total) aligned() (y, x []float64) {
	t.all.y.Coarsen(t.all.x.Doublings())
	t.all.x.Coarsen(t.all.y.Doublings())
	y, x = t.all.y.Sums(), t.all.x.Sums()
	for len(x) > 0 && x[len(x)-1] == 0 {
		y, x = y[:len(x)-1], x[:len(x)-1]
	}
	return y, x
}

// Summary implements scenario.Accumulator.
func (a *accumulator) Summary() (scenario.Summary, error) {
	if a.err != nil {
		return nil, a.err
	}
	if a.replications == 0 {
		return nil, errors.New("sim: no replication to summarize")
	}
	r := &Results{
		m: a.m, Model: a.m.name, HorizonSeconds: a.m.horizon, WarmupSeconds: a.m.warmup, Replications: a.replications,
		Samples: a.samples, Antithetic: a.m.antithetic, Confidence: measure.Confidence, Interrupted: a.interrupted,
	}
	for _, t := range a.totals {
		s := t.result(a.m)
		if s.Kind == kindNames[counterKind] {
			s.figure = float64(*s.Total) / float64(a.replications)
		}
		r.Statistics = append(r.Statistics, s)
	}
	if a.m.series {
		r.totals, r.reached = a.totals, a.reached
	}
	return r, nil
}
