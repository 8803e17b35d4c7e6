// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/race"
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
	s := &Spec{Workload: poisson(rate), Client: "client", Servers: servers, Settings: Settings{Horizon: horizon, SamplePeriod: 0.05}}
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
		Workload: poisson(rate), Client: "client", Servers: servers, Name: "test", Balancers: []Balancer{{ID: "lb", Algorithm: algorithm}},
		Settings: Settings{Horizon: horizon, SamplePeriod: 0.05, Sampled: allMetrics()},
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

func mustModel(t testing.TB, s *Spec) *Model {
	t.Helper()
	m, err := New(linked(s))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

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

// linked fills in the indices that Load fills in for a file.
func linked(s *Spec) *Spec {
	for i := range s.Balancers {
		b := &s.Balancers[i]
		b.Covers, b.Edges = nil, nil
		for k, e := range s.Edges {
			if e.Source == b.ID {
				b.Covers, b.Edges = append(b.Covers, e.Target), append(b.Edges, k)
			}
		}
	}
	for i := range s.Outages {
		o := &s.Outages[i]
		for b := range s.Balancers {
			if k := slices.Index(s.Balancers[b].Covers, o.Target); k >= 0 {
				o.Balancer, o.Edge = b, s.Balancers[b].Edges[k]
			}
		}
	}
	for i := range s.Spikes {
		s.Spikes[i].Edge = slices.IndexFunc(s.Edges, func(e Edge) bool { return e.ID == s.Spikes[i].Target })
	}
	return s
}
