// SPDX-License-Identifier: Apache-2.0

package node

import "fmt"

// SimprocID is the dense id of one simproc of one node: node × layers + rank.
// Its order is the order (node, rank) that the total order of events uses.
type SimprocID uint32

// Graph says which nodes a scenario has, which simprocs every node has, and over
// which links they send. It is the same in every worker, whoever hosts what, and
// does not change while the run lasts.
type Graph struct {
	Simprocs []string // names of the layers; the index is the rank, 0 comes first
	Nodes    []Node
	Links    []Link
	Meshes   []Mesh

	// NodeCount and NodeAt give the nodes where a list of them would be too large: Nodes is nil then. NodeAt gives the
	// node of each index from 0, the same whenever it is asked.
	NodeCount int
	NodeAt    func(n int) Node

	// EachLink, when not nil, gives links besides Links, one after the other, so that none of them has to be kept: it
	// calls yield for each until yield returns false. It is called more than once and gives the same links each time.
	EachLink func(yield func(Link) bool)

	// Epochs is how many different epochs the events of a simulated second have, for placement. 0: about as many as
	// there are events. It matters where a link's lookahead is 0 and many events have one epoch.
	Epochs float64
}

// Node is one simulated node.
type Node struct {
	Name string // unique, not empty, without '/'

	// Work is the expected work: events per simulated second, in any unit that is
	// the same for all nodes. Placement balances it. 0 counts as very little.
	Work float64

	// Shared says that the node's simprocs share state. They are then run in one
	// time order. Without it each simproc has only its own state, and one of them
	// may run ahead of another in simulated time, which is what lets the workers
	// of a layered scenario work at the same time.
	Shared bool
}

// Link is one declared way for events: whoever handles From at t may send to To
// with an epoch >= t + Lookahead.
type Link struct {
	From, To  Endpoint
	Lookahead float64 // simulated seconds, finite, >= 0
	Rate      float64 // expected events per simulated second, for placement; 0: unknown
}

// Mesh declares a link from one simproc of every node to one simproc of every node,
// itself included, without listing them: for models in which anybody may send to
// anybody. Its links are found by LinkTo like others, but have no promises of their own
// (AdvancePromise).
type Mesh struct {
	From, To  int     // ranks
	Lookahead float64 // simulated seconds, finite, > 0: a mesh without would be a cycle
	Rate      float64 // expected events per simulated second over one node's links
}

// Endpoint is one simproc of one node, by index.
type Endpoint struct {
	Node    int // index of the node
	Simproc int // rank: index in Graph.Simprocs
}

// ID is the dense id of an endpoint of g.
func (g *Graph) ID(e Endpoint) SimprocID {
	return SimprocID(e.Node*len(g.Simprocs) + e.Simproc)
}

// Endpoint is the inverse of ID.
func (g *Graph) Endpoint(id SimprocID) Endpoint {
	return Endpoint{Node: int(id) / len(g.Simprocs), Simproc: int(id) % len(g.Simprocs)}
}

// NumSimprocs is the number of dense ids: nodes × layers.
func (g *Graph) NumSimprocs() int { return g.Len() * len(g.Simprocs) }

// Len is the number of nodes.
func (g *Graph) Len() int {
	if g.NodeAt != nil {
		return g.NodeCount
	}
	return len(g.Nodes)
}

// Node is the node of an index.
func (g *Graph) Node(n int) Node {
	if g.NodeAt != nil {
		return g.NodeAt(n)
	}
	return g.Nodes[n]
}

// eachLink visits all links until visit returns false.
func (g *Graph) eachLink(visit func(l *Link) bool) {
	for i := range g.Links {
		if !visit(&g.Links[i]) {
			return
		}
	}
	if g.EachLink == nil {
		return
	}
	var link Link // one for all: visit's argument would make each one escape
	g.EachLink(func(l Link) bool {
		link = l
		return visit(&link)
	})
}

// Name is "<node>/<simproc>" of an id, the form in which targets are written.
func (g *Graph) Name(id SimprocID) string {
	if int(id) >= g.NumSimprocs() {
		return fmt.Sprintf("simproc %d (the scenario has %d)", id, g.NumSimprocs())
	}
	e := g.Endpoint(id)
	return g.Node(e.Node).Name + "/" + g.Simprocs[e.Simproc]
}

// Limits of a scenario. They keep every dense id and every level in 32 bits with
// room to spare.
const (
	SimprocsMax = 1 << 10 // layers
	IDsMax      = 1 << 28 // nodes × layers
)

// Check reports the first thing wrong with the graph: no node, no layer, repeated or empty names, endpoints out of
// range, lookaheads that are not times, links of lookahead 0 in a cycle.
func (g *Graph) Check() error {
	_, err := Compile(g, nil)
	return err
}

// Levels gives every simproc its level: the length of the longest way to it over links of lookahead 0 and the rank
// order inside each node. Work at one epoch is done level by level.
func (g *Graph) Levels() ([]uint32, error) {
	s, err := Compile(g, nil)
	if err != nil {
		return nil, err
	}
	if s.levels == nil {
		s.levels = make([]uint32, s.NumSimprocs())
	}
	return s.levels, nil
}
