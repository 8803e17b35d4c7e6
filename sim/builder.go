// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

// Builder is what a build function fills with nodes. It is made anew for each scenario and in each worker.
//
// The build function depends on nothing but its parameters, so that every worker sees the same.
type Builder struct {
	m      *Model
	prefix string // of the names of nodes: "" or "paris."
	layer  int
}

// Model is what a build function has made. It is a scenario.Scenario.
//
// Its methods are for the programs that run scenarios.
type Model struct {
	name       string
	horizon    float64
	warmup     float64
	settles    bool // warmup: auto, which measures all and keeps how statistics develop
	antithetic bool
	epochLimit int    // most that a node does at one epoch
	within     string // what Node.In puts before names, of the setup function that is being called

	layers    []string
	groups    []*group
	byName    map[string]*group // by prefix, of the first layer that has it
	count     int               // nodes
	series    bool              // time series are asked for
	meshes    []meshDecl
	processes bool
	hosts     map[*Node]struct{}      // nodes with coroutines
	types     map[reflect.Type]any    // *eventType[E] by E
	numbers   map[uint32]reflect.Type // of types, by what their events begin with
	plans     map[reflect.Type]any    // *plain.Plan[T] by T, of what doesn't travel; nil where it can't
	externals []external.External     // what the nodes may ask
	endless   []string                // what was done last at an epoch that doesn't end

	graph  *node.Graph // made by Check
	schema *schema
}

// group is nodes that one call of Node or Nodes has made.
type group struct {
	name   string // of the node, or what comes before -0, -1, …
	single bool
	first  int // index of the first node
	count  int
	setups []func(n *Node) // by layer; nil where the node has nothing on it
}

// Group is nodes of one form, that Builder.Nodes has made.
type Group struct{ g *group }

// Len is the number of nodes.
func (g Group) Len() int { return g.g.count }

// At is the name of a node of the group, by its number from 0, as LinkTo wants it.
func (g Group) At(i int) string {
	if i < 0 || i >= g.g.count {
		panic(&failure{fmt.Sprintf("%s has %d nodes, and no number %d", g.g.name, g.g.count, i) + place()})
	}
	return g.g.nodeName(i)
}

func (g *group) nodeName(i int) string {
	if g.single {
		return g.name
	}
	return g.name + "-" + strconv.Itoa(i)
}

// Node makes one node. setup is called where the node is hosted, and wherever the structure is asked for: it may
// depend on nothing but the parameters and the node that it is given, and what it makes belongs to this node alone.
// Names consist of anything but '/', and are told from others' by In.
func (b *Builder) Node(name string, setup func(n *Node)) { b.add(name, 1, true, setup) }

// Nodes makes nodes of one form, count of them, named name-0, name-1, and so on. Node.Index tells them apart.
func (b *Builder) Nodes(name string, count int, setup func(n *Node)) Group {
	return Group{b.add(name, count, false, setup)}
}

// In is the builder of a part of the model, a component: its nodes' names begin with name and a dot. Parts may have
// parts.
//
//	type Branch struct{ Tills int }
//	func (s Branch) Place(b *sim.Builder) { b.Nodes("till", s.Tills, …) }
//	…
//	Branch{Tills: 3}.Place(b.In("paris")) // paris.till-0, paris.till-1, paris.till-2
func (b *Builder) In(name string) *Builder {
	in := *b
	in.prefix = b.prefix + name + "."
	return &in
}

// Layer is a builder for another layer of the model, for models in which several things happen to one node at one
// epoch in an order: layers that were asked for first come first. A node of one name has its own state on each.
// Most models have one layer and never call this.
func (b *Builder) Layer(name string) *Builder {
	on := *b
	on.layer = slices.Index(b.m.layers, name)
	if on.layer < 0 {
		on.layer = len(b.m.layers)
		b.m.layers = append(b.m.layers, name)
	}
	return &on
}

// Horizon sets the simulated time at which a run ends, in seconds, where the file doesn't.
func (b *Builder) Horizon(seconds float64) {
	if b.m.horizon == 0 {
		b.m.horizon = seconds
	}
}

// EpochLimit sets the most that one node may do at one simulated time, where the file doesn't say it with epoch_limit:
// functions called, processes begun and resumed. One that does more ends the run, because time would perhaps never go
// on. It is 10 million otherwise. Events that come from other nodes don't count.
func (b *Builder) EpochLimit(actions int) {
	if actions < 1 {
		panic(&failure{fmt.Sprintf("EpochLimit(%d): want 1 or more", actions) + place()})
	}
	if b.m.epochLimit == 0 {
		b.m.epochLimit = actions
	}
}

func (b *Builder) add(name string, count int, single bool, setup func(n *Node)) *group {
	m := b.m
	name = b.prefix + name
	if count < 0 || count > node.IDsMax-m.count || strings.ContainsRune(name, '/') || name == b.prefix {
		panic(&failure{fmt.Sprintf("nodes %q, %d of them: want a name without '/' and a number from 0 to %d", name,
			count, node.IDsMax-m.count) + place()})
	}
	g := m.byName[name]
	if g == nil {
		g = &group{name: name, single: single, first: m.count, count: count}
		m.byName[name] = g
		m.groups = append(m.groups, g)
		m.count += count
	}
	for len(g.setups) <= b.layer {
		g.setups = append(g.setups, nil)
	}
	if g.setups[b.layer] != nil || g.count != count || g.single != single {
		panic(&failure{fmt.Sprintf("there are nodes %q already", name) + place()})
	}
	g.setups[b.layer] = setup
	return g
}

// find is the node of a name.
func (m *Model) find(name string) (*group, int, bool) {
	if g := m.byName[name]; g != nil && g.single {
		return g, 0, true
	}
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return nil, 0, false
	}
	g := m.byName[name[:dash]]
	i, err := strconv.Atoi(name[dash+1:])
	if g == nil || g.single || err != nil || i < 0 || i >= g.count || g.nodeName(i) != name {
		return nil, 0, false
	}
	return g, i, true
}

// groupOf is the group of a node's index.
func (m *Model) groupOf(index int) *group {
	i := sort.Search(len(m.groups), func(i int) bool { return m.groups[i].first > index })
	for i--; m.groups[i].count == 0; i-- {
	}
	return m.groups[i]
}

// nodeName is the name of a node's index.
func (m *Model) nodeName(index int) string {
	g := m.groupOf(index)
	return g.nodeName(index - g.first)
}

// newNode makes a node's layer and calls its setup function; proc is nil where only the structure is asked for.
func (m *Model) newNode(g *group, i, layer int, proc *node.Simproc) *Node {
	n := &Node{m: m, group: g, index: i, layer: int32(layer), name: g.nodeName(i), proc: proc}
	n.ctx.n = n
	if layer < len(g.setups) && g.setups[layer] != nil {
		g.setups[layer](n)
	}
	return n
}

// NewHandler implements node.Model.
func (m *Model) NewHandler(p *node.Simproc) (h node.Handler, err error) {
	defer rescue(&err)
	g := m.groupOf(p.NodeIndex())
	return m.newNode(g, p.NodeIndex()-g.first, p.Rank(), p), nil
}

// Name implements scenario.Scenario.
func (m *Model) Name() string { return m.name }

// Horizon implements scenario.Scenario.
func (m *Model) Horizon() float64 { return m.horizon }

// Warmup implements scenario.Warmed.
func (m *Model) Warmup() float64 { return m.warmup }

// Settles implements scenario.Settler.
func (m *Model) Settles() bool { return m.settles }

// Course implements scenario.Settler: everything that is measured, but for percentiles.
func (m *Model) Course(s *scenario.Series) bool {
	at := strings.LastIndexByte(s.Name, '.')
	return at < 0 || !strings.HasPrefix(s.Name[at:], ".p")
}

// stream is the random stream of a node and a name in this replication. Of antithetic replications, two neighbours
// draw opposite numbers from one seed.
func (m *Model) stream(p *node.Simproc, name string) dist.Stream {
	if !m.antithetic {
		high, low := p.Seed(name)
		return dist.MakeStream(high, low, dist.Unpaired)
	}
	high, low := p.SeedOf(name, p.Replication()&^1)
	if p.Replication()%2 == 0 {
		return dist.MakeStream(high, low, dist.Paired)
	}
	return dist.MakeStream(high, low, dist.Opposite)
}

// Check reports what is wrong with the model: it calls all setup functions, and holds links against what their
// targets handle. It is called in the launcher, before Graph.
func (m *Model) Check() (err error) {
	defer rescue(&err)
	if m.graph != nil {
		return nil
	}
	if m.count == 0 {
		return fmt.Errorf("sim: the model %s has no node", m.name)
	}
	if err := m.checkHorizon(); err != nil {
		return err
	}
	if m.warmup >= m.horizon {
		return fmt.Errorf("sim: the model %s has a warm-up of %v s and a horizon of %v s, so nothing is left to be "+
			"measured: make the warm-up shorter, or the horizon later", m.name, m.warmup, m.horizon)
	}
	d := newDeclarations(m)
	for _, g := range m.groups {
		for i := range g.count {
			for layer := range m.layers {
				d.take(m.newNode(g, i, layer, nil))
			}
		}
	}
	if err := d.check(); err != nil {
		return err
	}
	m.graph, m.schema = d.graph(), d.schema
	return nil
}

func (m *Model) checkHorizon() error {
	if !(m.horizon > 0) || math.IsInf(m.horizon, 1) {
		return fmt.Errorf("sim: the model %s has no horizon: write `horizon: 1000` (simulated seconds) into the file, "+
			"give --horizon, or call Builder.Horizon", m.name)
	}
	return nil
}

// Graph implements node.Model. A model at fault panics with what Check returns.
func (m *Model) Graph() *node.Graph {
	if err := m.Check(); err != nil {
		panic(err)
	}
	return m.graph
}
