// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// stormUntil is what a storm with a warm-up has given that ends at a horizon.
func stormUntil(t *testing.T, seed uint64, warmup, horizon float64) *Results {
	t.Helper()
	s := storm(t)
	s.Warmup, s.Horizon = warmup, horizon
	m := New(s)
	out, err := modeltest.Run(m, modeltest.Config{Seed: seed, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	a := m.Accumulate()
	if err := a.Add(out.Replication); err != nil {
		t.Fatal(err)
	}
	r, err := a.Summary()
	if err != nil {
		t.Fatal(err)
	}
	return r.(*Results)
}

// TestWarmup: what a run with a warm-up counts, and what one counts that ends with it, is together what one without
// counts: packets, times and latencies, of the network, of flows and of links.
func TestWarmup(t *testing.T) {
	const warmup, end = 3.5, 7.5
	for seed := range uint64(scaled(4)) {
		all, before := stormUntil(t, seed, 0, end), stormUntil(t, seed, 0, warmup)
		after := stormUntil(t, seed, warmup, end)
		add := func(what string, a, b, want float64) {
			t.Helper()
			if math.Abs(a+b-want) > 1e-9*math.Abs(want) {
				t.Errorf("seed %d: %s: %v and %v, want %v together", seed, what, a, b, want)
			}
		}
		add("sent", float64(before.Sent), float64(after.Sent), float64(all.Sent))
		add("delivered", float64(before.Delivered), float64(after.Delivered), float64(all.Delivered))
		add("lost", float64(before.Lost), float64(after.Lost), float64(all.Lost))
		add("latencies", before.Latency.Mean*float64(before.Delivered), after.Latency.Mean*float64(after.Delivered),
			all.Latency.Mean*float64(all.Delivered))
		add("hops", before.Hops.Mean*float64(before.Delivered), after.Hops.Mean*float64(after.Delivered),
			all.Hops.Mean*float64(all.Delivered))
		if after.Before != before.InFlight || after.Before == 0 || after.InFlight != all.InFlight {
			t.Errorf("seed %d: %d packets before and %d in flight, want %d and %d", seed, after.Before, after.InFlight,
				before.InFlight, all.InFlight)
		}
		for i := range all.Flows {
			b, a, w := &before.Flows[i], &after.Flows[i], &all.Flows[i]
			add("flow sent", float64(b.Sent), float64(a.Sent), float64(w.Sent))
			add("flow delivered", float64(b.Delivered), float64(a.Delivered), float64(w.Delivered))
			add("flow lost", float64(b.Lost), float64(a.Lost), float64(w.Lost))
			add("flow in flight", 0, float64(a.InFlight), float64(w.InFlight))
		}
		for i := range all.Links {
			b, a, w := &before.Links[i], &after.Links[i], &all.Links[i]
			add("link packets", float64(b.Packets), float64(a.Packets), float64(w.Packets))
			add("link carried", float64(b.Carried), float64(a.Carried), float64(w.Carried))
			add("link lost", float64(b.Lost), float64(a.Lost), float64(w.Lost))
			add("link busy", b.Utilisation*warmup, a.Utilisation*(end-warmup), w.Utilisation*end)
			add("link queue", b.QueueMean*warmup, a.QueueMean*(end-warmup), w.QueueMean*end)
			if a.QueueMax > w.QueueMax || a.WaitMax > w.WaitMax {
				t.Errorf("seed %d: %s: greatest queue %d and wait %v, of all %d and %v", seed, a.Link, a.QueueMax,
					a.WaitMax, w.QueueMax, w.WaitMax)
			}
		}
		for i := range all.Outages {
			a, w := &after.Outages[i], &all.Outages[i]
			for k, p := range []*Phase{a.Before, a.During, a.After} {
				q := []*Phase{w.Before, w.During, w.After}[k]
				if (p == nil) != (q == nil) || p != nil && (p.SentPPS != q.SentPPS ||
					p.DeliveredPPS != q.DeliveredPPS ||
					p.Lost != q.Lost) {
					t.Errorf("seed %d: outage %s, phase %d: %+v, want %+v, whatever the warm-up is", seed, a.ID, k, p,
						q)
				}
			}
		}
	}
}

// TestWarmupNotReached: a run that ends before its warm-up does has counted nothing.
func TestWarmupNotReached(t *testing.T) {
	s := storm(t)
	s.Horizon, s.Warmup = 7.5, 3.5
	m := New(s)
	plan, err := node.NewPlan(m.Graph(), make([]int32, len(m.Graph().Nodes)), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: m, Seed: 1, Horizon: m.Horizon()})
	if err != nil {
		t.Fatal(err)
	}
	e.SetUntil(3)
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	reports, err := e.Report(3)
	if err != nil {
		t.Fatal(err)
	}
	rep := scenario.Replication{Horizon: 7.5, Reached: 3, Reports: make([][]byte, len(reports))}
	for _, p := range reports {
		rep.Reports[p.Simproc] = p.Data
	}
	a := m.Accumulate()
	if err := a.Add(rep); err != nil {
		t.Fatal(err)
	}
	sum, err := a.Summary()
	if err != nil {
		t.Fatal(err)
	}
	if x := sum.(*Results); x.Sent != 0 || x.Delivered != 0 || x.Lost != 0 || x.Latency != nil || x.OfferedPPS != 0 ||
		x.InFlight != x.Before || x.Before == 0 {
		t.Errorf("%+v, want nothing but packets in flight", x)
	}
}

// TestResumeWarmup: routers are saved before the end of a warm-up, with it, and behind it.
func TestResumeWarmup(t *testing.T) {
	s := storm(t)
	s.Horizon, s.Warmup = 7.5, 3.3
	modeltest.ResumeEverywhere(t, New(s), 1)
	modeltest.DamagedStates(t, New(s), 1)
}
