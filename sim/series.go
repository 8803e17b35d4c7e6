// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Serial = (*Results)(nil)

// spreadFields is what a window's spread of values takes, about, in numbers.
const spreadFields = 200

// newWindows are those of a tally of one node, nil where no time series are asked for, or where there are so many nodes
// that nothing is kept by stretches of time.
func (m *Model) newWindows() *measure.Windows {
	if !m.series || m.count > stretchedNodes {
		return nil
	}
	return measure.NewWindows(m.horizon, measure.WindowCount(spreadFields*m.count), 0)
}

// begin makes the windows where there are none yet.
func (t *Tally) begin() {
	if t.windows == nil {
		t.windows = t.n.m.newWindows()
	}
}

// Series implements scenario.Serial: the rate of each counter, the mean of each tally and gauge, and the percentiles
// of tallies that results have. Means and rates are by the stretches that are kept for intervals, or that OverTime asks
// for; they begin where the warm-up ends, and cost a run nothing.
func (r *Results) Series(yield func(*scenario.Series) bool) {
	for _, t := range r.totals {
		e := t.entry
		at := strings.IndexByte(e.name, '/')
		s := &scenario.Series{Name: e.name[at+1:], Of: e.name[:at], Unit: e.unit}
		if e.kind == counterKind {
			s.Unit += "/s"
		}
		if t.all.y != nil && t.all.x != nil {
			t.aligned()
			s.Edges = t.all.x.Edges(r.reached)
			n := len(s.Edges) - 1
			if s.Values = measure.Quotients(t.all.y.Sums()[:n], t.all.x.Sums()[:n]); !yield(s) {
				return
			}
		}
		if !r.percentileSeries(t, s.Name, s.Of, yield) {
			return
		}
	}
}

func (r *Results) percentileSeries(t *total, name, of string, yield func(*scenario.Series) bool) bool {
	w := t.all.windows
	if w == nil {
		return true
	}
	edges := w.Edges(r.reached)
	for _, p := range t.entry.percentiles {
		if !yield(&scenario.Series{Name: name + "." + percentileName(p), Of: of, Unit: t.entry.unit, Edges: edges,
			Values: w.Percentile(p)[:len(edges)-1]}) {
			return false
		}
	}
	return true
}
