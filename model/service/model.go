// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math/rand/v2"
	"slices"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Noter = (*Model)(nil)

// Model is one service scenario, ready to run: it implements scenario.Scenario.
// It is immutable; every worker makes its own from the same file.
type Model struct {
	spec     *Spec
	topology *topology // the spec's
	graph    *node.Graph
	programs sharedPrograms
}

// New makes the model of a spec of Load's, which must not be changed before or afterwards: Load has
// checked its values and built its topology. It panics where Load hasn't made the spec.
func New(spec *Spec) *Model {
	if spec.topology == nil {
		panic("service: New was given a Spec that Load didn't make: write the scenario as a file, or as bytes for " +
			"scenario.Parse")
	}
	return &Model{spec: spec, topology: spec.topology, graph: spec.topology.graph(spec),
		programs: newSharedPrograms(spec.Servers)}
}

// Name is the scenario's name, for people.
func (m *Model) Name() string { return m.spec.Name }

// Horizon is the simulated time at which the run ends, in seconds.
func (m *Model) Horizon() float64 { return m.spec.Settings.Horizon }

// Notes are remarks on the file, for scenario.Noter.
func (m *Model) Notes() []string { return m.spec.Notes }

// Graph is the scenario's structure: one node a box, with the simprocs request and
// response; every network edge a link of lookahead 0.
func (m *Model) Graph() *node.Graph { return m.graph }

// NewHandler makes the logic of one simproc.
func (m *Model) NewHandler(p *node.Simproc) (node.Handler, error) {
	b, err := m.newLogic(p.NodeIndex(), p.Rank(), p)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return idle{}, nil
	}
	return b, nil
}

// newLogic makes simproc rank of a node; nil where there is nothing to do.
func (m *Model) newLogic(n, rank int, h host) (logic, error) {
	t := m.topology
	if !t.busy(n, rank) {
		return nil, nil
	}
	if rank == rankResponse {
		return &collector{audit: newAudit(),
			recorder: newRecorder(timeline.NewSpans(m.events(), h.Horizon()), h.Horizon())}, nil
	}
	var b logic
	var out *outbox
	switch at := &t.boxes[n]; at.role {
	case generatorRole:
		g := m.newGenerator(h)
		b, out = g, &g.out
	case clientRole:
		f := &forwarder{}
		b, out = f, &f.out
	case balancerRole:
		f := &balancer{changes: t.changes(m.spec, n)}
		b, out = f, &f.out
	case serverRole:
		s := m.newServer(at.index, h)
		b, out = s, &s.out
	}
	if err := m.fillOutbox(out, n, h); err != nil {
		return nil, err
	}
	if f, ok := b.(*balancer); ok {
		f.list = newList(m.spec.Balancers[t.boxes[n].index].Algorithm, &f.out)
	}
	return b, nil
}

func newList(algorithm string, out *outbox) list {
	if algorithm == LeastConnection {
		out.least = newLeastIndex(out.edges)
		return out.least
	}
	return newRotation(len(out.edges))
}

func (m *Model) newGenerator(h host) *generator {
	w := m.spec.Workload
	return &generator{
		users: newSampler(w.Users, h.Source("users")), gaps: generatorOf(h.Source("arrivals")),
		rate:   w.RequestsPerMinute / 60,
		window: w.SamplingWindow, horizon: h.Horizon(),
	}
}

func (m *Model) newServer(index int, h host) *server {
	spec := &m.spec.Servers[index]
	s := &server{
		self: h.ID(), cores: int32(spec.Cores), ramTotal: inRAMUnits(spec.RAM), horizonTime: h.Horizon(),
		programs: m.programs.of(spec.Endpoints, h),
	}
	s.byEndpoint, s.slots, s.out.edges = s.requests[:], s.firstSlots[:0], s.edge[:0]
	if n := len(spec.Endpoints); n > 1 {
		s.byEndpoint, s.choice = make([]int64, n), rand.New(h.Source("endpoint"))
	}
	s.out.passages.Use(s.passages[:0])
	s.gauges.ticks = newTicks(m.spec.Settings.SamplePeriod, m.sampling())
	if invariants.Enabled {
		s.audit = &serverAudit{}
	}
	return s
}

// fillOutbox makes the edges that leave node n.
func (m *Model) fillOutbox(o *outbox, n int, h host) error {
	b := &m.topology.boxes[n]
	*o = outbox{
		edges: o.edges, passages: o.passages, box: b.id, horizon: h.Horizon(), audit: newAudit(),
		ticks: newTicks(m.spec.Settings.SamplePeriod, m.sampling()),
	}
	if invariants.Enabled {
		o.books = make([]ledger, len(b.out))
	}
	o.edges = slices.Grow(o.edges, len(b.out))
	for _, i := range b.out {
		spec := &m.spec.Edges[i]
		link, err := h.LinkTo(m.topology.link(i).To)
		if err != nil {
			return err
		}
		e := edge{
			link: link, latency: newSampler(spec.Latency, h.Source("edge/"+spec.ID+"/transit")),
			dropout: spec.Dropout, chance: generatorOf(h.Source("edge/" + spec.ID + "/dropout")),
		}
		if touching := m.touching(i); len(touching) > 0 {
			c := timeline.NewSpans(touching, h.Horizon()).Cursor()
			e.events = &edgeEvents{
				extra: timeline.NewSteps(m.spikesOn(i), timeline.Sum).Reader(), spans: c,
				sent: make([]int64, c.Count()), passed: make([]int64, c.Count()), transit: make([]float64, c.Count()),
			}
		}
		o.edges = append(o.edges, e)
	}
	return nil
}

// events are the times of all outages and spikes.
func (m *Model) events() []timeline.Window {
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

// sampling reports whether the file enables any sampled metric.
func (m *Model) sampling() bool { return len(m.spec.Settings.Sampled) > 0 }
