// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"strings"
)

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
	Node    int // index in Graph.Nodes
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
func (g *Graph) NumSimprocs() int { return len(g.Nodes) * len(g.Simprocs) }

// Name is "<node>/<simproc>" of an id, the form in which targets are written.
func (g *Graph) Name(id SimprocID) string {
	if int(id) >= g.NumSimprocs() {
		return fmt.Sprintf("simproc %d (the scenario has %d)", id, g.NumSimprocs())
	}
	e := g.Endpoint(id)
	return g.Nodes[e.Node].Name + "/" + g.Simprocs[e.Simproc]
}

// Limits of a scenario. They keep every dense id and every level in 32 bits with
// room to spare.
const (
	SimprocsMax = 1 << 10 // layers
	IDsMax      = 1 << 28 // nodes × layers
)

// Check reports the first thing wrong with the graph's own numbers: no node, no
// layer, repeated or empty names, endpoints out of range, lookaheads that are not
// times. Levels reports zero-lookahead cycles.
func (g *Graph) Check() error {
	if len(g.Simprocs) == 0 || len(g.Simprocs) > SimprocsMax {
		return fmt.Errorf("node: the scenario has %d simprocs, want 1 to %d", len(g.Simprocs), SimprocsMax)
	}
	if len(g.Nodes) == 0 || g.NumSimprocs() > IDsMax {
		return fmt.Errorf("node: the scenario has %d nodes of %d simprocs, want 1 to %d simprocs in all", len(g.Nodes),
			len(g.Simprocs), IDsMax)
	}
	if err := checkNames("simproc", g.Simprocs); err != nil {
		return err
	}
	names := make([]string, len(g.Nodes))
	for i, n := range g.Nodes {
		names[i] = n.Name
		if !(n.Work >= 0 && n.Work <= math.MaxFloat64) {
			return fmt.Errorf("node: node %q has expected work %v, want a finite number >= 0", n.Name, n.Work)
		}
	}
	if err := checkNames("node", names); err != nil {
		return err
	}
	for i, l := range g.Links {
		if !g.valid(l.From) || !g.valid(l.To) {
			return fmt.Errorf("node: link %d goes from %v to %v, but there are %d nodes with %d simprocs", i, l.From,
				l.To, len(g.Nodes), len(g.Simprocs))
		}
		if !(l.Lookahead >= 0 && l.Lookahead <= math.MaxFloat64) {
			return fmt.Errorf("node: link %s -> %s has lookahead %v, want a finite time >= 0", g.Name(g.ID(l.From)),
				g.Name(g.ID(l.To)), l.Lookahead)
		}
	}
	for i, m := range g.Meshes {
		if m.From < 0 || m.From >= len(g.Simprocs) || m.To < 0 || m.To >= len(g.Simprocs) || !(m.Lookahead > 0 &&
			m.Lookahead <= math.MaxFloat64) {
			return fmt.Errorf("node: mesh %d goes from rank %d to rank %d with lookahead %v, want ranks from 0 to "+
				"%d and a finite time > 0", i, m.From, m.To, m.Lookahead, len(g.Simprocs)-1)
		}
	}
	if len(g.Meshes)*len(g.Nodes)+len(g.Links) > IDsMax {
		return fmt.Errorf("node: %d links and %d meshes of %d nodes, at most %d links in all", len(g.Links),
			len(g.Meshes), len(g.Nodes), IDsMax)
	}
	return nil
}

func (g *Graph) valid(e Endpoint) bool {
	return e.Node >= 0 && e.Node < len(g.Nodes) && e.Simproc >= 0 && e.Simproc < len(g.Simprocs)
}

func checkNames(what string, names []string) error {
	seen := make(map[string]int, len(names))
	for i, n := range names {
		if n == "" || n == "self" || strings.ContainsAny(n, "/\n\t") {
			return fmt.Errorf("node: %s %d is named %q: want a name that is not empty, not \"self\", and has no "+
				"'/', tab or newline", what, i, n)
		}
		if j, ok := seen[n]; ok {
			return fmt.Errorf("node: %ss %d and %d are both named %q", what, j, i, n)
		}
		seen[n] = i
	}
	return nil
}
