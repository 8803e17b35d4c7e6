// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Structure is a Graph in a compact form, checked and with levels: columns by node, by
// simproc and by link, without a pointer for each of them. It is what everything but a
// model's own code uses. docs/scale-loading.md says what it takes.
//
// It does not change and may be used by several goroutines.
type Structure struct {
	layers []string
	meshes []Mesh
	epochs float64
	nodes  int
	links  int // of an Outline: how many there were

	nameStart []uint32 // by node, and one more: where its name begins in names
	names     []byte
	shared    []uint8  // by node: 1 where its simprocs share state
	levels    []uint32 // by simproc; nil: all are 0

	linkStart []uint32 // by simproc, and one more: where its links begin; nil without links
	linkTo    []uint32 // by link: rising by sender, then by (target, lookahead, rate)
	lookahead []float64

	work []float64 // by node; of the launcher alone, as rate; nil: all have workEach
	rate []float64 // by link; nil where none is known

	workEach float64
}

// Steps between two calls of proceed: some milliseconds at the most.
const proceedSteps = 1 << 16

// Compile checks a graph and brings it into its compact form. Its errors say what is wrong
// with the graph, a cycle of links without lookahead included. proceed, when not nil, is
// called every few milliseconds; its error ends the work and is returned as it is.
func Compile(g *Graph, proceed func() error) (*Structure, error) {
	c := &compiler{g: g, proceed: proceed, s: &Structure{layers: g.Simprocs, meshes: g.Meshes, epochs: g.Epochs,
		nodes: g.Len()}}
	for _, step := range []func() error{c.checkSizes, c.compileNodes, c.countLinks, c.checkMeshes, c.fillLinks,
		c.sortLinks, c.computeLevels} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c.s, nil
}

// NumNodes is the number of nodes.
func (s *Structure) NumNodes() int { return s.nodes }

// NumLinks is the number of links that are declared one by one.
func (s *Structure) NumLinks() int { return max(s.links, len(s.linkTo)) }

// Outline is a Structure with the counts, names and meshes of s, and without the rest, which may be most of it.
func (s *Structure) Outline() *Structure {
	return &Structure{layers: s.layers, meshes: s.meshes, epochs: s.epochs, nodes: s.nodes, links: s.NumLinks(),
		nameStart: s.nameStart, names: s.names}
}

// NumSimprocs is the number of dense ids: nodes × layers.
func (s *Structure) NumSimprocs() int { return s.nodes * len(s.layers) }

// Simprocs are the names of the layers by rank. The caller must not change them.
func (s *Structure) Simprocs() []string { return s.layers }

// Meshes are the meshes. The caller must not change them.
func (s *Structure) Meshes() []Mesh { return s.meshes }

// Epochs is Graph.Epochs.
func (s *Structure) Epochs() float64 { return s.epochs }

// NodeName is the name of a node.
func (s *Structure) NodeName(n int) string { return string(s.nodeName(n)) }

func (s *Structure) nodeName(n int) []byte { return s.names[s.nameStart[n]:s.nameStart[n+1]] }

// Shared tells whether the simprocs of a node share state.
func (s *Structure) Shared(n int) bool { return s.shared[n] != 0 }

// Work is the expected work of a node, Node.Work.
func (s *Structure) Work(n int) float64 {
	if s.work == nil {
		return s.workEach
	}
	return s.work[n]
}

// ID is the dense id of an endpoint.
func (s *Structure) ID(e Endpoint) SimprocID { return SimprocID(e.Node*len(s.layers) + e.Simproc) }

// Endpoint is the inverse of ID.
func (s *Structure) Endpoint(id SimprocID) Endpoint {
	n := int(id) / len(s.layers)
	return Endpoint{Node: n, Simproc: int(id) - n*len(s.layers)}
}

// Node is the node of a dense id.
func (s *Structure) Node(id SimprocID) int { return int(id) / len(s.layers) }

// Level is the level of a simproc (Graph.Levels).
func (s *Structure) Level(id SimprocID) uint32 {
	if s.levels == nil {
		return 0
	}
	return s.levels[id]
}

// Name is "<node>/<simproc>" of an id, the form in which targets are written.
func (s *Structure) Name(id SimprocID) string {
	if int64(id) >= int64(s.NumSimprocs()) {
		return fmt.Sprintf("simproc %d (the scenario has %d)", id, s.NumSimprocs())
	}
	e := s.Endpoint(id)
	return s.NodeName(e.Node) + "/" + s.layers[e.Simproc]
}

// LinksOf are the numbers of the links that leave a simproc: from first up to, and without,
// end.
func (s *Structure) LinksOf(id SimprocID) (first, end int) {
	if s.linkStart == nil {
		return 0, 0
	}
	return int(s.linkStart[id]), int(s.linkStart[id+1])
}

// To is the target of a link.
func (s *Structure) To(link int) SimprocID { return SimprocID(s.linkTo[link]) }

// Lookahead is that of a link, in simulated seconds.
func (s *Structure) Lookahead(link int) float64 { return s.lookahead[link] }

// Rate is the expected events per simulated second of a link, 0 where it isn't known.
func (s *Structure) Rate(link int) float64 {
	if s.rate == nil {
		return 0
	}
	return s.rate[link]
}

// LeastLookahead is the least of all links and meshes, +Inf without any.
func (s *Structure) LeastLookahead() float64 {
	least := math.Inf(1)
	for _, l := range s.lookahead {
		least = min(least, l)
	}
	for i := range s.meshes {
		least = min(least, s.meshes[i].Lookahead)
	}
	return least
}

// leastPositive is the least lookahead above 0 of all links and meshes, +Inf without any.
func (s *Structure) leastPositive() float64 {
	least := math.Inf(1)
	for _, l := range s.lookahead {
		if l > 0 && l < least {
			least = l
		}
	}
	for i := range s.meshes {
		least = min(least, s.meshes[i].Lookahead)
	}
	return least
}

func (s *Structure) valid(e Endpoint) bool {
	return e.Node >= 0 && e.Node < s.nodes && e.Simproc >= 0 && e.Simproc < len(s.layers)
}

// IndexNodes makes an index of all nodes' names, and returns the function that finds a node
// in it. The index takes up to 12 bytes a node.
func (s *Structure) IndexNodes() (find func(name string) (n int, ok bool)) {
	var index nameIndex
	index.init(s.nodes)
	for n := range s.nodes {
		index.add(s, n)
	}
	return func(name string) (int, bool) { return index.find(s, name) }
}

// nameIndex finds nodes by name: a table with open addressing, 4 bytes a place.
type nameIndex struct{ slots []uint32 } // 1 + node, 0: free

func (x *nameIndex) init(nodes int) {
	size := 16
	for size < nodes+nodes/2 {
		size *= 2
	}
	x.slots = make([]uint32, size)
}

// add adds node n, whose name is there already, and returns another one of the same name, n
// itself where there is none.
func (x *nameIndex) add(s *Structure, n int) (other int) {
	name := s.nodeName(n)
	mask := uint64(len(x.slots) - 1)
	for at := xxhash.Sum64(name) & mask; ; at = (at + 1) & mask {
		k := x.slots[at]
		if k == 0 {
			x.slots[at] = uint32(n) + 1
			return n
		}
		if string(s.nodeName(int(k-1))) == string(name) {
			return int(k - 1)
		}
	}
}

func (x *nameIndex) find(s *Structure, name string) (n int, ok bool) {
	mask := uint64(len(x.slots) - 1)
	for at := xxhash.Sum64String(name) & mask; x.slots[at] != 0; at = (at + 1) & mask {
		if n := int(x.slots[at] - 1); string(s.nodeName(n)) == name {
			return n, true
		}
	}
	return 0, false
}

// compiler makes a Structure, step by step.
type compiler struct {
	g       *Graph
	s       *Structure
	proceed func() error
	steps   int
	links   int
	rated   bool     // a link has a rate
	start   []uint32 // by simproc: how many links, then where its next one goes
}

// step is called once for each node and link.
func (c *compiler) step() error {
	if c.steps++; c.steps%proceedSteps == 0 && c.proceed != nil {
		return c.proceed()
	}
	return nil
}

func (c *compiler) checkSizes() error {
	g := c.g
	if len(g.Simprocs) == 0 || len(g.Simprocs) > SimprocsMax {
		return fmt.Errorf("node: the scenario has %d simprocs, want 1 to %d", len(g.Simprocs), SimprocsMax)
	}
	if n := c.s.nodes; n < 1 || n > IDsMax || n*len(g.Simprocs) > IDsMax {
		return fmt.Errorf("node: the scenario has %d nodes of %d simprocs, want 1 to %d simprocs in all", n,
			len(g.Simprocs), IDsMax)
	}
	seen := make(map[string]int, len(g.Simprocs))
	for i, name := range g.Simprocs {
		if err := checkName("simproc", i, name); err != nil {
			return err
		}
		if j, ok := seen[name]; ok {
			return fmt.Errorf("node: simprocs %d and %d are both named %q", j, i, name)
		}
		seen[name] = i
	}
	return nil
}

func checkName(what string, i int, name string) error {
	if name == "" || name == "self" || strings.ContainsAny(name, "/\n\t") {
		return fmt.Errorf("node: %s %d is named %q: want a name that is not empty, not \"self\", and has no '/', tab "+
			"or newline", what, i, name)
	}
	return nil
}

// namesMax is how many bytes the names of all nodes may have together: their places are
// numbers of 32 bits.
const namesMax = math.MaxUint32

func (c *compiler) compileNodes() error {
	s := c.s
	s.nameStart, s.shared = make([]uint32, s.nodes+1), make([]uint8, s.nodes)
	var index nameIndex
	index.init(s.nodes)
	for i := range s.nodes {
		if err := c.step(); err != nil {
			return err
		}
		n := c.g.Node(i)
		if !(n.Work >= 0 && n.Work <= math.MaxFloat64) {
			return fmt.Errorf("node: node %q has expected work %v, want a finite number >= 0", n.Name, n.Work)
		}
		if err := checkName("node", i, n.Name); err != nil {
			return err
		}
		if len(n.Name) > namesMax-len(s.names) {
			return fmt.Errorf("node: the names of the first %d of %d nodes have more than %d bytes: give them shorter "+
				"ones", i+1, s.nodes, namesMax)
		}
		s.names = append(s.names, n.Name...)
		s.nameStart[i+1] = uint32(len(s.names))
		s.setWork(i, n.Work)
		if n.Shared {
			s.shared[i] = 1
		}
		if j := index.add(s, i); j != i {
			return fmt.Errorf("node: nodes %d and %d are both named %q", j, i, n.Name)
		}
	}
	s.names = slices.Clip(s.names)
	return nil
}

// setWork sets the work of a node, behind that of all before it.
func (s *Structure) setWork(i int, work float64) {
	switch {
	case i == 0:
		s.workEach = work
	case s.work == nil && work != s.workEach:
		s.work = make([]float64, s.nodes)
		for k := range i {
			s.work[k] = s.workEach
		}
	}
	if s.work != nil {
		s.work[i] = work
	}
}

// countLinks checks all links and counts those of each sender.
func (c *compiler) countLinks() error {
	s := c.s
	var failed error
	c.start = make([]uint32, s.NumSimprocs()+1)
	c.g.eachLink(func(l *Link) bool {
		if failed = c.step(); failed == nil {
			failed = c.checkLink(l)
		}
		if failed != nil {
			return false
		}
		c.start[s.ID(l.From)+1]++
		c.links++
		c.rated = c.rated || isRate(l.Rate)
		return true
	})
	return failed
}

// isRate tells whether a link says its rate.
func isRate(rate float64) bool { return rate > 0 && rate <= math.MaxFloat64 }

func (c *compiler) checkLink(l *Link) error {
	s := c.s
	if !s.valid(l.From) || !s.valid(l.To) {
		return fmt.Errorf("node: link %d goes from %v to %v, but there are %d nodes with %d simprocs", c.links, l.From,
			l.To, s.nodes, len(s.layers))
	}
	if !(l.Lookahead >= 0 && l.Lookahead <= math.MaxFloat64) {
		return fmt.Errorf("node: link %s -> %s has lookahead %v, want a finite time >= 0", s.Name(s.ID(l.From)),
			s.Name(s.ID(l.To)), l.Lookahead)
	}
	if c.links == IDsMax {
		return fmt.Errorf("node: more than %d links", IDsMax)
	}
	return nil
}

func (c *compiler) checkMeshes() error {
	s := c.s
	for i, m := range s.meshes {
		if m.From < 0 || m.From >= len(s.layers) || m.To < 0 || m.To >= len(s.layers) || !(m.Lookahead > 0 &&
			m.Lookahead <= math.MaxFloat64) {
			return fmt.Errorf("node: mesh %d goes from rank %d to rank %d with lookahead %v, want ranks from 0 to "+
				"%d and a finite time > 0", i, m.From, m.To, m.Lookahead, len(s.layers)-1)
		}
	}
	if len(s.meshes)*s.nodes+c.links > IDsMax {
		return fmt.Errorf("node: %d links and %d meshes of %d nodes, at most %d links in all", c.links,
			len(s.meshes), s.nodes, IDsMax)
	}
	return nil
}

// fillLinks puts the links behind one another by sender.
func (c *compiler) fillLinks() error {
	s := c.s
	if c.links == 0 {
		return nil
	}
	for id := 1; id < len(c.start); id++ {
		c.start[id] += c.start[id-1]
	}
	s.linkStart = slices.Clone(c.start)
	s.linkTo, s.lookahead = make([]uint32, c.links), make([]float64, c.links)
	if c.rated {
		s.rate = make([]float64, c.links)
	}
	var failed error
	filled := 0
	c.g.eachLink(func(l *Link) bool {
		if failed = c.step(); failed != nil {
			return false
		}
		if !s.valid(l.From) || !s.valid(l.To) || !(l.Lookahead >= 0 && l.Lookahead <= math.MaxFloat64) {
			return false
		}
		from := s.ID(l.From)
		k := c.start[from]
		if k == s.linkStart[from+1] {
			return false
		}
		c.start[from]++
		filled++
		s.linkTo[k], s.lookahead[k] = uint32(s.ID(l.To)), l.Lookahead+0 // no minus zero
		if isRate(l.Rate) {
			s.rate[k] = l.Rate
		}
		return true
	})
	if failed == nil && filled != c.links {
		failed = fmt.Errorf("node: Graph.EachLink gave %d links at first, and others when it was called again: it "+
			"must give the same links each time", c.links)
	}
	c.start = nil
	return failed
}

// sortLinks brings the links of each sender into order.
func (c *compiler) sortLinks() error {
	s := c.s
	var part linkPart
	for id := range SimprocID(s.NumSimprocs()) {
		if err := c.step(); err != nil {
			return err
		}
		if first, end := s.LinksOf(id); !s.inOrder(first, end) {
			part.sort(s, first, end)
		}
	}
	return nil
}

func (s *Structure) inOrder(first, end int) bool {
	for k := first + 1; k < end; k++ {
		if a, b := s.linkTo[k-1], s.linkTo[k]; a > b || a == b && (s.lookahead[k-1] > s.lookahead[k] ||
			s.lookahead[k-1] == s.lookahead[k] && s.Rate(k-1) > s.Rate(k)) {
			return false
		}
	}
	return true
}

// linkPart is the links of one sender while they are sorted.
type linkPart []sortedLink

type sortedLink struct {
	to              uint32
	lookahead, rate float64
}

func (p *linkPart) sort(s *Structure, first, end int) {
	part := (*p)[:0]
	for k := first; k < end; k++ {
		part = append(part, sortedLink{s.linkTo[k], s.lookahead[k], s.Rate(k)})
	}
	slices.SortFunc(part, func(a, b sortedLink) int {
		switch {
		case a.to != b.to:
			return int(int64(a.to) - int64(b.to))
		case a.lookahead != b.lookahead:
			return signOf(a.lookahead < b.lookahead)
		case a.rate != b.rate:
			return signOf(a.rate < b.rate)
		}
		return 0
	})
	for i, l := range part {
		s.linkTo[first+i], s.lookahead[first+i] = l.to, l.lookahead
		if s.rate != nil {
			s.rate[first+i] = l.rate
		}
	}
	*p = part
}

func signOf(before bool) int {
	if before {
		return -1
	}
	return 1
}
