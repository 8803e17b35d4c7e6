// SPDX-License-Identifier: Apache-2.0

package devstone

import (
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

var _ scenario.Serial = (*Results)(nil)

// What a component counts by windows of simulated time, where time series are asked for.
const (
	transitions = iota
	messages
	fields
)

// watched is a component that does so.
type watched struct {
	*atomic
	windows *measure.Windows
}

// Handle counts what the call has counted, too.
func (w *watched) Handle(p *node.Simproc, events []node.Event) error {
	before := w.transitions
	err := w.atomic.Handle(p, events)
	w.windows.At(p.Now(), transitions, float64(w.transitions-before))
	w.windows.At(p.Now(), messages, float64(len(events)))
	return err
}

// State is that of the component, and its windows.
func (w *watched) State(p *node.Simproc, c *state.Codec) {
	w.atomic.State(p, c)
	w.windows.State(c)
}

// Report is that of the component, and its windows.
func (w *watched) Report(p *node.Simproc) ([]byte, error) {
	b, err := w.atomic.Report(p)
	w.windows.Reach(p.Now())
	return w.windows.Append(b), err
}

// Series implements scenario.Serial: what all components have done.
func (r *Results) Series(yield func(*scenario.Series) bool) {
	if r.course == nil {
		return
	}
	edges, seconds := r.course.Close()
	for field, name := range []string{"transitions", "messages"} {
		if !yield(&scenario.Series{Name: name, Unit: name + "/s", Edges: edges,
			Values: measure.Quotients(r.course.Sums(0, field)[:len(seconds)], seconds)}) {
			return
		}
	}
}
