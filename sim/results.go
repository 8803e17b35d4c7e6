// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/disco-sim/disco/model/measure"
)

// Results is what a run of a model has measured: the "results" of its JSON. docs/sim.md has the fields.
type Results struct {
	Model          string
	HorizonSeconds float64 // of one replication
	WarmupSeconds  float64 // of it not counted
	Replications   int
	Samples        int // independent ones: pairs where replications are antithetic
	Antithetic     bool
	Confidence     float64 // of the intervals
	Interrupted    bool    // some replication didn't reach the horizon
	Statistics     []*Statistic

	m       *Model
	totals  []*total // of Statistics; nil: no time series were asked for
	reached float64  // by the replication that has come farthest
}

// Statistic is the result of one, over all nodes that one setup function made and over all replications. What there
// is none of is nil: a Counter has Total and Rate, a Tally and a Gauge have Mean.
type Statistic struct {
	Name  string `json:"-"` // front/wait, with the name of the node or group in front
	Kind  string `json:"kind"`
	Unit  string `json:"unit"`
	Doc   string `json:"doc,omitempty"`
	Nodes int    `json:"nodes"` // that it was merged over

	Total *float64          `json:"total,omitempty"` // of all replications
	Rate  *measure.Interval `json:"rate_per_s,omitempty"`

	Count  *int64            `json:"count,omitempty"` // values of a tally
	Mean   *measure.Interval `json:"mean,omitempty"`
	StdDev *float64          `json:"stddev,omitempty"`
	Min    *float64          `json:"min,omitempty"`
	Max    *float64          `json:"max,omitempty"`
	End    *float64          `json:"end,omitempty"` // of a gauge: mean of the values at the end

	Percentiles ordered[*measure.Interval] `json:"percentiles,omitzero"`
	Histogram   *HistogramResult           `json:"histogram,omitempty"`
	OverTime    *Development               `json:"over_time,omitempty"`
	PerNode     ordered[*NodeFigures]      `json:"per_node,omitzero"`

	figure float64   // the one number that stands for it; NaN: none
	shown  []float64 // percentiles that the text has columns for
}

// HistogramResult counts values by bins of one width.
type HistogramResult struct {
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Below  int64   `json:"below"`
	Above  int64   `json:"above"` // high itself, too
	Counts []int64 `json:"counts"`
}

// Development is how a statistic develops: the rate of a counter, the mean of others, in stretches of one length.
type Development struct {
	From   float64    `json:"from_s"` // where the first begins
	Step   float64    `json:"step_s"` // length of each; the last may have ended early
	Values []*float64 `json:"values"` // null: there were no values
}

// NodeFigures are those of one node of a group.
type NodeFigures struct {
	Total  *float64 `json:"total,omitempty"`
	Rate   *float64 `json:"rate_per_s,omitempty"`
	Count  *int64   `json:"count,omitempty"`
	Mean   *float64 `json:"mean,omitempty"`
	StdDev *float64 `json:"stddev,omitempty"`
	Min    *float64 `json:"min,omitempty"`
	Max    *float64 `json:"max,omitempty"`
	End    *float64 `json:"end,omitempty"`
}

// Statistic is the one of a full name, such as front/wait; nil where there is none.
func (r *Results) Statistic(name string) *Statistic {
	for _, s := range r.Statistics {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Figure is the number that stands for a statistic: the mean of a tally or a gauge, what a counter has counted in a
// replication on average. NaN where there is none.
func (r *Results) Figure(name string) float64 {
	if s := r.Statistic(name); s != nil {
		return s.figure
	}
	return math.NaN()
}

// Percentile is that of a tally and a percent which its declaration asks for; nil where there is none.
func (s *Statistic) Percentile(percent float64) *measure.Interval {
	return s.Percentiles.of(percentileName(percent))
}

// Node is what a node of a group has measured by itself; nil where results don't have that.
func (s *Statistic) Node(name string) *NodeFigures { return s.PerNode.of(name) }

func percentileName(p float64) string { return "p" + strconv.FormatFloat(p, 'f', -1, 64) }

// ordered is a JSON object whose fields have an order.
type ordered[T any] struct {
	names  []string
	values []T
}

func (o *ordered[T]) add(name string, value T) {
	o.names, o.values = append(o.names, name), append(o.values, value)
}

func (o *ordered[T]) of(name string) (none T) {
	for i, n := range o.names {
		if n == name {
			return o.values[i]
		}
	}
	return none
}

// IsZero leaves the object out where it is empty.
func (o ordered[T]) IsZero() bool { return len(o.names) == 0 }

// MarshalJSON implements json.Marshaler.
func (o ordered[T]) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range o.names {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(o.values[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(append(append(key, ':'), value...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// MarshalJSON writes the results: figures has one number for each statistic, statistics has all there is.
func (r *Results) MarshalJSON() ([]byte, error) {
	var figures ordered[*float64]
	var statistics ordered[*Statistic]
	for _, s := range r.Statistics {
		figures.add(s.Name, finite(s.figure))
		statistics.add(s.Name, s)
	}
	return json.Marshal(struct {
		Model        string              `json:"model"`
		Horizon      float64             `json:"horizon_s"`
		Warmup       float64             `json:"warmup_s"`
		Replications int                 `json:"replications"`
		Samples      int                 `json:"samples"`
		Antithetic   bool                `json:"antithetic"`
		Confidence   float64             `json:"confidence_level"`
		Interrupted  bool                `json:"interrupted"`
		Figures      ordered[*float64]   `json:"figures"`
		Statistics   ordered[*Statistic] `json:"statistics"`
	}{r.Model, r.HorizonSeconds, r.WarmupSeconds, r.Replications, r.Samples, r.Antithetic, r.Confidence, r.Interrupted,
		figures, statistics})
}

// finite is x, nil where JSON has no number for it.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// result is what the text and the JSON have of a statistic.
func (t *total) result(m *Model) *Statistic {
	e, a := t.entry, &t.all
	s := &Statistic{Name: e.name, Kind: kindNames[e.kind], Unit: e.unit, Doc: e.doc, Nodes: e.nodes,
		figure: math.NaN()}
	list := t.close()
	ratio := t.ratio(list)
	switch e.kind {
	case counterKind:
		s.Total, s.Rate = &a.sum, ratio
	case tallyKind:
		s.Count, s.Mean = &a.values.Count, ratio
		if a.values.Count > 0 {
			s.StdDev, s.Min, s.Max = finite(a.values.StdDev()), &a.values.Min, &a.values.Max
			t.percentiles(s, list)
		}
		s.Histogram = t.histogram()
	case gaugeKind:
		s.Mean, s.Min, s.Max, s.End = ratio, &a.least, &a.top, finite(a.last/float64(a.gauges))
	}
	if s.Mean != nil {
		s.figure = s.Mean.Mean
	}
	if e.stretches > 0 {
		s.OverTime = t.development(m)
	}
	for i := range t.perNode {
		n := &t.perNode[i]
		s.PerNode.add(n.name, n.figures(e))
	}
	return s
}

func (t *total) percentiles(s *Statistic, list []sample) {
	samples := make([]*measure.Values, len(list))
	for i := range list {
		samples[i] = list[i].values
	}
	s.shown = t.entry.percentiles
	if slices.Equal(s.shown, percentilesDefault) {
		s.shown = []float64{50, 95, 99}
	}
	for _, p := range t.entry.percentiles {
		s.Percentiles.add(percentileName(p), t.all.values.Interval(p, samples))
	}
}

// histogram puts the values into the bins that were asked for. Where a bucket lies across the end of a bin, its
// number that is nearest to 0 decides.
func (t *total) histogram() *HistogramResult {
	e := t.entry
	if e.bins == 0 {
		return nil
	}
	h := &HistogramResult{Low: e.low, High: e.high, Counts: make([]int64, e.bins)}
	t.all.values.Buckets(func(low, high float64, count int64) bool {
		x := low
		if math.Abs(high) < math.Abs(low) {
			x = high
		}
		switch {
		case x < e.low:
			h.Below += count
		case x >= e.high:
			h.Above += count
		default:
			i := int((x - e.low) / (e.high - e.low) * float64(e.bins))
			h.Counts[min(i, e.bins-1)] += count
		}
		return true
	})
	return h
}

// development joins the stretches that intervals need to those that were asked for.
func (t *total) development(m *Model) *Development {
	d := &Development{From: m.warmup, Values: []*float64{}}
	if t.all.y == nil || t.all.x == nil {
		return d
	}
	y, x := t.aligned()
	join := t.entry.count(m) / t.entry.stretches
	d.Step = t.all.x.Length() * float64(join)
	for k := 0; k < len(x); k += join {
		sum, weight := 0.0, 0.0
		for i := k; i < min(k+join, len(x)); i++ {
			sum, weight = sum+y[i], weight+x[i]
		}
		d.Values = append(d.Values, finite(sum/weight))
	}
	return d
}

func (n *nodeTotal) figures(e *schemaEntry) *NodeFigures {
	f := &NodeFigures{}
	switch e.kind {
	case counterKind:
		f.Total, f.Rate = &n.sum, finite(n.sum/(n.weight*float64(e.nodes)))
	case tallyKind:
		f.Count = &n.moments.Count
		if n.moments.Count > 0 {
			f.Mean, f.StdDev = &n.moments.Mean, finite(n.moments.StdDev())
			f.Min, f.Max = &n.moments.Min, &n.moments.Max
		}
	case gaugeKind:
		f.Mean, f.Min, f.Max = finite(n.sum/n.weight), &n.least, &n.top
		f.End = finite(n.last / float64(n.gauges))
	}
	return f
}
