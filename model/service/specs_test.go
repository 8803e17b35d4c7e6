// SPDX-License-Identifier: Apache-2.0

package service

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/scenario"
)

func constant(x float64) Dist    { return Dist{Kind: Constant, Mean: x} }
func exponential(x float64) Dist { return Dist{Kind: Exponential, Mean: x} }

func cpu(d Dist) Step   { return Step{CPU: true, Kind: "cpu_bound_operation", Time: d} }
func sleep(d Dist) Step { return Step{Kind: "io_wait", Time: d} }

// poisson is a workload of requests at an even rate, without the change of users
// from window to window: a Poisson process.
func poisson(rate float64) Workload {
	return Workload{ID: "gen", Users: Dist{Kind: Normal, Mean: rate}, RequestsPerMinute: 60, SamplingWindow: 120}
}

func allMetrics() []string {
	return []string{"ready_queue_len", "event_loop_io_sleep", "ram_in_use", "edge_concurrent_connection"}
}

func oneEndpoint(id string, cores int, ram, need float64, steps ...Step) Server {
	return Server{ID: id, Cores: cores, RAM: ram, Endpoints: []Endpoint{{Name: "/" + id, RAM: need, Steps: steps}}}
}

// tandem leads from the generator over the client and all servers, in a row, back
// to the client, on edges of no length that lose nothing: latency is residence.
func tandem(rate, horizon float64, servers ...Server) *Spec {
	s := &Spec{Workload: poisson(rate), Client: "client", Servers: servers,
		Settings: Settings{Horizon: horizon, SamplePeriod: 0.05}}
	at := []string{"gen", "client"}
	for _, server := range servers {
		at = append(at, server.ID)
	}
	at = append(at, "client")
	for i := 1; i < len(at); i++ {
		s.Edges = append(s.Edges, Edge{ID: at[i-1] + "-" + at[i], Source: at[i-1], Target: at[i], Latency: constant(0)})
	}
	return s
}

// fan leads from the generator over the client and one balancer to the servers and
// back, on edges of 2 ms on average that lose nothing.
func fan(rate, horizon float64, algorithm string, servers ...Server) *Spec {
	s := &Spec{
		Workload: poisson(rate), Client: "client", Servers: servers, Name: "test",
		Balancers: []Balancer{{ID: "lb", Algorithm: algorithm}},
		Settings:  Settings{Horizon: horizon, SamplePeriod: 0.05, Sampled: allMetrics()},
	}
	add := func(from, to string) {
		s.Edges = append(s.Edges, Edge{ID: from + "-" + to, Source: from, Target: to, Latency: exponential(0.002)})
	}
	add("gen", "client")
	add("client", "lb")
	for _, server := range servers {
		add("lb", server.ID)
		add(server.ID, "client")
	}
	return s
}

func newModel(s *Spec) *Model { return New(linked(s)) }

// fewer is n in the plain build, and less where the checked build or the race
// detector makes every event many times as expensive.
func fewer(n int) int {
	if invariants.Enabled || race.Enabled {
		if testing.Short() {
			n /= 4
		}
		return max(2, n/5)
	}
	return n
}

// linked fills in what Load fills in for a file.
func linked(s *Spec) *Spec {
	t := newTopology(len(s.Edges))
	t.add(generatorRole, 0, s.Workload.ID)
	t.add(clientRole, 0, s.Client)
	for i := range s.Balancers {
		s.Balancers[i].Covers = nil
		t.add(balancerRole, i, s.Balancers[i].ID)
	}
	for i := range s.Servers {
		t.add(serverRole, i, s.Servers[i].ID)
	}
	for k, e := range s.Edges {
		from := t.nodes[e.Source].first
		t.connect(k, from, t.nodes[e.Target].first)
		if b := t.boxes[from]; b.role == balancerRole {
			s.Balancers[b.index].Covers = append(s.Balancers[b.index].Covers, e.Target)
			for i := range s.Outages {
				if o := &s.Outages[i]; o.Target == e.Target {
					o.Balancer, o.Edge = b.index, k
				}
			}
		}
	}
	for i := range s.Spikes {
		s.Spikes[i].Edge = slices.IndexFunc(s.Edges, func(e Edge) bool { return e.ID == s.Spikes[i].Target })
	}
	s.topology = t
	return s
}

// TestTopology: the topology that the loader builds while it checks a file is the one
// that the boxes and edges say, and the engine's graph of it has no mistake.
func TestTopology(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	loaded := 0
	for _, file := range files {
		doc, err := scenario.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Load(doc, scenario.Options{})
		if err != nil {
			continue // of another kind
		}
		loaded++
		built := s.topology
		if err := New(s).Graph().Check(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if want := linked(s).topology; !reflect.DeepEqual(built, want) {
			t.Errorf("%s: the loader built %+v, want %+v", file, built, want)
		}
	}
	if loaded < 3 {
		t.Errorf("%d files", loaded)
	}
}
