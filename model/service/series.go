// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

var (
	_ scenario.Serial   = (*Results)(nil)
	_ scenario.Eventful = (*Results)(nil)
)

// What boxes count by windows of simulated time, where time series are asked for: each box the requests that it has
// dropped, and behind them what its role has.
const (
	droppedHere = 0
	boxFields   = 1

	madeHere        = 1 // generator
	generatorFields = 2

	busyCores    = 1 // server, as the next two: cores × time
	readyQueue   = 2 // requests × time
	requestsIn   = 3 // requests × time
	serverFields = 4

	completed       = 0 // of the client's second simproc: requests
	latencySum      = 1 // seconds
	collectorFields = 2

	spreadFields = 300 // what a window's spread of latencies takes, about
)

func fieldsOf(r role) int {
	switch r {
	case generatorRole:
		return generatorFields
	case serverRole:
		return serverFields
	}
	return boxFields
}

// windowFields is how many fields all boxes have together.
func (m *Model) windowFields() int {
	n := collectorFields + spreadFields
	for i := range m.topology.boxes {
		n += fieldsOf(m.topology.boxes[i].role)
	}
	return n
}

// newWindows are those of one simproc, nil where no time series are asked for.
func (m *maker) newWindows(fields int) *measure.Windows {
	if m.windows == 0 {
		return nil
	}
	return measure.NewWindows(m.horizon, m.windows, fields)
}

// closed is what windows have come to at the end of a report's time.
func closed(w *measure.Windows, end float64) []byte {
	w.Reach(end)
	return w.Append(nil)
}

// watched is a server whose levels are recorded. Others have nothing of that: what a call of theirs needs stands close
// together.
type watched struct{ *server }

// Handle records the levels that have held up to now.
func (w *watched) Handle(p *node.Simproc, events []node.Event) error {
	w.record(p.Now())
	return w.server.Handle(p, events)
}

// record files the levels that have held since the last call.
func (s *server) record(now float64) {
	if w, g := s.out.windows, &s.gauges; w != nil {
		w.Over(g.last, now, busyCores, float64(g.level[levelCPU]))
		w.Over(g.last, now, readyQueue, float64(g.level[levelReady]))
		w.Over(g.last, now, requestsIn, float64(g.level[levelWhole]))
	}
}

// takeWindows adds the windows of a report.
func (t *tally) takeWindows(simproc, index, fields int, p *boxReport) error {
	if err := t.course.Read(index, fields, p.Windows); err != nil {
		return fmt.Errorf("the report of %s: %w", t.m.graph.Name(node.SimprocID(simproc)), err)
	}
	return nil
}

// Series implements scenario.Serial: first those of the whole system, then those of each of the first servers.
func (r *Results) Series(yield func(*scenario.Series) bool) {
	c := r.tally.course
	if c == nil {
		return
	}
	edges, seconds := c.Close()
	n, client := len(seconds), len(r.tally.boxes)
	more := func(name, of, unit string, y, x []float64) bool {
		return yield(&scenario.Series{Name: name, Of: of, Unit: unit, Edges: edges,
			Values: measure.Quotients(y[:n], x[:n])})
	}
	done := c.Sums(client, completed)
	if !more("requests", "", "requests/s", c.Sums(nodeGenerator, madeHere), seconds) ||
		!more("throughput", "", "requests/s", done, seconds) ||
		!more("dropped", "", "requests/s", c.Total(0, client, droppedHere), seconds) ||
		!more("latency_mean", "", "s", c.Sums(client, latencySum), done) {
		return
	}
	for i, list := range c.Percentiles(50, 95, 99) {
		if !yield(&scenario.Series{Name: [...]string{"latency_p50", "latency_p95", "latency_p99"}[i], Unit: "s",
			Edges: edges, Values: list[:n]}) {
			return
		}
	}
	r.serverSeries(c, seconds, more)
}

// serverSeries are those of all servers together, and of each.
func (r *Results) serverSeries(c *measure.Course, seconds []float64,
	more func(name, of, unit string, y, x []float64) bool) {
	servers := len(r.spec.Servers)
	first := r.serverNode(0)
	cores := 0.0
	for i := range r.spec.Servers {
		cores += float64(r.spec.Servers[i].Cores)
	}
	each := func(of string, from, to int, cores float64) bool {
		available := make([]float64, len(seconds))
		for k, s := range seconds {
			available[k] = s * cores
		}
		return more("utilisation", of, "", c.Total(from, to, busyCores), available) &&
			more("ready_queue", of, "requests", c.Total(from, to, readyQueue), seconds) &&
			more("requests_in", of, "requests", c.Total(from, to, requestsIn), seconds)
	}
	if !each("", first, first+servers, cores) {
		return
	}
	for i := range min(servers, scenario.SeriesOfMax) {
		if s := &r.spec.Servers[i]; !each(s.ID, first+i, first+i+1, float64(s.Cores)) {
			return
		}
	}
}

// Spans implements scenario.Eventful: outages and spikes.
func (r *Results) Spans() (all []scenario.Span) {
	for _, list := range [][]EventResult{r.Outages, r.Spikes} {
		for _, e := range list {
			all = append(all, scenario.Span{Name: e.ID, From: e.Start, To: e.End, Targets: []string{e.Target}})
		}
	}
	return all
}
