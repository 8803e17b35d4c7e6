// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/disco-sim/disco/scenario"
)

func (l *loader) readTopology(v scenario.Value) {
	s := v.Section("nodes", "edges")
	nodes := s.Field("nodes").Section("client", "servers", "load_balancer", "load_balancers")
	client := nodes.Field("client").Section("id", "type")
	l.client = client.Field("id")
	l.spec.Client = l.boxID(l.client)
	client.Field("type").WordOr("client", "client")
	l.readBalancers(nodes)
	items := nodes.Field("servers").List()
	l.servers = make([]serverAt, 0, len(items)) // l.groups points into it
	for _, item := range items {
		l.readServer(item)
	}
	if len(l.spec.Servers) == 0 {
		l.serversMissing = true
		if servers := nodes.Field("servers"); servers.IsList() {
			servers.Refuse("no server", "at least one", "")
		}
	}
	before := l.r.Refusals()
	edges := s.Field("edges").List()
	l.expectEdges(len(edges))
	for _, item := range edges {
		l.readEdge(item)
	}
	if len(l.edges) == 0 && l.r.Refusals() > before {
		l.edgesMissing = true
	}
}

// expectEdges makes room for so many entries, where each group has an edge to and one from each member, as nearly every
// file has it: lists of millions are not copied while they grow.
func (l *loader) expectEdges(entries int) {
	for _, group := range l.groups {
		entries += 2 * group.size()
	}
	l.spec.Edges, l.edges = make([]Edge, 0, entries), make([]*edgeAt, 0, entries)
}

// readBalancers reads the one load_balancer of the schema, or the list that disco
// allows in its place.
func (l *loader) readBalancers(nodes scenario.Section) {
	one, list := nodes.Field("load_balancer").OrNull(), nodes.Field("load_balancers").OrNull()
	if one.Present() && list.Present() {
		list.Refuse("load_balancers beside load_balancer", "one of the two",
			"put all load balancers into load_balancers")
	}
	if one.Present() {
		l.readBalancer(one)
	}
	if list.Present() {
		for _, item := range list.List() {
			l.readBalancer(item)
		}
	}
}

func (l *loader) readBalancer(v scenario.Value) {
	s := v.Section("id", "type", "algorithms", "server_covered")
	b := Balancer{
		ID:        l.boxID(s.Field("id")),
		Algorithm: s.Field("algorithms").WordOr(RoundRobin, RoundRobin, LeastConnection),
	}
	s.Field("type").WordOr("load_balancer", "load_balancer")
	at := balancerAt{id: s.Field("id"), derived: true}
	before := l.r.Refusals()
	if covered := s.Field("server_covered"); covered.Present() {
		at.covered = covered.List()
		at.derived = covered.IsList() && len(at.covered) == 0
	}
	for _, item := range at.covered {
		at.names = append(at.names, item.Text())
	}
	at.refused = l.r.Refusals() > before
	l.spec.Balancers = append(l.spec.Balancers, b)
	l.balancers = append(l.balancers, at)
}

func (l *loader) readServer(v scenario.Value) {
	s := v.Section("id", "type", "server_resources", "endpoints", "count")
	srv := Server{ID: l.boxID(s.Field("id"))}
	s.Field("type").WordOr("server", "server")
	before := l.r.Refusals()
	res := s.Field("server_resources").Section("cpu_cores", "ram_mb", "db_connection_pool")
	srv.Cores = res.Field("cpu_cores").IntOr(defaultCores, scenario.AtLeast(coresMin).AtMost(coresMax))
	srv.RAM = float64(res.Field("ram_mb").IntOr(defaultRAM, scenario.AtLeast(ramMin).AtMost(ramMax)))
	if pool := res.Field("db_connection_pool").OrNull(); pool.Present() {
		pool.Int(scenario.AtLeast(1))
		pool.Note("is accepted and has no effect: the schema reserves it")
	}
	ramKnown := l.r.Refusals() == before
	items := s.Field("endpoints").List()
	if s.Field("endpoints").IsList() && len(items) == 0 {
		s.Field("endpoints").Refuse("no endpoint", "at least one", "")
	}
	for _, item := range items {
		ep := l.readEndpoint(item, len(items))
		if ramKnown && ep.RAM > srv.RAM {
			item.Refuse(fmt.Sprintf("ram steps that need %g MB together", ep.RAM),
				fmt.Sprintf("at most the %g MB that the server has", srv.RAM),
				"a request would wait for them for ever: raise ram_mb or lower necessary_ram")
		}
		srv.Endpoints = append(srv.Endpoints, ep)
	}
	l.addServers(srv, s.Field("id"), s.Field("count"))
}

// addServers adds the server, or the group of servers, of one entry. What its members are shares one spec.
func (l *loader) addServers(srv Server, id, number scenario.Value) {
	at := serverAt{id: id, first: len(l.spec.Servers)}
	if number.Present() {
		at.count = number.Int(scenario.Between(1, serversMax))
		if sum := len(l.spec.Servers) + at.count; sum > serversMax {
			number.Refuse(fmt.Sprintf("%d servers with those before", sum), fmt.Sprintf("at most %d", serversMax), "")
			at.count = 0
		}
		if at.count == 0 {
			l.idsMissing = true // an id may be that of a member
			at.count = 1
		}
		if !l.memberIDsFit(srv.ID, at.id, at.count) {
			srv.ID, l.idsMissing = "", true
		}
		if srv.ID == "" {
			at.count = 0
		}
	}
	at.name = srv.ID
	l.servers = append(l.servers, at)
	if at.count > 0 && l.groups[srv.ID] == nil {
		l.groups[srv.ID] = &l.servers[len(l.servers)-1]
	}
	l.spec.Servers = slices.Grow(l.spec.Servers, at.size())
	for _, name := range memberIDs(srv.ID, at.count) {
		srv.ID = name
		l.spec.Servers = append(l.spec.Servers, srv)
	}
}

// memberIDsFit refuses a group's id that is good, but too long with the numbers of the members.
func (l *loader) memberIDsFit(id string, at scenario.Value, count int) bool {
	most := idMax - len("-") - digits(count-1)
	if id == "" || utf8.RuneCountInString(id) <= most {
		return true
	}
	at.Refuse(fmt.Sprintf("an id of %d characters, for %d members", utf8.RuneCountInString(id), count),
		fmt.Sprintf("at most %d, so that those of the members have at most %d", most, idMax), "")
	return false
}

// readEndpoint reads one of a server's endpoints, of which there are several.
func (l *loader) readEndpoint(v scenario.Value, several int) Endpoint {
	s := v.Section("endpoint_name", "probability", "steps")
	ep := Endpoint{Name: strings.ToLower(s.Field("endpoint_name").Text())}
	if p := s.Field("probability"); p.Present() {
		const slack = 0.01 // 0.33 is meant as a third
		if x := p.Float(scenario.Between(0, 1)); x < 1/float64(several)-slack || x > 1/float64(several)+slack {
			p.Note("is accepted and has no effect: a request picks each endpoint equally often")
		}
	}
	for _, item := range s.Field("steps").List() {
		l.readStep(item, &ep)
	}
	return ep
}

// operations maps the kind of a step to the one field that its step_operation has.
var operations = map[string]string{
	"initial_parsing":     "cpu_time",
	"cpu_bound_operation": "cpu_time",
	"ram":                 "necessary_ram",
	"io_task_spawn":       "io_waiting_time",
	"io_llm":              "io_waiting_time",
	"io_wait":             "io_waiting_time",
	"io_db":               "io_waiting_time",
	"io_cache":            "io_waiting_time",
}

// stepWords and operationWords are the words of operations in a fixed order.
var (
	stepWords = []string{"initial_parsing", "cpu_bound_operation", "ram", "io_task_spawn", "io_llm", "io_wait",
		"io_db", "io_cache"}
	operationWords = []string{"cpu_time", "io_waiting_time", "necessary_ram"}
)

// readStep adds one step to ep.
func (l *loader) readStep(v scenario.Value, ep *Endpoint) {
	s := v.Section("kind", "step_operation")
	kind := s.Field("kind").Word(stepWords...)
	before := l.r.Refusals()
	op := s.Field("step_operation").Section(operationWords...)
	var given []string
	for _, name := range operationWords {
		if op.Field(name).Present() {
			given = append(given, name)
		}
	}
	if len(given) == 0 && l.r.Refusals() > before {
		return // a field that is unknown may be the operation that is missing
	}
	if op.At().IsMapping() && len(given) != 1 {
		want := "exactly one"
		if kind != "" {
			want = fmt.Sprintf("exactly one, %s, in a step of kind %s", operations[kind], kind)
		}
		op.At().Refuse(fmt.Sprintf("%d operations", len(given)), want, "")
		return
	}
	if len(given) == 0 {
		return
	}
	value := op.Field(given[0])
	if kind != "" && operations[kind] != given[0] {
		value.Refuse(fmt.Sprintf("%s in a step of kind %s", given[0], kind), operations[kind], "")
		return
	}
	if given[0] == "necessary_ram" {
		ep.RAM += value.Float(scenario.MoreThan(0).AtMost(ramMax))
		return
	}
	ep.Steps = append(ep.Steps, Step{CPU: given[0] == "cpu_time", Kind: kind, Time: l.duration(value)})
}

func (l *loader) readEdge(v scenario.Value) {
	s := v.Section("id", "source", "target", "latency", "edge_type", "dropout_rate")
	at := &edgeAt{id: s.Field("id"), source: s.Field("source"), target: s.Field("target"), first: len(l.edges)}
	at.name = at.id.ID(idMax)
	e := Edge{
		Source:  at.source.Text(),
		Target:  at.target.Text(),
		Latency: l.latency(s.Field("latency")),
		Dropout: s.Field("dropout_rate").FloatOr(defaultDropout, scenario.Between(0, 1)),
	}
	s.Field("edge_type").WordOr("network_connection", "network_connection")
	if e.Source == "" || e.Target == "" {
		l.edgesMissing = true
	}
	l.addEdges(e, at)
}

// addEdges adds the edge of one entry, or an edge for each member where one of its ends is a group.
func (l *loader) addEdges(e Edge, at *edgeAt) {
	from, to := l.groups[e.Source], l.groups[e.Target]
	end, group := at.source, from
	if from == nil {
		end, group = at.target, to
	}
	switch {
	case from != nil && to != nil:
		at.target.Refuse(fmt.Sprintf("%s, a group of servers, at the other end of an edge from the group %s", e.Target,
			e.Source), "at most one end that is a group", "put a load balancer between, or write servers one by one")
		group = nil
	case group != nil && len(l.edges)+group.count > edgesMax:
		end.Refuse(fmt.Sprintf("%d edges with those before", len(l.edges)+group.count),
			fmt.Sprintf("at most %d where groups are", edgesMax), "")
		group = nil
	}
	at.refused = group == nil && (from != nil || to != nil)
	if group != nil {
		at.count = group.count
		if !l.memberIDsFit(at.name, at.id, at.count) {
			at.name = ""
		}
	}
	l.spec.Edges = slices.Grow(l.spec.Edges, max(1, at.count))
	l.edges = slices.Grow(l.edges, max(1, at.count))
	l.edgeEntries = append(l.edgeEntries, at)
	for i, id := range memberIDs(at.name, at.count) {
		switch e.ID = id; {
		case group == nil:
		case group == from:
			e.Source = l.spec.Servers[group.first+i].ID
		default:
			e.Target = l.spec.Servers[group.first+i].ID
		}
		l.spec.Edges = append(l.spec.Edges, e)
		l.edges = append(l.edges, at)
	}
}
