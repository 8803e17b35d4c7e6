// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"strings"

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
	for _, item := range nodes.Field("servers").List() {
		l.readServer(item)
	}
	if len(l.spec.Servers) == 0 {
		l.serversMissing = true
		if servers := nodes.Field("servers"); servers.IsList() {
			servers.Refuse("no server", "at least one", "")
		}
	}
	before := l.r.Refusals()
	for _, item := range s.Field("edges").List() {
		l.readEdge(item)
	}
	if len(l.edges) == 0 && l.r.Refusals() > before {
		l.edgesMissing = true
	}
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
	s := v.Section("id", "type", "server_resources", "endpoints")
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
	l.spec.Servers = append(l.spec.Servers, srv)
	l.servers = append(l.servers, s.Field("id"))
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
	at := edgeAt{id: s.Field("id"), source: s.Field("source"), target: s.Field("target")}
	e := Edge{
		ID:      at.id.ID(idMax),
		Source:  at.source.Text(),
		Target:  at.target.Text(),
		Latency: l.latency(s.Field("latency")),
		Dropout: s.Field("dropout_rate").FloatOr(defaultDropout, scenario.Between(0, 1)),
	}
	s.Field("edge_type").WordOr("network_connection", "network_connection")
	if e.Source == "" || e.Target == "" {
		l.edgesMissing = true
	}
	l.spec.Edges = append(l.spec.Edges, e)
	l.edges = append(l.edges, at)
}
