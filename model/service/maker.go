// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
)

// maker makes the boxes of a scenario. What it needs of one is asked for when it is made: workers have only that
// (pack.go), and not the scenario.
type maker struct {
	common
	boxes  func(n int) (boxSpec, error)
	shared [][]program // by list: its programs, nil where something is drawn

	reporter reporter // memory for the boxes' reports: a maker and its boxes belong to one worker
}

// common is what making any box may take.
type common struct {
	name      string
	horizon   float64 // seconds
	warmup    float64 // seconds that aren't counted
	users     Dist    // as the rest of these: Workload
	perMinute float64
	window    float64
	period    float64 // of sampling, seconds
	sampling  bool
	events    []timeline.Window // all outages and spikes
	windows   int               // of each box, for time series; 0: none are recorded
	lists     [][]Endpoint      // the different lists of endpoints that servers have
}

// boxSpec is what making one box takes beside that.
type boxSpec struct {
	id      string
	role    role
	least   bool     // of a balancer: LeastConnection
	changes []change // likewise
	cores   int32    // of a server
	ram     float64  // likewise, MB
	list    int32    // likewise, of common.lists
	edges   []edgeSpec
}

// edgeSpec is one edge that leaves a box.
type edgeSpec struct {
	id       string
	to       node.Endpoint
	latency  Dist
	dropout  float64
	spikes   []timeline.Piece  // with the seconds that they add
	touching []timeline.Window // all events that matter to it
}

// share makes the programs that have nothing to draw, which nothing writes to: thousands of
// servers that are written alike have one list of them, in memory that is near for all.
func (m *maker) share() {
	m.shared = make([][]program, len(m.lists))
	for i, endpoints := range m.lists {
		if allConstant(endpoints) {
			m.shared[i] = makePrograms(endpoints, nil)
		}
	}
}

// Horizon is the simulated time at which the run ends, in seconds.
func (m *maker) Horizon() float64 { return m.horizon }

// NewHandler makes the logic of one simproc.
func (m *maker) NewHandler(p *node.Simproc) (node.Handler, error) {
	b, err := m.newLogic(p.NodeIndex(), p.Rank(), p)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return idle{}, nil
	}
	if s, ok := b.(*server); ok && s.out.windows != nil {
		return &watched{s}, nil
	}
	return b, nil
}

// newLogic makes simproc rank of a node; nil where there is nothing to do.
func (m *maker) newLogic(n, rank int, h host) (logic, error) {
	if !busy(n, rank) {
		return nil, nil
	}
	if rank == rankResponse {
		return m.newCollector(h), nil
	}
	at, err := m.boxes(n)
	if err != nil {
		return nil, err
	}
	var b logic
	var out *outbox
	switch at.role {
	case generatorRole:
		g := m.newGenerator(h)
		b, out = g, &g.out
	case clientRole:
		f := &forwarder{}
		b, out = f, &f.out
	case balancerRole:
		f := &balancer{changes: at.changes}
		b, out = f, &f.out
	case serverRole:
		s := m.newServer(&at, h)
		b, out = s, &s.out
	}
	if err := m.fillOutbox(out, &at, h); err != nil {
		return nil, err
	}
	if f, ok := b.(*balancer); ok {
		f.list = newList(at.least, &f.out)
	}
	return b, nil
}

func (m *maker) newCollector(h host) *collector {
	return &collector{audit: newAudit(), warm: warmFrom(m.warmup, 0), windows: m.newWindows(collectorFields),
		recorder: newRecorder(m.spans(h.Horizon()), h.Horizon())}
}

// spans are those by which latencies are kept. One of them begins at the end of the warm-up.
func (m *common) spans(horizon float64) timeline.Spans {
	s := timeline.NewSpans(m.events, horizon)
	if m.warmup > 0 && m.warmup < horizon {
		s = s.Divided(m.warmup)
	}
	return s
}

func newList(least bool, out *outbox) list {
	if least {
		out.full, out.batch = 1, nil // what it asks for is always known
		out.least = newLeastIndex(out.accounts)
		return out.least
	}
	return newRotation(len(out.edges))
}

func (m *maker) newGenerator(h host) *generator {
	return &generator{
		users: newSampler(m.users, streamOf(h, "users")), gaps: *streamOf(h, "arrivals"),
		rate:   m.perMinute / 60,
		window: m.window, horizon: h.Horizon(),
	}
}

func (m *maker) newServer(at *boxSpec, h host) *server {
	s := &server{
		self: h.ID(), cores: at.cores, ramTotal: inRAMUnits(at.ram),
		programs: m.shared[at.list],
	}
	if s.programs == nil {
		s.programs = makePrograms(m.lists[at.list], h)
	}
	s.byEndpoint, s.slots = s.requests[:], s.firstSlots[:0]
	s.out.edges, s.out.accounts, s.out.log = s.edge[:0], s.account[:0], s.log[:0]
	if n := len(s.programs); n > 1 {
		s.byEndpoint, s.choice = make([]int64, n), streamOf(h, "endpoint")
	}
	s.out.passages.Use(s.passages[:0])
	s.gauges.ticks, s.gauges.warm = newTicks(m.period, m.sampling, m.warmup), warmFrom(m.warmup, 0)
	return s
}

// fillOutbox makes the edges that leave a box.
func (m *maker) fillOutbox(o *outbox, at *boxSpec, h host) error {
	*o = outbox{
		edges: o.edges, log: o.log, accounts: o.accounts, passages: o.passages, box: at.id, horizon: h.Horizon(),
		audit: newAudit(), ticks: newTicks(m.period, m.sampling, m.warmup), reporter: &m.reporter,
		warm: warmFrom(m.warmup, 0), windows: m.newWindows(fieldsOf(at.role)),
	}
	if invariants.Enabled {
		o.audit.books, o.audit.server = make([]ledger, len(at.edges)), &serverAudit{}
	}
	o.edges, o.accounts = slices.Grow(o.edges, len(at.edges)), slices.Grow(o.accounts, len(at.edges))
	if m.warmup > 0 {
		o.carried = make([]int64, len(at.edges))
	}
	o.sampled = o.alone[:0]
	if o.full = int32(cap(o.log)); o.log == nil {
		o.full, o.batch = logOfMany, &batch{}
	}
	for i := range at.edges {
		spec := &at.edges[i]
		link, err := h.LinkTo(spec.to)
		if err != nil {
			return err
		}
		e := edge{link: link, dropout: spec.dropout}
		if spec.latency.Kind == Constant {
			e.latency = newSampler(spec.latency, nil)
		} else {
			e.latency = newSampler(spec.latency, streamOf(h, "edge/"+spec.id+"/transit"))
		}
		var a account
		if spec.dropout > 0 { // a million streams that nobody draws from would take a second to seed
			a.chance = *streamOf(h, "edge/"+spec.id+"/dropout")
		}
		if len(spec.touching) > 0 {
			c := timeline.NewSpans(spec.touching, h.Horizon()).Cursor()
			e.events = &edgeEvents{
				extra: timeline.NewSteps(spec.spikes, timeline.Sum).Reader(), spans: c,
				sent: make([]int64, c.Count()), passed: make([]int64, c.Count()), transit: make([]float64, c.Count()),
			}
		}
		o.edges, o.accounts = append(o.edges, e), append(o.accounts, a)
	}
	return nil
}
