// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

var _ scenario.Serial = (*Results)(nil)

// handler is a process as the engine sees it.
type handler interface {
	node.Handler
	node.Saver
	node.Reporter
}

// watched is a process whose events are counted by windows of simulated time. Others have nothing of that, since a
// handler is one cache line.
type watched struct {
	handler
	windows *measure.Windows
}

// watched adds that to a process where time series are asked for.
func (m *Model) watched(h handler) node.Handler {
	if m.windows == 0 {
		return h
	}
	return &watched{h, measure.NewWindows(m.params.End, m.windows, 1)}
}

// Handle counts the events of the call, too.
func (w *watched) Handle(p *node.Simproc, events []node.Event) error {
	w.windows.At(p.Now(), 0, float64(len(events)))
	return w.handler.Handle(p, events)
}

// State is that of the process, and its windows.
func (w *watched) State(p *node.Simproc, c *state.Codec) {
	w.handler.State(p, c)
	w.windows.State(c)
}

// Report is that of the process, and its windows.
func (w *watched) Report(p *node.Simproc) ([]byte, error) {
	b, err := w.handler.Report(p)
	w.windows.Reach(p.Now())
	return w.windows.Append(b), err
}

// Series implements scenario.Serial: the events of all processes.
func (r *Results) Series(yield func(*scenario.Series) bool) {
	if r.course == nil {
		return
	}
	edges, seconds := r.course.Close()
	yield(&scenario.Series{Name: "events", Unit: "events/s", Edges: edges,
		Values: measure.Quotients(r.course.Sums(0, 0)[:len(seconds)], seconds)})
}
