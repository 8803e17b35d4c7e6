// SPDX-License-Identifier: Apache-2.0

package network

import (
	"sync"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Kind is the "network" kind of scenario, for a scenario.Registry.
func Kind() scenario.Kind {
	return scenario.Kind{Name: KindName, Load: scenario.Loader(Load, New), References: references}
}

// perFlowMax is the number of flows up to which each has percentiles: a histogram
// takes about a kilobyte.
const perFlowMax = 1 << 16

// Model is one network scenario, ready to run: it implements scenario.Scenario. Every
// worker makes its own of the same texts. It may be used by several goroutines.
type Model struct {
	spec      *Spec
	metric    []float64 // by channel
	graph     *node.Graph
	flowsFrom [][]int32 // by node: flows that begin there
	flowsTo   [][]int32 // by node: flows that end there
	endOf     []int32   // by flow: index in flowsTo of its end
	perFlow   bool      // flows have percentiles

	// The schedule of the last replication asked for: the same for all nodes.
	mutex sync.Mutex
	key   [2]uint64
	last  *schedule
}

// New makes the model of a spec of Load's, which must not be changed afterwards.
func New(spec *Spec) *Model {
	n := len(spec.Topology.Nodes)
	m := &Model{
		spec: spec, metric: spec.metric(),
		flowsFrom: make([][]int32, n), flowsTo: make([][]int32, n), endOf: make([]int32, len(spec.Flows)),
		perFlow: len(spec.Flows) <= perFlowMax,
	}
	for i := range spec.Flows {
		f := &spec.Flows[i]
		m.endOf[i] = int32(len(m.flowsTo[f.To]))
		m.flowsFrom[f.From] = append(m.flowsFrom[f.From], int32(i))
		m.flowsTo[f.To] = append(m.flowsTo[f.To], int32(i))
	}
	m.makeGraph()
	return m
}

// Name is the scenario's name, for people.
func (m *Model) Name() string { return m.spec.Name }

// Horizon is the simulated time at which the run ends, in seconds.
func (m *Model) Horizon() float64 { return m.spec.Horizon }

// Notes are remarks for the person who wrote the files, one line each: edges that are
// left out, flows without a way.
func (m *Model) Notes() []string { return m.spec.Notes }

// Graph is the scenario's structure: one simulated node a node of the network, with the
// simproc router, and one link each way between neighbours, whose lookahead is the
// propagation delay of their shortest cable.
func (m *Model) Graph() *node.Graph { return m.graph }

// NewHandler makes the logic of one node.
func (m *Model) NewHandler(p *node.Simproc) (node.Handler, error) { return newRouter(m, p) }

// schedule is what will happen in the replication that p belongs to.
func (m *Model) schedule(p *node.Simproc) *schedule {
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
