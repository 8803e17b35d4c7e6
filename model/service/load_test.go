// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/scenario"
)

var updateInvalid = flag.Bool("update-invalid", false, "write the expected texts in testdata/invalid anew")

func TestInvalid(t *testing.T) {
	if n := modeltest.Invalid(t, service.Kind(), "testdata/invalid", *updateInvalid); n < 100 {
		t.Errorf("%d files", n)
	}
}

func load(name, text string, horizon float64) (*service.Spec, error) {
	doc, err := scenario.Parse(name, []byte(text))
	if err != nil {
		return nil, err
	}
	return service.Load(doc, scenario.Options{Horizon: horizon})
}

func mustLoad(t *testing.T, text string) *service.Spec {
	t.Helper()
	spec, err := load("test.yml", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// plain is a valid file that uses every default; its parts are replaced in tests.
const plain = `
rqs_input: { id: gen, avg_active_users: { mean: 10 }, avg_request_per_minute_per_user: { mean: 20 } }
topology_graph:
  nodes:
    client: { id: client }
    servers:
      - id: srv
        server_resources: {}
        endpoints: [{ endpoint_name: /API, steps: [{ kind: initial_parsing, step_operation: { cpu_time: 0.001 } }] }]
  edges:
    - { id: in, source: gen, target: client, latency: { mean: 0.003, distribution: exponential } }
    - { id: to, source: client, target: srv, latency: { mean: 0.003, distribution: exponential } }
    - { id: back, source: srv, target: client, latency: { mean: 0.003, distribution: exponential } }
sim_settings: {}
`

// change replaces the one place of text that says old.
func change(t *testing.T, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q stands %d times in the file, want once", old, strings.Count(text, old))
	}
	return strings.Replace(text, old, new, 1)
}

func TestDefaults(t *testing.T) {
	got := mustLoad(t, plain)
	ms3 := service.Dist{Kind: "exponential", Mean: 0.003}
	want := &service.Spec{
		Name: "test",
		Workload: service.Workload{ID: "gen", Users: service.Dist{Kind: "poisson", Mean: 10}, RequestsPerMinute: 20,
			SamplingWindow: 60},
		Client: "client",
		Servers: []service.Server{{ID: "srv", Cores: 1, RAM: 1024, Endpoints: []service.Endpoint{{
			Name: "/api",
			Steps: []service.Step{{CPU: true, Kind: "initial_parsing",
				Time: service.Dist{Kind: "constant", Mean: 0.001}}},
		}}}},
		Edges: []service.Edge{
			{ID: "in", Source: "gen", Target: "client", Latency: ms3, Dropout: 0.01},
			{ID: "to", Source: "client", Target: "srv", Latency: ms3, Dropout: 0.01},
			{ID: "back", Source: "srv", Target: "client", Latency: ms3, Dropout: 0.01},
		},
		Settings: service.Settings{
			Horizon: 3600, SamplePeriod: 0.01,
			Sampled:    []string{"ready_queue_len", "event_loop_io_sleep", "ram_in_use", "edge_concurrent_connection"},
			PerRequest: []string{"rqs_clock"},
		},
	}
	if got, want := asJSON(t, got), asJSON(t, want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// asJSON is everything in a spec but its topology, which follows from the rest.
func asJSON(t *testing.T, s *service.Spec) string {
	t.Helper()
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDistributions: the default is poisson; a variance that is left out is the
// mean, for the distributions that have one.
func TestDistributions(t *testing.T) {
	for text, want := range map[string]service.Dist{
		`{ mean: 2 }`:              {Kind: "poisson", Mean: 2},
		`{ mean: 2, variance: 5 }`: {Kind: "poisson", Mean: 2},
		`{ mean: 2, distribution: poisson, variance: null }`:     {Kind: "poisson", Mean: 2},
		`{ mean: 2, distribution: exponential }`:                 {Kind: "exponential", Mean: 2},
		`{ mean: 2, distribution: uniform }`:                     {Kind: "uniform", Mean: 2},
		`{ mean: 2, distribution: normal }`:                      {Kind: "normal", Mean: 2, StdDev: 2},
		`{ mean: 2, distribution: normal, variance: 0 }`:         {Kind: "normal", Mean: 2, StdDev: 0},
		`{ mean: 2e+0, distribution: normal, variance: 0x3 }`:    {Kind: "normal", Mean: 2, StdDev: 3},
		`{ mean: 2, distribution: log_normal }`:                  {Kind: "log_normal", Mean: 2, StdDev: 2},
		`{ mean: 2, distribution: log_normal, variance: 0.5 }`:   {Kind: "log_normal", Mean: 2, StdDev: 0.5},
		`{ mean: 20, distribution: log_normal, variance: null }`: {Kind: "log_normal", Mean: 20, StdDev: 20},
	} {
		spec, err := load("test.yml", strings.ReplaceAll(plain, "{ mean: 0.003, distribution: exponential }", text), 0)
		if err != nil {
			t.Errorf("latency %s: %v", text, err)
			continue
		}
		if got := spec.Edges[0].Latency; got != want {
			t.Errorf("latency %s: got %+v, want %+v", text, got, want)
		}
		spec, err = load("test.yml", change(t, plain, "cpu_time: 0.001", "cpu_time: "+text), 0)
		if err != nil {
			t.Errorf("cpu_time %s: %v", text, err)
			continue
		}
		if got := spec.Servers[0].Endpoints[0].Steps[0].Time; got != want {
			t.Errorf("cpu_time %s: got %+v, want %+v", text, got, want)
		}
	}
}

// TestAccepted: forms that the schema allows and that a strict reader might trip
// over.
func TestAccepted(t *testing.T) {
	const endpoint = "endpoint_name: /API,"
	for name, text := range map[string]string{
		"model": "model: service\n" + plain,
		"types": change(t, change(t, plain, "id: gen,", "id: gen, type: generator,"), "{ id: client }",
			"{ id: client, type: client }"),
		"edge type":    change(t, plain, "id: to,", "id: to, edge_type: network_connection,"),
		"no events":    plain + "events:\n",
		"null events":  plain + "events: null\n",
		"empty events": plain + "events: []\n",
		"no balancer": change(t, plain, "    servers:",
			"    load_balancer: null\n    load_balancers: []\n    servers:"),
		"null pool": change(t, plain, "server_resources: {}", "server_resources: { db_connection_pool: null }"),
		"pool":      change(t, plain, "server_resources: {}", "server_resources: { db_connection_pool: 8 }"),
		"whole float": change(t, plain, "server_resources: {}",
			"server_resources: { cpu_cores: 2.0, ram_mb: 1e4 }"),
		"probability":   change(t, plain, endpoint, "endpoint_name: a, probability: 1.0,"),
		"probability 0": change(t, plain, endpoint, "endpoint_name: a, probability: 0,"),
		"no steps": change(t, plain, "steps: [{ kind: initial_parsing, step_operation: { cpu_time: 0.001 } }]",
			"steps: []"),
		"no users":    change(t, plain, "{ mean: 10 }", "{ mean: 0 }"),
		"no requests": change(t, plain, "{ mean: 20 }", "{ mean: 0 }"),
		"no metrics": change(t, plain, "sim_settings: {}",
			"sim_settings: { enabled_sample_metrics: [], enabled_event_metrics: [] }"),
		"metric twice": change(t, plain, "sim_settings: {}",
			"sim_settings: { enabled_event_metrics: [rqs_clock, rqs_clock] }"),
		"reserved metric": change(t, plain, "sim_settings: {}", "sim_settings: { enabled_event_metrics: [llm_cost] }"),
		"full dropout":    change(t, plain, "id: to,", "id: to, dropout_rate: 1,"),
		"limits": change(t, plain, "sim_settings: {}",
			"sim_settings: { total_simulation_time: 5, sample_period_s: 0.001 }"),
		"limits above": change(t, plain, "sim_settings: {}",
			"sim_settings: { total_simulation_time: 1000000000, sample_period_s: 0.1 }"),
		"float ram step": change(t, plain, "steps: [",
			"steps: [{ kind: ram, step_operation: { necessary_ram: 0.5 } }, "),
		"all of the ram": change(t, plain, "steps: [",
			"steps: [{ kind: ram, step_operation: { necessary_ram: 1024 } }, "),
		"json": `{"rqs_input":{"id":"gen","avg_active_users":{"mean":1},"avg_request_per_minute_per_user":{"mean":1}},
"topology_graph":{"nodes":{"client":{"id":"c"},
"servers":[{"id":"s","server_resources":{},"endpoints":[{"endpoint_name":"e","steps":[]}]}]},
"edges":[{"id":"1","source":"gen","target":"c","latency":{"mean":1}},
{"id":"2","source":"c","target":"s","latency":{"mean":1}},
{"id":"3","source":"s","target":"c","latency":{"mean":1}}]},"sim_settings":{}}`,
	} {
		if _, err := load("test.yml", text, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSteps: ram steps are summed wherever they stand, the others keep their order.
func TestSteps(t *testing.T) {
	spec := mustLoad(t, change(t, plain, "[{ kind: initial_parsing, step_operation: { cpu_time: 0.001 } }]", `[
          { kind: io_llm, step_operation: { io_waiting_time: 1 } },
          { kind: ram, step_operation: { necessary_ram: 100 } },
          { kind: cpu_bound_operation, step_operation: { cpu_time: { mean: 2, distribution: exponential } } },
          { kind: ram, step_operation: { necessary_ram: 28 } },
          { kind: io_task_spawn, step_operation: { io_waiting_time: 3 } }]`))
	want := service.Endpoint{Name: "/api", RAM: 128, Steps: []service.Step{
		{CPU: false, Kind: "io_llm", Time: service.Dist{Kind: "constant", Mean: 1}},
		{CPU: true, Kind: "cpu_bound_operation", Time: service.Dist{Kind: "exponential", Mean: 2}},
		{CPU: false, Kind: "io_task_spawn", Time: service.Dist{Kind: "constant", Mean: 3}},
	}}
	if got := spec.Servers[0].Endpoints[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// balanced is a tree of balancers, written with disco's additions: top covers one
// and c, one covers a and b. Edges and server_covered stand in different orders.
const balanced = `
rqs_input: { id: gen, avg_active_users: { mean: 10 }, avg_request_per_minute_per_user: { mean: 20 } }
topology_graph:
  nodes:
    client: { id: client }
    load_balancers:
      - { id: one, algorithms: least_connection, server_covered: [a, b] }
      - { id: top, server_covered: [c, one] }
    servers:
      - &server
        id: a
        server_resources: {}
        endpoints: [{ endpoint_name: e, steps: [{ kind: initial_parsing, step_operation: { cpu_time: 0.001 } }] }]
      - { <<: *server, id: b }
      - { <<: *server, id: c }
  edges:
    - { id: a-back, source: a, target: client, latency: &ms { mean: 0.001, distribution: exponential } }
    - { id: one-b, source: one, target: b, latency: *ms }
    - { id: one-a, source: one, target: a, latency: *ms }
    - { id: top-one, source: top, target: one, latency: *ms }
    - { id: top-c, source: top, target: c, latency: *ms }
    - { id: b-back, source: b, target: client, latency: *ms }
    - { id: c-back, source: c, target: client, latency: *ms }
    - { id: to, source: client, target: top, latency: *ms }
    - { id: in, source: gen, target: client, latency: *ms }
sim_settings: { total_simulation_time: 100 }
events:
  - { event_id: e1, target_id: one, start: { kind: server_down, t_start: 10 }, end: { kind: server_up, t_end: 20 } }
  - { event_id: e2, target_id: to, start: { kind: network_spike_start, t_start: 0, spike_s: 0.5 },
      end: { kind: network_spike_end, t_end: 100 } }
  - { event_id: e3, target_id: c, start: { kind: server_down, t_start: 20 }, end: { kind: server_up, t_end: 30 } }
  - { event_id: e4, target_id: one, start: { kind: server_down, t_start: 30 }, end: { kind: server_up, t_end: 100 } }
  - { event_id: e5, target_id: to, start: { kind: network_spike_start, t_start: 50, spike_s: 0.5 },
      end: { kind: network_spike_end, t_end: 60 } }
`

// TestTree: the order of a balancer's list is that of its edges; outages that touch
// without overlapping are fine, for one target and for all of a balancer's.
func TestTree(t *testing.T) {
	spec := mustLoad(t, balanced)
	balancers := []service.Balancer{
		{ID: "one", Algorithm: "least_connection", Covers: []string{"b", "a"}},
		{ID: "top", Algorithm: "round_robin", Covers: []string{"one", "c"}},
	}
	outages := []service.Outage{
		{ID: "e1", Target: "one", Start: 10, End: 20, Balancer: 1, Edge: 3},
		{ID: "e3", Target: "c", Start: 20, End: 30, Balancer: 1, Edge: 4},
		{ID: "e4", Target: "one", Start: 30, End: 100, Balancer: 1, Edge: 3},
	}
	spikes := []service.Spike{
		{ID: "e2", Target: "to", Start: 0, End: 100, Extra: 0.5, Edge: 7},
		{ID: "e5", Target: "to", Start: 50, End: 60, Extra: 0.5, Edge: 7},
	}
	if !reflect.DeepEqual(spec.Balancers, balancers) {
		t.Errorf("balancers: got %+v, want %+v", spec.Balancers, balancers)
	}
	if !reflect.DeepEqual(spec.Outages, outages) {
		t.Errorf("outages: got %+v, want %+v", spec.Outages, outages)
	}
	if !reflect.DeepEqual(spec.Spikes, spikes) {
		t.Errorf("spikes: got %+v, want %+v", spec.Spikes, spikes)
	}
}

// TestDerivedCover: a balancer whose server_covered is left out covers what its
// edges lead to.
func TestDerivedCover(t *testing.T) {
	for _, covered := range []string{"", ", server_covered: []"} {
		spec := mustLoad(t, change(t, balanced, ", server_covered: [a, b]", covered))
		if got := spec.Balancers[0].Covers; !reflect.DeepEqual(got, []string{"b", "a"}) {
			t.Errorf("with %q: covers %v, want [b a]", covered, got)
		}
	}
	_, err := load("test.yml", change(t, change(t, balanced, ", server_covered: [a, b]", ""), "source: one, target: b",
		"source: one, target: c"), 0)
	if err == nil || !strings.Contains(err.Error(), "found c, which top covers already") {
		t.Errorf("two balancers over one server: %v", err)
	}
}

// TestChain: servers may lead to servers and to balancers, as long as they lead
// back to the client in the end.
func TestChain(t *testing.T) {
	text := change(t, balanced, "target: top, latency", "target: d, latency")
	text = change(t, text, "      - { <<: *server, id: c }\n",
		"      - { <<: *server, id: c }\n      - { <<: *server, id: d }\n      - { <<: *server, id: e }\n")
	text = change(t, text, "source: a, target: client", "source: a, target: e")
	text = change(t, text, "sim_settings:",
		"    - { id: d-top, source: d, target: top, latency: *ms }\n    - { id: e-back, source: e, target: client, "+
			"latency: *ms }\nsim_settings:")
	if _, err := load("test.yml", text, 0); err != nil {
		t.Error(err)
	}
	_, err := load("test.yml", change(t, text, "source: e, target: client", "source: e, target: d"), 0)
	if err == nil || !strings.Contains(err.Error(), "found a cycle: d -> top -> one -> a -> e -> d") {
		t.Errorf("a cycle over five boxes: %v", err)
	}
}

// TestHorizon: the command line's horizon replaces the file's, without changing
// what is valid.
func TestHorizon(t *testing.T) {
	for _, horizon := range []float64{1, 2.5, 50, 1e9} {
		spec, err := load("test.yml", balanced, horizon)
		if err != nil || spec.Settings.Horizon != horizon {
			t.Errorf("horizon %v: %v, %v", horizon, spec, err)
		}
		if len(spec.Outages) != 3 || len(spec.Spikes) != 2 {
			t.Errorf("horizon %v: %d outages, %d spikes, want all 3 and 2", horizon, len(spec.Outages),
				len(spec.Spikes))
		}
	}
	if spec, err := load("test.yml", balanced, 0); err != nil || spec.Settings.Horizon != 100 {
		t.Errorf("no horizon given: %v, %v", spec, err)
	}
	late := change(t, balanced, "t_end: 20 }", "t_end: 101 }")
	if _, err := load("test.yml", late, 500); err == nil {
		t.Error("a longer horizon on the command line made an event beyond the file's own valid")
	}
	for _, horizon := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), 1.1e9} {
		if _, err := load("test.yml", balanced, horizon); err == nil {
			t.Errorf("horizon %v was accepted", horizon)
		}
	}
}

// TestAllProblems: everything wrong is listed, in the order of the file, and what
// follows from a mistake is not listed besides.
func TestAllProblems(t *testing.T) {
	text := change(t, balanced, "mean: 20", "mean: 20, mode: 1")
	text = change(t, text, "[c, one]", "[c, on]")
	text = change(t, text, "cpu_time: 0.001", "cpu_time: soon")
	text = change(t, text, "source: one, target: a", "source: one, target: aa")
	text = change(t, text, "target_id: c,", "target_id: x,")
	text = change(t, text, "total_simulation_time: 100", "total_simulation_time: 3")
	_, err := load("all.yml", text, 0)
	var problems scenario.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%d %s", p.Line, p.Field))
	}
	want := []string{
		"2 rqs_input.avg_request_per_minute_per_user.mode",
		"8 topology_graph.nodes.load_balancers[1].server_covered[1]",
		"13 topology_graph.nodes.servers[0].endpoints[0].steps[0].step_operation.cpu_time",
		"19 topology_graph.edges[2].target",
		"26 sim_settings.total_simulation_time",
		"31 events[2].target_id",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%s", problems, strings.Join(want, "\n"))
	}
}

// TestVarianceOfUsers: it is a variance, and what AsyncFlow makes of it is remarked on
// where that differs.
func TestVarianceOfUsers(t *testing.T) {
	for _, c := range []struct{ users, want string }{
		{"{ mean: 100, distribution: normal, variance: 25 }",
			"a variance of 25, so a standard deviation of 5; AsyncFlow"},
		{"{ mean: 100, distribution: normal }", "a variance of 100, so a standard deviation of 10; AsyncFlow"},
		{"{ mean: 100, distribution: normal, variance: 0 }", ""},
		{"{ mean: 100 }", ""},
	} {
		text := change(t, balanced, "avg_active_users: { mean: 10 }", "avg_active_users: "+c.users)
		notes := strings.Join(mustLoad(t, text).Notes, "\n")
		if (c.want == "") == strings.Contains(notes, "AsyncFlow") || !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q", c.users, notes)
		}
	}
}

// TestNotes: what is accepted without effect is remarked on, once.
func TestNotes(t *testing.T) {
	text := change(t, balanced, "server_resources: {}", "server_resources: { db_connection_pool: 4 }")
	text = change(t, text, "endpoint_name: e,", "endpoint_name: e, probability: 0.5,")
	text = change(t, text, "sim_settings: {", "sim_settings: { enabled_event_metrics: [llm_cost],")
	text = change(t, text, "source: client, target: top", "source: client, target: one")
	text = change(t, text, "cpu_time: 0.001", "cpu_time: { mean: 1 }")
	text = change(t, text, "latency: &ms { mean: 0.001, distribution: exponential }",
		"latency: &ms { mean: 0.001, distribution: uniform, variance: 3 }")
	notes := strings.Join(mustLoad(t, text).Notes, "\n")
	for _, want := range []string{
		"test.yml:12:49: topology_graph.nodes.servers[0].server_resources.db_connection_pool: is accepted and has no " +
			"effect",
		"servers[0].endpoints[0].probability: is accepted and has no effect: a request picks each endpoint equally " +
			"often",
		"cpu_time: has no distribution and so is poisson",
		"edges[0].latency: is uniform",
		"edges[0].latency.variance: has no effect on the distribution uniform",
		"enabled_event_metrics[0]: is accepted and measures nothing",
		"load_balancers[1].id: no edge leads to top",
		"servers[2].id: no edge leads to c",
	} {
		if strings.Count(notes, want) != 1 {
			t.Errorf("%q stands %d times in the notes, want once:\n%s", want, strings.Count(notes, want), notes)
		}
	}
	if notes := mustLoad(t, balanced).Notes; len(notes) != 0 {
		t.Errorf("notes on a plain file: %v", notes)
	}
}

// TestExamples loads every example, and the two files that users of the schema
// know, which lie outside of the repository.
func TestExamples(t *testing.T) {
	examples, err := filepath.Glob("../../examples/*.yml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	known, _ := filepath.Glob("../../../shared/data/asyncflow/*.yml")
	if len(known) == 0 {
		t.Log("the files of ../shared/data/asyncflow are not here; they are not tested")
	}
	for _, file := range append(examples, known...) {
		doc, err := scenario.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if strings.Contains(string(doc.Text()), "\nmodel:") &&
			!strings.Contains(string(doc.Text()), "\nmodel: service") {
			continue // of another kind
		}
		spec, err := service.Load(doc, scenario.Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		if len(spec.Notes) != 0 {
			t.Errorf("%s: notes on an example: %v", file, spec.Notes)
		}
	}
}

// FuzzLoad: whatever the text, Load ends with a Spec or with Problems.
func FuzzLoad(f *testing.F) {
	f.Add(plain)
	f.Add(balanced)
	for _, pattern := range []string{"testdata/invalid/*.yml", "../../examples/*.yml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				f.Add(string(text))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := load("fuzz.yml", text, 0)
		if err == nil {
			checkSpec(t, spec)
			return
		}
		var problems scenario.Problems
		if !errors.As(err, &problems) || len(problems) == 0 {
			t.Errorf("the error is %v, want scenario.Problems", err)
		}
	})
}

// checkSpec holds a spec that Load gave to some of what it guarantees.
func checkSpec(t *testing.T, s *service.Spec) {
	out := make(map[string]int)
	for _, e := range s.Edges {
		out[e.Source]++
		if !(e.Latency.Mean > 0) || !(e.Dropout >= 0 && e.Dropout <= 1) {
			t.Errorf("edge %+v", e)
		}
	}
	if out[s.Workload.ID] != 1 || out[s.Client] != 1 {
		t.Errorf("%d edges from the generator, %d from the client", out[s.Workload.ID], out[s.Client])
	}
	for _, srv := range s.Servers {
		if out[srv.ID] != 1 || srv.Cores < 1 || len(srv.Endpoints) == 0 {
			t.Errorf("server %+v with %d edges", srv, out[srv.ID])
		}
	}
	for _, b := range s.Balancers {
		if out[b.ID] != len(b.Covers) || len(b.Covers) == 0 {
			t.Errorf("balancer %+v with %d edges", b, out[b.ID])
		}
	}
	for _, o := range s.Outages {
		if s.Edges[o.Edge].Target != o.Target || s.Edges[o.Edge].Source != s.Balancers[o.Balancer].ID {
			t.Errorf("outage %+v of edge %+v", o, s.Edges[o.Edge])
		}
	}
	for _, p := range s.Spikes {
		if s.Edges[p.Edge].ID != p.Target {
			t.Errorf("spike %+v of edge %+v", p, s.Edges[p.Edge])
		}
	}
}
