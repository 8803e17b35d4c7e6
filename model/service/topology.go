// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"slices"

	"github.com/disco-sim/disco/node"
)

// The layers. Requests go from the generator to a server on the first; the last
// server's answer goes to the client's second. So the client is before and after
// everything else without a cycle, and no edge needs lookahead.
const (
	rankRequest = iota
	rankResponse
	rankCount
)

// topology is the graph that requests travel on. The loader builds it while it checks
// the file; validation, the engine's graph and results all use this one. Of a file
// without problems it is complete, and boxes are numbered like the engine's nodes: 0
// is the generator, 1 the client, then come the balancers and the servers in the order
// of the file.
type topology struct {
	boxes []box
	nodes names      // of boxes
	edges []edgeEnds // by index in Spec.Edges
}

// box is one thing that requests pass: generator, client, balancer or server.
type box struct {
	role  role
	index int // in Spec.Balancers or Spec.Servers
	id    string
	out   []int // its outgoing edges, in the order of the file
}

// edgeEnds are the boxes that an edge joins.
type edgeEnds struct{ from, to int }

const (
	nodeGenerator = 0
	nodeClient    = 1
)

// role is what a box is.
type role int

const (
	generatorRole role = iota
	clientRole
	balancerRole
	serverRole
)

func (r role) String() string {
	return [...]string{"the generator", "the client", "a load balancer", "a server"}[r]
}

func newTopology(edges int) *topology {
	return &topology{nodes: make(names), edges: make([]edgeEnds, edges)}
}

// add adds a box, whose id no other one has.
func (t *topology) add(r role, index int, id string) {
	t.nodes[id] = members{first: len(t.boxes)}
	t.boxes = append(t.boxes, box{role: r, index: index, id: id})
}

// addGroup adds servers, the first of them with an index, which have the group's id with their numbers.
func (t *topology) addGroup(id string, index int, servers []Server) {
	t.nodes[id] = members{first: len(t.boxes), count: len(servers)}
	t.boxes = slices.Grow(t.boxes, len(servers))
	for i := range servers {
		t.boxes = append(t.boxes, box{role: serverRole, index: index + i, id: servers[i].ID})
	}
}

// connect adds an edge.
func (t *topology) connect(edge, from, to int) {
	t.edges[edge] = edgeEnds{from, to}
	t.boxes[from].out = append(t.boxes[from].out, edge)
}

// markReached marks box n, and all boxes that edges lead to from there.
func (t *topology) markReached(n int, reached []bool) {
	if reached[n] {
		return
	}
	reached[n] = true
	for _, e := range t.boxes[n].out {
		t.markReached(t.edges[e].to, reached)
	}
}

// busy reports whether a simproc has anything to do.
func busy(n, rank int) bool { return rank == rankRequest || n == nodeClient }

// answers reports whether what an edge carries has been answered: it leads back to the client.
func (t *topology) answers(edge int) bool {
	return t.edges[edge].to == nodeClient && t.edges[edge].from != nodeGenerator
}

// link is an edge as the engine's link.
func (t *topology) link(edge int) node.Link {
	ends, rank := t.edges[edge], rankRequest
	if t.answers(edge) {
		rank = rankResponse
	}
	return node.Link{
		From: node.Endpoint{Node: ends.from, Simproc: rankRequest},
		To:   node.Endpoint{Node: ends.to, Simproc: rank},
	}
}

// graph is the engine's graph: one node a box, one link an edge. No two edges join the same boxes.
func (t *topology) graph(spec *Spec) *node.Graph {
	g := &node.Graph{Simprocs: []string{"request", "response"}}
	g.Nodes = make([]node.Node, len(t.boxes))
	for i := range t.boxes {
		g.Nodes[i].Name = t.boxes[i].id
	}
	g.Links = make([]node.Link, len(t.edges))
	for i := range t.edges {
		g.Links[i] = t.link(i)
	}
	t.estimate(spec, g)
	return g
}

// estimate fills in the expected rates, which placement balances: the generator's
// mean rate, less what edges lose, split evenly by balancers. A box's work is the
// number of events that it handles in a second.
func (t *topology) estimate(spec *Spec, g *node.Graph) {
	rate := make([]float64, len(t.boxes)) // requests that come in, by box
	rate[nodeGenerator] = max(0, spec.Workload.Users.Mean*spec.Workload.RequestsPerMinute/60)
	answers := 0.0
	for _, n := range t.byLevel() {
		out := t.boxes[n].out
		g.Nodes[n].Work = rate[n] * t.eventsPerRequest(spec, n)
		for _, e := range out {
			passed := rate[n] / float64(len(out)) * (1 - spec.Edges[e].Dropout)
			link := &g.Links[e]
			link.Rate = passed
			if link.To.Simproc == rankResponse {
				answers += passed
			} else {
				rate[link.To.Node] += passed
			}
		}
	}
	g.Nodes[nodeClient].Work += answers
}

// byLevel lists the boxes by the longest way of a request to them, those of one length in their own order: each comes
// behind all that send to it.
func (t *topology) byLevel() []int {
	level, before := make([]int, len(t.boxes)), make([]int, len(t.boxes))
	for e := range t.edges {
		if to := t.link(e).To; to.Simproc == rankRequest {
			before[to.Node]++
		}
	}
	order := make([]int, 0, len(t.boxes))
	for n := range t.boxes {
		if before[n] == 0 {
			order = append(order, n)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, e := range t.boxes[order[i]].out {
			to := t.link(e).To
			if to.Simproc != rankRequest {
				continue
			}
			level[to.Node] = max(level[to.Node], level[order[i]]+1)
			if before[to.Node]--; before[to.Node] == 0 {
				order = append(order, to.Node)
			}
		}
	}
	if len(order) < len(t.boxes) {
		panic("service: a cycle of edges: the loader refuses them")
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(level[a], level[b]), cmp.Compare(a, b)) })
	return order
}

// eventsPerRequest is the mean number of events that a request costs in box n.
func (t *topology) eventsPerRequest(spec *Spec, n int) float64 {
	if t.boxes[n].role != serverRole {
		return 1
	}
	endpoints := spec.Servers[t.boxes[n].index].Endpoints
	bursts := 0
	for _, e := range endpoints {
		for i, s := range e.Steps {
			if i == 0 || e.Steps[i-1].CPU != s.CPU {
				bursts++
			}
		}
	}
	return 1 + float64(bursts)/float64(max(1, len(endpoints)))
}

// changes are what the outages do to the list of balancer n, by time; at equal
// times ends come before starts.
func (t *topology) changes(spec *Spec, n int) []change {
	var cs []change
	for _, o := range spec.Outages {
		if i := slices.Index(t.boxes[n].out, o.Edge); i >= 0 {
			cs = append(cs, change{o.Start, int32(i), false}, change{o.End, int32(i), true})
		}
	}
	slices.SortStableFunc(cs, func(a, b change) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.up == b.up:
			return 0
		case a.up:
			return -1
		}
		return 1
	})
	return cs
}
