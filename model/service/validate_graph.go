// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

// role is what a vertex is.
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

// vertex is one thing that requests pass: generator, client, balancer or server.
type vertex struct {
	id   string
	role role
	at   scenario.Value // its id

	index      int   // in spec.Balancers or spec.Servers
	out        []int // indices of its good outgoing edges, in the order of the file
	outRefused bool  // one of its edges was refused, so that a missing one is no news

	coveredBy *vertex
	covers    map[string]scenario.Value // of a balancer: ids, and where server_covered has them
	doubtful  bool                      // of a balancer: one of its server_covered was refused
}

// topology is the file's graph with what was refused left out.
type topology struct {
	vertices []*vertex // generator, client, balancers, servers
	byID     map[string]*vertex
	edgeIDs  map[string]int // index of the first edge with an id
}

// checkGraph holds the topology to the rules of docs/scenario-service.md,
// "Topology".
func (l *loader) checkGraph() {
	l.graph = topology{byID: make(map[string]*vertex), edgeIDs: make(map[string]int)}
	l.addVertices()
	l.checkEdgeIDs()
	if l.serversMissing {
		return // every edge would be wrong
	}
	for _, b := range l.graph.vertices {
		if b.role == balancerRole {
			l.checkCovered(b)
		}
	}
	for i := range l.edges {
		l.checkEdge(i)
	}
	for _, b := range l.graph.vertices {
		l.checkOut(b)
	}
	l.checkCycles()
}

func (l *loader) addVertices() {
	l.addVertex(vertex{id: l.spec.Workload.ID, role: generatorRole, at: l.generator})
	l.addVertex(vertex{id: l.spec.Client, role: clientRole, at: l.client})
	for i, b := range l.spec.Balancers {
		l.addVertex(vertex{id: b.ID, role: balancerRole, at: l.balancers[i].id, index: i})
	}
	for i, s := range l.spec.Servers {
		l.addVertex(vertex{id: s.ID, role: serverRole, at: l.servers[i], index: i})
	}
}

func (l *loader) addVertex(b vertex) {
	if b.id == "" {
		return
	}
	if first, ok := l.graph.byID[b.id]; ok {
		b.at.Refuse(fmt.Sprintf("the id %s a second time (%s has it on line %d)", b.id, first.role, first.at.Line()),
			"ids that are unique over generator, client, load balancers and servers", "")
		return
	}
	b.covers = make(map[string]scenario.Value)
	l.graph.vertices = append(l.graph.vertices, &b)
	l.graph.byID[b.id] = &b
}

func (l *loader) checkEdgeIDs() {
	for i, e := range l.spec.Edges {
		if e.ID == "" {
			continue
		}
		if first, ok := l.graph.edgeIDs[e.ID]; ok {
			l.edges[i].id.Refuse(fmt.Sprintf("the id %s a second time (the first is on line %d)", e.ID, l.edges[first].id.Line()), "unique ids of edges", "")
			continue
		}
		l.graph.edgeIDs[e.ID] = i
	}
}

// find gives the box with an id; where there is none it refuses at.
func (l *loader) find(at scenario.Value, id, want string, roles ...role) *vertex {
	if b, ok := l.graph.byID[id]; ok || id == "" {
		return b
	}
	if l.idsMissing {
		return nil
	}
	var ids []string
	for _, b := range l.graph.vertices {
		for _, r := range roles {
			if b.role == r {
				ids = append(ids, b.id)
			}
		}
	}
	at.Refuse("the unknown id "+id, want, scenario.Suggest(id, ids))
	return nil
}

// checkCovered notes in b what the file's server_covered says.
func (l *loader) checkCovered(b *vertex) {
	at := l.balancers[b.index]
	b.doubtful = at.refused
	for i, item := range at.covered {
		id := at.names[i]
		before := l.r.Refusals()
		c := l.find(item, id, "a server or another load balancer", serverRole, balancerRole)
		switch {
		case c == nil:
		case c == b:
			item.Refuse(id+", which is this load balancer itself", "servers or other load balancers", "")
		case c.role != serverRole && c.role != balancerRole:
			item.Refuse(fmt.Sprintf("%s, which is %s", id, c.role), "a server or another load balancer", "")
		case c.coveredBy == b:
			item.Refuse(id+" a second time", "every server once", "remove one")
		case c.coveredBy != nil:
			item.Refuse(fmt.Sprintf("%s, which %s covers already", id, c.coveredBy.id), "every server and load balancer covered once", "")
		default:
			c.coveredBy = b
			b.covers[id] = item
		}
		b.doubtful = b.doubtful || c == nil || l.r.Refusals() > before
	}
}

// checkEdge holds the ends of one edge to the rules and adds it to its source.
func (l *loader) checkEdge(i int) {
	e, at := l.spec.Edges[i], l.edges[i]
	src := l.find(at.source, e.Source, "the generator, the client, a load balancer or a server", generatorRole, clientRole, balancerRole, serverRole)
	if src == nil {
		return
	}
	before := l.r.Refusals()
	dst := l.find(at.target, e.Target, "the client, a load balancer or a server", clientRole, balancerRole, serverRole)
	if dst != nil {
		l.checkEnds(i, src, dst)
	}
	if dst == nil || l.r.Refusals() > before {
		src.outRefused = true
		return
	}
	src.out = append(src.out, i)
}

// checkEnds refuses an edge between things that requests never pass between.
func (l *loader) checkEnds(i int, src, dst *vertex) {
	at := l.edges[i]
	switch {
	case src == dst:
		at.target.Refuse(dst.id+", which is the source too", "a target that is not the source", "")
	case dst.role == generatorRole:
		at.target.Refuse(dst.id+", which is the generator", "the client, a load balancer or a server", "the generator can only be a source")
	case src.role == generatorRole && dst.role != clientRole:
		at.target.Refuse(fmt.Sprintf("%s, which is %s", dst.id, dst.role), "the client "+l.spec.Client, "the generator sends to the client")
	case src.role == balancerRole:
		l.checkBalancerEdge(i, src, dst)
	case len(src.out) > 0:
		first := l.edges[src.out[0]]
		at.source.Refuse(fmt.Sprintf("a second edge from %s, which is %s (the first is on line %d)", src.id, src.role, first.source.Line()),
			"one outgoing edge", "only a load balancer has several")
	}
}

// checkBalancerEdge holds an edge of a balancer against what the balancer covers.
func (l *loader) checkBalancerEdge(i int, src, dst *vertex) {
	at := l.edges[i]
	for _, j := range src.out {
		if l.spec.Edges[j].Target == dst.id {
			at.target.Refuse(fmt.Sprintf("a second edge from %s to %s (the first is on line %d)", src.id, dst.id, l.edges[j].target.Line()), "one", "")
			return
		}
	}
	_, listed := src.covers[dst.id]
	switch {
	case listed || src.doubtful:
	case dst.role == clientRole:
		at.target.Refuse(dst.id+", which is the client", "a server or a load balancer", "servers answer to the client, load balancers don't")
	case !l.balancers[src.index].derived:
		at.target.Refuse(fmt.Sprintf("%s, which is not among the server_covered of %s", dst.id, src.id), "something that it covers", "add it to server_covered or remove the edge")
	case dst.coveredBy != nil:
		at.target.Refuse(fmt.Sprintf("%s, which %s covers already", dst.id, dst.coveredBy.id), "every server and load balancer covered once", "")
	default:
		dst.coveredBy = src
		src.covers[dst.id] = at.target
	}
}

// checkOut sees that requests get on from b.
func (l *loader) checkOut(b *vertex) {
	if l.edgesMissing || b.outRefused {
		return
	}
	if b.role != balancerRole {
		if len(b.out) == 0 {
			b.at.Refuse("no edge with the source "+b.id, "one, for requests to get on", "add it to topology_graph.edges")
		}
		return
	}
	at := l.balancers[b.index]
	for i, item := range at.covered {
		if !b.doubtful && !b.leadsTo(l.spec, at.names[i]) {
			item.Refuse(fmt.Sprintf("no edge from %s to %s", b.id, at.names[i]), "one to everything that a load balancer covers", "add it to topology_graph.edges")
		}
	}
	if at.derived && len(b.out) == 0 {
		b.at.Refuse("a load balancer that covers nothing", "at least one server", "list it in server_covered and add an edge to it")
	}
}

func (b *vertex) leadsTo(s *Spec, id string) bool {
	for _, i := range b.out {
		if s.Edges[i].Target == id {
			return true
		}
	}
	return false
}

// checkCycles refuses edges that lead a request round for ever. The client's own
// edges count, those that lead back to it don't.
func (l *loader) checkCycles() {
	state := make(map[*vertex]int) // 0: new, 1: on the way, 2: done
	var way []string
	var visit func(b *vertex)
	visit = func(b *vertex) {
		state[b] = 1
		way = append(way, b.id)
		for _, i := range b.out {
			next := l.graph.byID[l.spec.Edges[i].Target]
			if next.role == clientRole {
				continue
			}
			if state[next] == 1 {
				l.refuseCycle(i, way, next.id)
			} else if state[next] == 0 {
				visit(next)
			}
		}
		way = way[:len(way)-1]
		state[b] = 2
	}
	for _, b := range l.graph.vertices {
		if state[b] == 0 {
			visit(b)
		}
	}
}

func (l *loader) refuseCycle(edge int, way []string, back string) {
	for way[0] != back {
		way = way[1:]
	}
	l.edges[edge].target.Refuse("a cycle: "+strings.Join(way, " -> ")+" -> "+back, "edges that lead back to the client", "")
}

// noteUnreachable remarks on boxes that no request gets to.
func (l *loader) noteUnreachable() {
	seen := make(map[*vertex]bool)
	var visit func(b *vertex)
	visit = func(b *vertex) {
		if seen[b] {
			return
		}
		seen[b] = true
		for _, i := range b.out {
			visit(l.graph.byID[l.spec.Edges[i].Target])
		}
	}
	visit(l.graph.byID[l.spec.Workload.ID])
	for _, b := range l.graph.vertices {
		if !seen[b] {
			b.at.Note("no edge leads to " + b.id + ", so it gets no request")
		}
	}
}
