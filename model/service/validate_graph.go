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
	boxes := 2 + len(l.spec.Balancers) + len(l.spec.Servers) // millions aren't to be copied while the lists grow
	l.spec.topology.boxes, l.boxes = make([]box, 0, boxes), make([]boxAt, 0, boxes)
	l.addBoxes()
	l.checkEdgeIDs()
	if l.serversMissing || l.idsDoubtful {
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
	l.addBox(generatorRole, 0, l.spec.Workload.ID, &l.generator)
	l.addBox(clientRole, 0, l.spec.Client, &l.client)
	for i, b := range l.spec.Balancers {
		l.addBox(balancerRole, i, b.ID, &l.balancers[i].id)
	}
	for i := range l.servers {
		s := &l.servers[i]
		if s.count == 0 {
			l.addBox(serverRole, s.first, l.spec.Servers[s.first].ID, &s.id)
		} else {
			l.addGroup(s)
		}
	}
	for id, m := range l.spec.topology.nodes { // problems are sorted by their place
		if n, ok := l.spec.topology.nodes.member(id); ok {
			l.boxes[m.first].id.Refuse(fmt.Sprintf("the id %s a second time (a member of the group on line %d has it)",
				id, l.boxes[n].id.Line()), uniqueBoxes, "")
			l.idsDoubtful = true
		}
	}
}

const uniqueBoxes = "ids that are unique over generator, client, load balancers and servers"

func (l *loader) addBox(r role, index int, id string, at *scenario.Value) {
	if id == "" || l.known(id, at) {
		return
	}
	l.spec.topology.add(r, index, id)
	l.boxes = append(l.boxes, newBoxAt(at))
}

func newBoxAt(id *scenario.Value) boxAt { return boxAt{id: id, coveredBy: -1, balancerEdge: -1} }

// known refuses an id that something else has.
func (l *loader) known(id string, at *scenario.Value) bool {
	m, ok := l.spec.topology.nodes[id]
	if !ok {
		return false
	}
	role := l.box(m.first).role.String()
	if m.count > 0 {
		role = "a group of servers"
	}
	at.Refuse(fmt.Sprintf("the id %s a second time (%s has it on line %d)", id, role, l.boxes[m.first].id.Line()),
		uniqueBoxes, "")
	return true
}

func (l *loader) addGroup(s *serverAt) {
	if l.known(s.name, &s.id) {
		l.idsMissing = true // those of its members
		return
	}
	l.spec.topology.addGroup(s.name, s.first, l.spec.Servers[s.first:s.first+s.count])
	at := newBoxAt(&s.id)
	l.boxes = slices.Grow(l.boxes, s.count)
	for range s.count {
		l.boxes = append(l.boxes, at)
	}
}

func (l *loader) checkEdgeIDs() {
	l.edgeIDs = make(names)
	for _, at := range l.edgeEntries {
		if at.name == "" {
			continue
		}
		if m, ok := l.edgeIDs[at.name]; ok {
			at.id.Refuse(fmt.Sprintf("the id %s a second time (the first is on line %d)", at.name,
				l.edges[m.first].id.Line()),
				"unique ids of edges", "")
			continue
		}
		l.edgeIDs[at.name] = members{at.first, at.count}
	}
	for _, at := range l.edgeEntries {
		if i, ok := l.edgeIDs.member(at.name); ok {
			at.id.Refuse(fmt.Sprintf("the id %s a second time (one of the edges on line %d has it)", at.name,
				l.edges[i].id.Line()), "unique ids of edges", "")
		}
	}
}

// find gives the box with an id; where there is none it refuses at, and gives -1.
func (l *loader) find(at scenario.Value, id, want string, roles ...role) int {
	nodes := l.spec.topology.nodes
	if n, ok := nodes.thing(id); ok {
		return n
	}
	if id == "" || l.idsMissing {
		return -1
	}
	if m, ok := nodes[id]; ok {
		at.Refuse(fmt.Sprintf("%s, which is a group of %d servers", id, m.count), want,
			fmt.Sprintf("name one of them, e.g. %s", l.box(m.first).id))
		return -1
	}
	var ids []string
	for written, m := range nodes {
		if slices.Contains(roles, l.box(m.first).role) {
			ids = append(ids, written)
		}
	}
	slices.Sort(ids)
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
		m, group := l.spec.topology.nodes[id]
		if group = group && m.count > 0; !group {
			m = members{l.find(item, id, "a server or another load balancer", serverRole, balancerRole), 1}
		}
		for c := m.first; c >= 0 && c < m.first+m.count && l.r.Refusals() == before; c++ {
			l.checkCoveredItem(n, c, item)
		}
		b.doubtful = b.doubtful || m.first < 0 || l.r.Refusals() > before
	}
}

// checkCoveredItem holds one item of server_covered, which names box c, to the rules.
func (l *loader) checkCoveredItem(n, c int, item scenario.Value) {
	id, role := l.box(c).id, l.box(c).role
	switch by := int(l.boxes[c].coveredBy); {
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
		l.boxes[c].coveredBy = int32(n)
		l.boxes[n].covers++
	}
}

// checkEdge holds the ends of one edge to the rules and adds it to its source. Of the edges of a group, the first that
// is refused speaks for all.
func (l *loader) checkEdge(i int) {
	e, at := &l.spec.Edges[i], l.edges[i]
	if at.refused {
		if n, ok := l.spec.topology.nodes.thing(e.Source); ok {
			l.boxes[n].outRefused = true
		}
		m := l.spec.topology.nodes[e.Source] // a group where its edges weren't even made
		for n := m.first; n < m.first+m.count; n++ {
			l.boxes[n].outRefused = true
		}
		return
	}
	src := l.find(at.source, e.Source, "the generator, the client, a load balancer or a server",
		generatorRole, clientRole, balancerRole, serverRole)
	if src < 0 {
		at.refused = true
		return
	}
	before := l.r.Refusals()
	dst := l.find(at.target, e.Target, "the client, a load balancer or a server", clientRole, balancerRole, serverRole)
	if dst >= 0 {
		l.checkEnds(i, src, dst)
	}
	if dst < 0 || l.r.Refusals() > before {
		at.refused, l.boxes[src].outRefused = true, true
		return
	}
	if b := &l.boxes[dst]; l.box(src).role == balancerRole && (b.balancerEdge < 0 || int(b.coveredBy) == src) {
		b.balancerEdge = int32(i)
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
	if l.leadsTo(from, to) {
		at.target.Refuse(fmt.Sprintf("a second edge from %s to %s (the first is on line %d)", src.id, dst.id,
			l.edges[l.boxes[to].balancerEdge].target.Line()),
			"one", "")
		return
	}
	switch by := int(l.boxes[to].coveredBy); {
	case by == from || l.boxes[from].doubtful:
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
		l.boxes[to].coveredBy = int32(from)
		l.boxes[from].covers++
	}
}

// checkOut makes sure that requests get on from box n.
func (l *loader) checkOut(n int) {
	b, state := l.box(n), &l.boxes[n]
	if l.edgesMissing || state.outRefused {
		return
	}
	if b.role != balancerRole {
		if len(b.out) == 0 && l.once(state) {
			state.id.Refuse("no edge with the source "+b.id, "one, for requests to get on",
				"add it to topology_graph.edges")
		}
		return
	}
	at := l.balancers[b.index]
	for i, item := range at.covered {
		if !state.doubtful {
			l.checkReached(n, at.names[i], item)
		}
	}
	if at.derived && len(b.out) == 0 {
		state.id.Refuse("a load balancer that covers nothing", "at least one server",
			"list it in server_covered and add an edge to it")
	}
}

// once reports whether a box is the first of its group that is asked for.
func (l *loader) once(b *boxAt) bool {
	if l.complained == nil {
		l.complained = make(map[*scenario.Value]bool)
	}
	before := l.complained[b.id]
	l.complained[b.id] = true
	return !before
}

// checkReached makes sure that balancer n has an edge to what an item of its server_covered names.
func (l *loader) checkReached(n int, id string, item scenario.Value) {
	m := l.spec.topology.nodes[id]
	if m.count == 0 {
		m.first, _ = l.spec.topology.nodes.thing(id)
	}
	for c := m.first; c < m.first+max(1, m.count); c++ {
		if !l.leadsTo(n, c) {
			item.Refuse(fmt.Sprintf("no edge from %s to %s", l.box(n).id, l.box(c).id),
				"one to everything that a load balancer covers",
				"add it to topology_graph.edges")
			return
		}
	}
}

// leadsTo reports whether balancer from has an edge to a box, which at most one balancer covers.
func (l *loader) leadsTo(from, to int) bool {
	e := l.boxes[to].balancerEdge
	return e >= 0 && l.spec.topology.edges[e].from == from
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
	for n := 0; n < len(l.boxes); {
		first, at := -1, l.boxes[n].id
		several := 0
		for ; n < len(l.boxes) && l.boxes[n].id == at; n++ { // a group
			if !reached[n] {
				if several++; several == 1 {
					first = n
				}
			}
		}
		switch {
		case several == 1:
			at.Note("no edge leads to " + l.box(first).id + ", so it gets no request")
		case several > 1:
			at.Note(fmt.Sprintf("no edge leads to %s and %d more of the group, so they get no request", l.box(first).id,
				several-1))
		}
	}
}
