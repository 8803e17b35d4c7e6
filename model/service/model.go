// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

var (
	_ scenario.Noter    = (*Model)(nil)
	_ scenario.Packer   = (*Model)(nil)
	_ scenario.Streamer = (*Results)(nil)
	_ scenario.Settler  = (*Model)(nil)
)

// Model is one service scenario, ready to run: it implements scenario.Scenario.
// It is immutable.
type Model struct {
	maker
	spec     *Spec
	topology *topology // the spec's
	graph    *node.Graph
	touched  map[int]bool // edges that events touch
	lists    []int32      // by server: which of maker.lists its endpoints are
}

// New makes the model of a spec of Load's, which must not be changed before or afterwards: Load has
// checked its values and built its topology. It panics where Load hasn't made the spec.
func New(spec *Spec) *Model {
	if spec.topology == nil {
		panic("service: New was given a Spec that Load didn't make: write the scenario as a file, or as bytes for " +
			"scenario.Parse")
	}
	m := &Model{spec: spec, topology: spec.topology, graph: spec.topology.graph(spec), touched: make(map[int]bool)}
	for _, o := range spec.Outages {
		m.touched[o.Edge] = true
	}
	for _, s := range spec.Spikes {
		m.touched[s.Edge] = true
	}
	m.maker = maker{boxes: m.box, common: common{horizon: spec.Settings.Horizon,
		warmup: spec.Settings.Warmup, users: spec.Workload.Users,
		perMinute: spec.Workload.RequestsPerMinute, window: spec.Workload.SamplingWindow, events: m.allEvents(),
		period: spec.Settings.SamplePeriod, sampling: len(spec.Settings.Sampled) > 0}}
	if spec.Series {
		m.windows = measure.WindowCount(m.windowFields())
	}
	m.lists, m.maker.lists = endpointLists(spec.Servers)
	m.share()
	return m
}

// Name is the scenario's name, for people.
func (m *Model) Name() string { return m.spec.Name }

// Warmup is the simulated time before which nothing is counted, in seconds.
func (m *Model) Warmup() float64 { return m.warmup }

// Settles implements scenario.Settler.
func (m *Model) Settles() bool { return m.spec.Settings.Settles }

// Course implements scenario.Settler.
func (m *Model) Course(s *scenario.Series) bool {
	return s.Of == "" && (s.Name == "latency_mean" || s.Name == "requests_in")
}

// Memory is what the nodes take, nearly all of which are servers where there are many.
func (m *Model) Memory() scenario.Memory {
	series := 0
	if m.windows > 0 {
		series = measure.WindowBytes(m.windows, serverFields)
	}
	return scenario.Memory{NodeBytes: serverBytes + series, ResultBytes: resultBytes + series,
		PackedBytes: packedBytes * int64(len(m.topology.boxes))}
}

// Of a server with one endpoint, few steps and a few requests in it, measured (docs/running.md, "Refused beforehand").
const (
	serverBytes = 1600 // what it takes, with their events
	packedBytes = 160  // of Pack
	resultBytes = 420  // of its report and its sums and those of two edges, 900 in all, beyond those of two simprocs
)

// Notes are remarks on the file, for scenario.Noter.
func (m *Model) Notes() []string { return m.spec.Notes }

// Graph is the scenario's structure: one node a box, with the simprocs request and
// response; every network edge a link of lookahead 0.
func (m *Model) Graph() *node.Graph { return m.graph }

// box is what making box n takes.
func (m *Model) box(n int) (boxSpec, error) {
	at := &m.topology.boxes[n]
	b := boxSpec{id: at.id, role: at.role}
	switch at.role {
	case balancerRole:
		b.least, b.changes = m.spec.Balancers[at.index].Algorithm == LeastConnection, m.topology.changes(m.spec, n)
	case serverRole:
		s := &m.spec.Servers[at.index]
		b.cores, b.ram, b.list = int32(s.Cores), s.RAM, m.lists[at.index]
	}
	b.edges = make([]edgeSpec, len(at.out))
	for k, i := range at.out {
		e := &m.spec.Edges[i]
		b.edges[k] = edgeSpec{id: e.ID, to: m.topology.link(i).To, latency: e.Latency, dropout: e.Dropout}
		if m.touched[i] {
			b.edges[k].spikes, b.edges[k].touching = m.spikesOn(i), m.touching(i)
		}
	}
	return b, nil
}

// allEvents are the times of all outages and spikes.
func (m *Model) allEvents() []timeline.Window {
	var ws []timeline.Window
	for _, o := range m.spec.Outages {
		ws = append(ws, timeline.Window{From: o.Start, To: o.End})
	}
	for _, s := range m.spec.Spikes {
		ws = append(ws, timeline.Window{From: s.Start, To: s.End})
	}
	return ws
}

// touching are the times of the spikes on an edge and of the outages that take it
// out of its balancer's list.
func (m *Model) touching(edge int) []timeline.Window {
	var ws []timeline.Window
	for _, s := range m.spikesOn(edge) {
		ws = append(ws, s.Window)
	}
	for _, o := range m.spec.Outages {
		if o.Edge == edge {
			ws = append(ws, timeline.Window{From: o.Start, To: o.End})
		}
	}
	return ws
}

// spikesOn are the spikes on an edge, with the seconds that they add.
func (m *Model) spikesOn(edge int) []timeline.Piece {
	var on []timeline.Piece
	for _, s := range m.spec.Spikes {
		if s.Edge == edge {
			on = append(on, timeline.Piece{Window: timeline.Window{From: s.Start, To: s.End}, Value: s.Extra})
		}
	}
	return on
}
