// SPDX-License-Identifier: Apache-2.0

package network

import (
	"sync"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Kind is the "network" kind of scenario, for a scenario.Registry.
func Kind() scenario.Kind {
	return scenario.Kind{Name: KindName, Load: scenario.Loader(Load, New), Unpack: unpack, References: references,
		Varies: varies, About: about}
}

var (
	_ scenario.Packer  = (*Model)(nil)
	_ scenario.Sizer   = (*Model)(nil)
	_ scenario.Settler = (*Model)(nil)
)

// perFlowMax is the number of flows up to which each has percentiles: a histogram
// takes about a kilobyte.
const perFlowMax = 1 << 16

// Model is one network scenario, ready to run: it implements scenario.Scenario. It may be used by several goroutines.
type Model struct {
	maker
	graph     *node.Graph
	flowsFrom [][]int32 // by node: flows that begin there
	flowsTo   [][]int32 // by node: flows that end there
}

// maker makes the routers of a scenario. Each works out its routes over the whole network, so every worker has all of
// that, and what happens to it; of flows it has only those that begin at nodes which it hosts, and where all of them
// end (pack.go).
type maker struct {
	spec    *Spec     // in workers without Flows
	metric  []float64 // by channel
	perFlow bool      // flows have percentiles
	ends    []byte    // by flow: u32 its end, u32 its index among the flows that end there
	ending  []int32   // by node: how many flows end there
	starts  func(n int) ([]flowStart, error)

	// The schedule of the last replication asked for: the same for all nodes.
	mutex sync.Mutex
	key   [2]uint64
	last  *schedule
}

// New makes the model of a spec of Load's, which must not be changed afterwards.
func New(spec *Spec) *Model {
	n := len(spec.Topology.Nodes)
	m := &Model{flowsFrom: make([][]int32, n), flowsTo: make([][]int32, n)}
	m.spec, m.metric, m.perFlow = spec, spec.metric(), len(spec.Flows) <= perFlowMax
	m.ends, m.ending, m.starts = make([]byte, 0, flowEndBytes*len(spec.Flows)), make([]int32, n), m.startsAt
	for i := range spec.Flows {
		f := &spec.Flows[i]
		m.ends = le.AppendUint32(le.AppendUint32(m.ends, uint32(f.To)), uint32(m.ending[f.To]))
		m.ending[f.To]++
		m.flowsFrom[f.From] = append(m.flowsFrom[f.From], int32(i))
		m.flowsTo[f.To] = append(m.flowsTo[f.To], int32(i))
	}
	if spec.Series {
		spec.windows = measure.WindowCount(spreadFields + len(spec.Topology.Nodes)*routerFields +
			len(spec.Topology.Channels)*channelFields)
	}
	m.makeGraph()
	return m
}

// Name is the scenario's name, for people.
func (m *maker) Name() string { return m.spec.Name }

// Horizon is the simulated time at which the run ends, in seconds.
func (m *maker) Horizon() float64 { return m.spec.Horizon }

// Notes are remarks for the person who wrote the files, one line each: edges that are
// left out, flows without a way.
func (m *Model) Notes() []string { return m.spec.Notes }

// Memory is what the routers take, whose routes are the larger part where there are many of them, and the network,
// which every worker has. The packets under way aren't known.
func (m *Model) Memory() scenario.Memory {
	t := m.spec.Topology
	nodes, cables, channels, flows := len(t.Nodes), len(t.Cables), len(t.Channels), len(m.spec.Flows)
	flow, series := flowBytes, 0
	if m.perFlow {
		flow += histogramBytes
	}
	if w := m.spec.windows; w > 0 {
		channels, nodes := channels*measure.WindowBytes(w, channelFields), nodes*measure.WindowBytes(w, routerFields)
		series = channels + nodes
	}
	targets := 0
	for i := range m.spec.Events {
		targets += len(m.spec.Events[i].Targets)
	}
	routers := nodes*(routerBytes+routeBytes*nodes) + channels*routerChannelBytes + flows*flow + series
	return scenario.Memory{
		NodeBytes: routers / max(1, nodes), EventBytes: packetBytes,
		PackedBytes: int64(nodes*packedNodeBytes + cables*cableBytes + channels*channelBytes +
			flows*(flowEndBytes+flowStartBytes) + targets*targetBytes),
		WorkerBytes: int64(nodes*placeBytes + (cables+channels)*cableMadeBytes + targets*targetBytes),
	}
}

// Bytes that count, chosen to give what was measured of 2,000 nodes (docs/running.md, "Refused beforehand").
const (
	routerBytes        = 4000 // of a router, without what follows
	routeBytes         = 8    // of a router's route to a node, and what finding it leaves for the collector
	routerChannelBytes = 600  // of each of its channels, with few packets in them
	flowBytes          = 200  // of a flow, where it begins and where it ends
	histogramBytes     = 1000 // of a flow that has percentiles
	packedNodeBytes    = 30   // of a node in Pack
	placeBytes         = 250  // of a node in each worker
	cableMadeBytes     = 200  // of a cable or channel there, with its part of the schedule
	targetBytes        = 100  // of a target of an event
)

// Graph is the scenario's structure: one simulated node a node of the network, with the
// simproc router, and one link each way between neighbours, whose lookahead is the
// propagation delay of their shortest cable.
func (m *Model) Graph() *node.Graph { return m.graph }

// NewHandler makes the logic of one node.
func (m *maker) NewHandler(p *node.Simproc) (node.Handler, error) { return newRouter(m, p) }

// flowStart is a flow that begins at a node.
type flowStart struct {
	id   uint32  // index in Spec.Flows
	rate float64 // packets per second
}

// startsAt are the flows that begin at node n.
func (m *Model) startsAt(n int) ([]flowStart, error) {
	starts := make([]flowStart, len(m.flowsFrom[n]))
	for i, f := range m.flowsFrom[n] {
		starts[i] = flowStart{uint32(f), m.spec.Flows[f].Rate}
	}
	return starts, nil
}

// flowEndBytes is what maker.ends has for a flow.
const flowEndBytes = 8

// endOf is the node at which a flow ends.
func (m *maker) endOf(flow uint32) int { return int(le.Uint32(m.ends[flowEndBytes*int(flow):])) }

// indexAtEnd is the index of a flow among those that end where it does.
func (m *maker) indexAtEnd(flow uint32) int { return int(le.Uint32(m.ends[flowEndBytes*int(flow)+4:])) }

// schedule is what will happen in the replication that p belongs to.
func (m *maker) schedule(p *node.Simproc) *schedule {
	// Stands for seed and replication: the stream depends on both.
	seeds := p.SharedSource("schedule")
	key := [2]uint64{seeds.Uint64(), seeds.Uint64()}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.last == nil || m.key != key {
		m.key, m.last = key, newSchedule(m.spec, p.Horizon(), p.SharedSource)
	}
	return m.last
}

// makeGraph makes the structure, and fills in the rates that placement balances: what
// the flows would bring if nothing failed and nothing was lost.
func (m *Model) makeGraph() {
	t := m.spec.Topology
	g := &node.Graph{Simprocs: []string{"router"}}
	for i := range t.Nodes {
		g.Nodes = append(g.Nodes, node.Node{Name: t.Nodes[i].Name})
	}
	rates := m.loads(g)
	index := make(map[[2]int]int)
	for id := range t.Channels {
		c := &t.Channels[id]
		delay := t.Cables[c.Cable].Delay
		i, ok := index[[2]int{c.From, c.To}]
		if !ok {
			i = len(g.Links)
			index[[2]int{c.From, c.To}] = i
			g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: c.From}, To: node.Endpoint{Node: c.To},
				Lookahead: delay})
		}
		g.Links[i].Lookahead = min(g.Links[i].Lookahead, delay)
		g.Links[i].Rate += rates[id]
	}
	m.graph = g
}

// loads follows all flows over their shortest ways: packets per second by channel. It
// adds every node's events per second to g.
func (m *Model) loads(g *node.Graph) []float64 {
	t := m.spec.Topology
	rates := make([]float64, len(t.Channels))
	through := make([]float64, len(t.Nodes))
	for from := range t.Nodes {
		if len(m.flowsFrom[from]) == 0 {
			continue
		}
		ways := t.shortest(from, m.metric, func(int) bool { return false })
		clear(through)
		for _, f := range m.flowsFrom[from] {
			flow := &m.spec.Flows[f]
			through[flow.To] += flow.Rate
			g.Nodes[from].Work += flow.Rate
		}
		for i := len(ways.order) - 1; i > 0; i-- { // the farthest first
			n := ways.order[i]
			via := ways.via[n]
			rates[via] += through[n]
			g.Nodes[n].Work += through[n]
			through[t.Channels[via].From] += through[n]
		}
	}
	return rates
}
