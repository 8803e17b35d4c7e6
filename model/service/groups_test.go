// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/scenario"
)

// groupFile writes scenarios that have groups of servers, in the short form or with all that the groups stand for.
type groupFile struct {
	short                   bool
	balancers, nodes, edges strings.Builder
	algorithm, steps        string
}

func (f *groupFile) servers(id string, count int) {
	const form = "      - { id: %s,%s server_resources: { cpu_cores: 2 }, endpoints: [%s] }\n"
	if f.short {
		fmt.Fprintf(&f.nodes, form, id, fmt.Sprintf(" count: %d,", count), f.steps)
		return
	}
	for i := range count {
		fmt.Fprintf(&f.nodes, form, fmt.Sprintf("%s-%d", id, i), "", f.steps)
	}
}

// edge joins two boxes; the one that ends in * is a group of so many.
func (f *groupFile) edge(id, from, to string, count int) {
	member := func(name string, i int) string {
		group, ok := strings.CutSuffix(name, "*")
		if !ok || f.short {
			return group
		}
		return group + "-" + strconv.Itoa(i)
	}
	group := strings.HasSuffix(to, "*") || strings.HasSuffix(from, "*")
	if !group || f.short {
		count = 1
	}
	for i := range count {
		name := id
		if group && !f.short {
			name += "-" + strconv.Itoa(i)
		}
		fmt.Fprintf(&f.edges, "    - { id: %s, source: %s, target: %s, dropout_rate: 0.02, "+
			"latency: { mean: 0.004, distribution: exponential } }\n", name, member(from, i), member(to, i))
	}
}

// balancer covers groups, or nothing that it says: what its edges lead to.
func (f *groupFile) balancer(id string, groups []string, counts []int) {
	var covered []string
	for k, g := range groups {
		if f.short {
			covered = append(covered, g)
			continue
		}
		for i := range counts[k] {
			covered = append(covered, fmt.Sprintf("%s-%d", g, i))
		}
	}
	fmt.Fprintf(&f.balancers, "      - { id: %s, algorithms: %s, server_covered: [%s] }\n", id, f.algorithm,
		strings.Join(covered, ", "))
}

func (f *groupFile) text(events string) string {
	return "rqs_input: { id: gen, avg_active_users: { mean: 300 }, avg_request_per_minute_per_user: { mean: 60 } }\n" +
		"topology_graph:\n  nodes:\n    client: { id: client }\n    load_balancers:\n" + f.balancers.String() +
		"    servers:\n" + f.nodes.String() + "  edges:\n" + f.edges.String() +
		"sim_settings: { total_simulation_time: 6 }\n" + events
}

var groupTopologies = map[string]func(f *groupFile, n int) string{
	"one balancer": func(f *groupFile, n int) string {
		f.servers("web", n)
		f.edge("to", "client", "lb", 0)
		f.balancer("lb", []string{"web"}, []int{n})
		f.edge("lb-web", "lb", "web*", n)
		f.edge("back", "web*", "client", n)
		if n == 1 {
			return "" // nobody else is up
		}
		return fmt.Sprintf("events:\n  - { event_id: a, target_id: web-%d, start: { kind: server_down, t_start: 1 }, "+
			"end: { kind: server_up, t_end: 3 } }\n  - { event_id: b, target_id: back-0, start: { kind: "+
			"network_spike_start, t_start: 2, spike_s: 0.5 }, end: { kind: network_spike_end, t_end: 4 } }\n", n-1)
	},
	"covered by edges, a database behind": func(f *groupFile, n int) string {
		f.servers("api", n)
		f.servers("db", 1)
		f.edge("api-db", "api*", "db-0", n)
		f.edge("lb-api", "lb", "api*", n)
		f.edge("to", "client", "lb", 0)
		f.balancer("lb", nil, nil)
		f.edge("back", "db-0", "client", 0)
		return ""
	},
	"two tiers": func(f *groupFile, n int) string {
		f.balancer("front", []string{"a", "b-1"}, []int{n, n + 1})
		f.servers("a", n)
		f.servers("b-1", n+1)
		f.balancer("inner", []string{"c"}, []int{3})
		f.servers("c", 3)
		f.edge("x", "a*", "inner", n)
		f.edge("y", "b-1*", "inner", n+1)
		f.edge("z", "front", "b-1*", n+1)
		f.edge("w", "front", "a*", n)
		f.edge("to", "client", "front", 0)
		f.edge("in-c", "inner", "c*", 3)
		f.edge("home", "c*", "client", 3)
		return ""
	},
}

// TestGroups: a file with groups is the scenario of the file that lists their members: the same spec, and on one to
// three engines the same hash and report of every simproc, and the same results as JSON.
func TestGroups(t *testing.T) {
	steps := map[string]string{
		"constant": "{ endpoint_name: /, steps: [{ kind: ram, step_operation: { necessary_ram: 64 } }, " +
			"{ kind: cpu_bound_operation, step_operation: { cpu_time: 0.01 } }] }",
		"drawn": "{ endpoint_name: /a, steps: [{ kind: io_wait, step_operation: { io_waiting_time: { mean: 0.02, " +
			"distribution: exponential } } }] }, { endpoint_name: /b, steps: [] }",
	}
	for name, build := range groupTopologies {
		for _, n := range []int{1, 2, 11, 101} {
			if invariants.Enabled && n != 11 { // it is about files, and takes most of a minute there
				continue
			}
			for kind, steps := range steps {
				var texts [2]string
				for i, short := range []bool{false, true} {
					f := &groupFile{short: short, steps: steps, algorithm: service.RoundRobin}
					if kind == "drawn" {
						f.algorithm = service.LeastConnection
					}
					f.edge("start", "gen", "client", 0)
					events := build(f, n)
					texts[i] = f.text(events)
				}
				t.Run(fmt.Sprintf("%s/%d/%s", name, n, kind), func(t *testing.T) {
					compareGroups(t, texts[0], texts[1])
				})
			}
		}
	}
}

func compareGroups(t *testing.T, long, short string) {
	if len(short) >= len(long) && strings.Count(long, "\n") > strings.Count(short, "\n") {
		t.Errorf("the short form has %d bytes, the long one %d", len(short), len(long))
	}
	if a, b := asJSON(t, mustLoad(t, long)), asJSON(t, mustLoad(t, short)); a != b {
		t.Fatalf("the groups are\n%s\nwant\n%s\nof\n%s", b, a, short)
	}
	var results [2][]byte
	var outcomes [2][]*modeltest.Outcome
	for i, text := range []string{long, short} {
		s := modeltest.MustLoad(t, service.Kind(), text)
		for workers := 1; workers <= 3; workers++ {
			o, err := modeltest.Run(s, modeltest.Config{Seed: 7, Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			outcomes[i] = append(outcomes[i], o)
		}
		var err error
		if results[i], err = json.Marshal(modeltest.Summarize(t, s, 7, 2)); err != nil {
			t.Fatal(err)
		}
	}
	for w := range outcomes[0] {
		a, b := outcomes[0][w], outcomes[1][w]
		if a.Events < 1000 || a.Events != b.Events || !reflect.DeepEqual(a.Hashes, b.Hashes) ||
			!reflect.DeepEqual(a.Hashes, outcomes[0][0].Hashes) || !reflect.DeepEqual(a.Replication, b.Replication) {
			t.Errorf("%d workers: the groups have %d events, the servers written out %d; hashes %x, want %x", w+1,
				b.Events, a.Events, b.Hashes, a.Hashes)
		}
	}
	if !bytes.Equal(results[0], results[1]) {
		t.Errorf("the groups give\n%s\nwant\n%s", results[1], results[0])
	}
}

// TestGroupCountSet: a count is a field that a command can set.
func TestGroupCountSet(t *testing.T) {
	f := &groupFile{short: true, algorithm: service.RoundRobin, steps: "{ endpoint_name: /, steps: [] }"}
	f.edge("start", "gen", "client", 0)
	groupTopologies["one balancer"](f, 1)
	doc, err := scenario.Parse("test.yml", []byte(f.text("")))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3, 1000} {
		set, err := scenario.ParseSetting(fmt.Sprintf("topology_graph.nodes.servers.web.count=%d", n))
		if err != nil {
			t.Fatal(err)
		}
		changed, err := doc.With([]scenario.Setting{set})
		if err != nil {
			t.Fatal(err)
		}
		spec, err := service.Load(changed, scenario.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(spec.Servers) != n || len(spec.Balancers[0].Covers) != n || len(spec.Edges) != 2+2*n {
			t.Errorf("count %d: %d servers, %d of them covered, %d edges", n, len(spec.Servers),
				len(spec.Balancers[0].Covers), len(spec.Edges))
		}
		last := spec.Servers[n-1]
		if last.ID != fmt.Sprintf("web-%d", n-1) || &last.Endpoints[0] != &spec.Servers[0].Endpoints[0] {
			t.Errorf("count %d: the last server is %+v; members share their endpoints", n, last)
		}
	}
}

// TestGroupUnreachable: members that no edge leads to are one remark, about those that there are.
func TestGroupUnreachable(t *testing.T) {
	for edges, want := range map[string]string{
		"":          "no edge leads to spare-0 and 4 more of the group, so they get no request",
		"0,1":       "no edge leads to spare-2 and 2 more of the group, so they get no request",
		"0,1,2,3,4": "",
	} {
		f := &groupFile{short: true, algorithm: service.RoundRobin, steps: "{ endpoint_name: /, steps: [] }"}
		f.edge("start", "gen", "client", 0)
		groupTopologies["one balancer"](f, 2)
		f.servers("spare", 5)
		f.edge("spare-out", "spare*", "client", 5)
		for i, id := range strings.Split(edges, ",") {
			if id == "" {
				continue
			}
			f.edge(fmt.Sprintf("extra-%d", i), "lb", "spare-"+id, 0)
		}
		text := strings.Replace(f.text(""), "server_covered: [web]", "server_covered: []", 1)
		notes := strings.Join(mustLoad(t, text).Notes, "\n")
		if (want == "") != (notes == "") || !strings.HasSuffix(notes, want) {
			t.Errorf("edges to %q: notes %q, want %q", edges, notes, want)
		}
	}
}
