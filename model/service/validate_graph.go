// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

// checkGraph builds the topology, without what it refuses, and holds it to the rules of
// docs/scenario-service.md, "Topology".
func (l *loader) checkGraph() {
	l.spec.topology = newTopology(len(l.spec.Edges))
	l.addBoxes()
	l.checkEdgeIDs()
	if l.serversMissing {
		return // every edge would be wrong
	}
	for n := range l.boxes {
		if l.box(n).role == balancerRole {
			l.checkCovered(n)
		}
	}
	for i := range l.edges {
		l.checkEdge(i)
	}
	for n := range l.boxes {
		l.checkOut(n)
	}
	l.checkCycles()
}

func (l *loader) box(n int) *box { return &l.spec.topology.boxes[n] }

func (l *loader) addBoxes() {
	l.addBox(generatorRole, 0, l.spec.Workload.ID, l.generator)
	l.addBox(clientRole, 0, l.spec.Client, l.client)
	for i, b := range l.spec.Balancers {
		l.addBox(balancerRole, i, b.ID, l.balancers[i].id)
	}
	for i, s := range l.spec.Servers {
		l.addBox(serverRole, i, s.ID, l.servers[i])
	}
}

func (l *loader) addBox(r role, index int, id string, at scenario.Value) {
	if id == "" {
		return
	}
	if n, ok := l.spec.topology.nodes[id]; ok {
		at.Refuse(fmt.Sprintf("the id %s a second time (%s has it on line %d)", id, l.box(n).role,
			l.boxes[n].id.Line()),
			"ids that are unique over generator, client, load balancers and servers", "")
		return
	}
	l.spec.topology.add(r, index, id)
	l.boxes = append(l.boxes, boxAt{id: at, coveredBy: -1, covers: make(map[string]scenario.Value)})
}

func (l *loader) checkEdgeIDs() {
	l.edgeIDs = make(map[string]int)
	for i, e := range l.spec.Edges {
		if e.ID == "" {
			continue
		}
		if first, ok := l.edgeIDs[e.ID]; ok {
			l.edges[i].id.Refuse(fmt.Sprintf("the id %s a second time (the first is on line %d)", e.ID,
				l.edges[first].id.Line()),
				"unique ids of edges", "")
			continue
		}
		l.edgeIDs[e.ID] = i
	}
}

// find gives the box with an id; where there is none it refuses at, and gives -1.
func (l *loader) find(at scenario.Value, id, want string, roles ...role) int {
	if n, ok := l.spec.topology.nodes[id]; ok {
		return n
	}
	if id == "" || l.idsMissing {
		return -1
	}
	var ids []string
	for _, b := range l.spec.topology.boxes {
		if slices.Contains(roles, b.role) {
			ids = append(ids, b.id)
		}
	}
	at.Refuse("the unknown id "+id, want, scenario.Suggest(id, ids))
	return -1
}

// checkCovered keeps the file's server_covered of balancer n.
func (l *loader) checkCovered(n int) {
	at := l.balancers[l.box(n).index]
	b := &l.boxes[n]
	b.doubtful = at.refused
	for i, item := range at.covered {
		id := at.names[i]
		before := l.r.Refusals()
		c := l.find(item, id, "a server or another load balancer", serverRole, balancerRole)
		if c >= 0 {
			l.checkCoveredItem(n, c, item)
		}
		b.doubtful = b.doubtful || c < 0 || l.r.Refusals() > before
	}
}

// checkCoveredItem holds one item of server_covered, which names box c, to the rules.
func (l *loader) checkCoveredItem(n, c int, item scenario.Value) {
	id, role := l.box(c).id, l.box(c).role
	switch by := l.boxes[c].coveredBy; {
	case c == n:
		item.Refuse(id+", which is this load balancer itself", "servers or other load balancers", "")
	case role != serverRole && role != balancerRole:
		item.Refuse(fmt.Sprintf("%s, which is %s", id, role), "a server or another load balancer", "")
	case by == n:
		item.Refuse(id+" a second time", "every server once", "remove one")
	case by >= 0:
		item.Refuse(fmt.Sprintf("%s, which %s covers already", id, l.box(by).id),
			"every server and load balancer covered once", "")
	default:
		l.boxes[c].coveredBy = n
		l.boxes[n].covers[id] = item
	}
}

// checkEdge holds the ends of one edge to the rules and adds it to its source.
func (l *loader) checkEdge(i int) {
	e, at := l.spec.Edges[i], l.edges[i]
	src := l.find(at.source, e.Source, "the generator, the client, a load balancer or a server",
		generatorRole, clientRole, balancerRole, serverRole)
	if src < 0 {
		return
	}
	before := l.r.Refusals()
	dst := l.find(at.target, e.Target, "the client, a load balancer or a server", clientRole, balancerRole, serverRole)
	if dst >= 0 {
		l.checkEnds(i, src, dst)
	}
	if dst < 0 || l.r.Refusals() > before {
		l.boxes[src].outRefused = true
		return
	}
	l.spec.topology.connect(i, src, dst)
}

// checkEnds refuses an edge between things that requests never pass between.
func (l *loader) checkEnds(i, from, to int) {
	at, src, dst := l.edges[i], l.box(from), l.box(to)
	switch {
	case from == to:
		at.target.Refuse(dst.id+", which is the source too", "a target that is not the source", "")
	case dst.role == generatorRole:
		at.target.Refuse(dst.id+", which is the generator", "the client, a load balancer or a server",
			"the generator can only be a source")
	case src.role == generatorRole && dst.role != clientRole:
		at.target.Refuse(fmt.Sprintf("%s, which is %s", dst.id, dst.role), "the client "+l.spec.Client,
			"the generator sends to the client")
	case src.role == balancerRole:
		l.checkBalancerEdge(i, from, to)
	case len(src.out) > 0:
		first := l.edges[src.out[0]]
		at.source.Refuse(fmt.Sprintf("a second edge from %s, which is %s (the first is on line %d)", src.id, src.role,
			first.source.Line()),
			"one outgoing edge", "only a load balancer has several")
	}
}

// checkBalancerEdge holds an edge of a balancer against what the balancer covers.
func (l *loader) checkBalancerEdge(i, from, to int) {
	at, src, dst := l.edges[i], l.box(from), l.box(to)
	for _, j := range src.out {
		if l.spec.topology.edges[j].to == to {
			at.target.Refuse(fmt.Sprintf("a second edge from %s to %s (the first is on line %d)", src.id, dst.id,
				l.edges[j].target.Line()),
				"one", "")
			return
		}
	}
	_, listed := l.boxes[from].covers[dst.id]
	switch by := l.boxes[to].coveredBy; {
	case listed || l.boxes[from].doubtful:
	case dst.role == clientRole:
		at.target.Refuse(dst.id+", which is the client", "a server or a load balancer",
			"servers answer to the client, load balancers don't")
	case !l.balancers[src.index].derived:
		at.target.Refuse(fmt.Sprintf("%s, which is not among the server_covered of %s", dst.id, src.id),
			"something that it covers", "add it to server_covered or remove the edge")
	case by >= 0:
		at.target.Refuse(fmt.Sprintf("%s, which %s covers already", dst.id, l.box(by).id),
			"every server and load balancer covered once", "")
	default:
		l.boxes[to].coveredBy = from
		l.boxes[from].covers[dst.id] = at.target
	}
}

// checkOut makes sure that requests get on from box n.
func (l *loader) checkOut(n int) {
	b, state := l.box(n), &l.boxes[n]
	if l.edgesMissing || state.outRefused {
		return
	}
	if b.role != balancerRole {
		if len(b.out) == 0 {
			state.id.Refuse("no edge with the source "+b.id, "one, for requests to get on",
				"add it to topology_graph.edges")
		}
		return
	}
	at := l.balancers[b.index]
	for i, item := range at.covered {
		if !state.doubtful && !l.leadsTo(b, at.names[i]) {
			item.Refuse(fmt.Sprintf("no edge from %s to %s", b.id, at.names[i]),
				"one to everything that a load balancer covers",
				"add it to topology_graph.edges")
		}
	}
	if at.derived && len(b.out) == 0 {
		state.id.Refuse("a load balancer that covers nothing", "at least one server",
			"list it in server_covered and add an edge to it")
	}
}

func (l *loader) leadsTo(b *box, id string) bool {
	return slices.ContainsFunc(b.out, func(i int) bool { return l.spec.Edges[i].Target == id })
}

// checkCycles refuses edges on which a request would never come to an end. The client's
// own edges count, those that lead back to it don't.
func (l *loader) checkCycles() {
	const (
		unseen = iota
		onPath
		done
	)
	state := make([]int, len(l.boxes))
	var path []string
	var visit func(n int)
	visit = func(n int) {
		state[n] = onPath
		path = append(path, l.box(n).id)
		for _, i := range l.box(n).out {
			next := l.spec.topology.edges[i].to
			if l.box(next).role == clientRole {
				continue
			}
			if state[next] == onPath {
				l.refuseCycle(i, path, l.box(next).id)
			} else if state[next] == unseen {
				visit(next)
			}
		}
		path = path[:len(path)-1]
		state[n] = done
	}
	for n := range l.boxes {
		if state[n] == unseen {
			visit(n)
		}
	}
}

func (l *loader) refuseCycle(edge int, path []string, back string) {
	for path[0] != back {
		path = path[1:]
	}
	l.edges[edge].target.Refuse("a cycle: "+strings.Join(path, " -> ")+" -> "+back,
		"edges that lead back to the client", "")
}

// noteUnreachable notes boxes that no request gets to.
func (l *loader) noteUnreachable() {
	reached := make([]bool, len(l.boxes))
	l.spec.topology.markReached(nodeGenerator, reached)
	for n := range l.boxes {
		if !reached[n] {
			l.boxes[n].id.Note("no edge leads to " + l.box(n).id + ", so it gets no request")
		}
	}
}
