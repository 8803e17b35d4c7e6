// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"testing"

	"github.com/disco-sim/disco/scenario"
)

// benchSpec is the shape of event_inj_lb.yml with many servers: exponential edges,
// one burst of CPU, one of I/O, every metric sampled.
func benchSpec(algorithm string, servers int) *Spec {
	var list []Server
	for i := range servers {
		id := "srv-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		list = append(list, oneEndpoint(id, 1, 2048, 128, cpu(constant(0.002)), sleep(constant(0.012))))
	}
	s := fan(float64(100*servers), 1e6, algorithm, list...)
	for i := range s.Edges {
		s.Edges[i].Dropout = 0.01
	}
	return s
}

// bigSpec is what perf/gen writes, but for the horizon: servers in equal groups behind
// balancers behind a front balancer, eight events and a wakeup a request.
func bigSpec(servers, balancers int, rate float64) *Spec {
	s := &Spec{
		Name: "big", Workload: poisson(rate), Client: "client",
		Settings: Settings{Horizon: 1e6, SamplePeriod: 0.05, Sampled: allMetrics()},
	}
	add := func(from, to string, mean float64) {
		s.Edges = append(s.Edges, Edge{ID: from + "--" + to, Source: from, Target: to, Latency: exponential(mean)})
	}
	add("gen", "client", 0.003)
	add("client", "front", 0.002)
	s.Balancers = append(s.Balancers, Balancer{ID: "front", Algorithm: RoundRobin})
	for b := range balancers {
		id := fmt.Sprintf("lb-%d", b)
		s.Balancers = append(s.Balancers, Balancer{ID: id, Algorithm: RoundRobin})
		add("front", id, 0.001)
	}
	for i := range servers {
		id := fmt.Sprintf("srv-%d", i)
		s.Servers = append(s.Servers, oneEndpoint(id, 1, 4096, 64, cpu(constant(0.001)), sleep(constant(0.010)),
			cpu(constant(0.002))))
		add(fmt.Sprintf("lb-%d", i%balancers), id, 0.001)
		add(id, "client", 0.003)
	}
	return s
}

// BenchmarkModel is the speed of engine and model together, of one worker without
// peers. An operation is one activation, a call of a handler; events/s counts events
// handled, as disco-run does.
//
//	go test ./model/service -run '^$' -bench Model -benchtime 10000000x
func BenchmarkModel(b *testing.B) {
	for _, c := range []struct {
		name string
		spec *Spec
	}{
		{"round-robin/servers=2", benchSpec(RoundRobin, 2)},
		{"least-connection/servers=2", benchSpec(LeastConnection, 2)},
		{"round-robin/servers=100", benchSpec(RoundRobin, 100)},
		{"least-connection/servers=100", benchSpec(LeastConnection, 100)},
		{"tree/servers=2000", bigSpec(2000, 20, 200_000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := newEngine(b, newModel(c.spec), 1, 0, nil)
			if _, err := e.Run(500_000, math.Inf(1)); err != nil {
				b.Fatal(err)
			}
			from := e.Stats().Events
			b.ReportAllocs()
			b.ResetTimer()
			if n, err := e.Run(b.N, math.Inf(1)); err != nil || n < b.N {
				b.Fatalf("%d of %d: %v", n, b.N, err)
			}
			b.ReportMetric(float64(e.Stats().Events-from)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkShop runs examples/shop.yml for 20 simulated seconds, from making the
// engine to the results.
func BenchmarkShop(b *testing.B) {
	doc, err := scenario.ReadFile("../../examples/shop.yml")
	if err != nil {
		b.Fatal(err)
	}
	s, err := Kind().Load(doc, scenario.Options{Horizon: 20})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		simulate(b, s.(*Model), 1, 1)
	}
}

// BenchmarkResults is the end of a run of many servers: what the launcher does with the reports of one replication, and
// each form of output. An operation is all of it; bytes/server is what stays in memory for the results.
//
//	go test ./model/service -run '^$' -bench Results
func BenchmarkResults(b *testing.B) {
	const servers = 50_000
	spec := bigSpec(servers, 100, 100_000)
	spec.Settings.Horizon = 1
	m := newModel(spec)
	e := newEngine(b, m, 1, 0, nil)
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
		b.Fatal(err)
	}
	rep := reportOf(b, m, e, 0, 1)
	perServer := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/servers, "ns/server")
	}
	b.Run("report", func(b *testing.B) {
		for b.Loop() {
			reportOf(b, m, e, 0, 1)
		}
		perServer(b)
	})
	heap := func() (stats runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats
	}
	b.Run("add", func(b *testing.B) {
		before, kept := heap(), scenario.Accumulator(nil)
		for b.Loop() {
			kept = m.Accumulate()
			if err := kept.Add(rep); err != nil {
				b.Fatal(err)
			}
		}
		perServer(b)
		b.ReportMetric(float64(heap().HeapAlloc-before.HeapAlloc)/servers, "bytes/server")
		runtime.KeepAlive(kept)
	})
	r := summarize(b, m, []scenario.Replication{rep})
	for name, write := range map[string]func() error{
		"text": func() error { return r.WriteText(io.Discard) },
		"json": func() error { return r.WriteJSON(io.Discard, "  ", "  ") },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := write(); err != nil {
					b.Fatal(err)
				}
			}
			perServer(b)
		})
	}
}

// BenchmarkSave is what a worker does with the boxes at the end of a leg.
func BenchmarkSave(b *testing.B) {
	for _, c := range []struct {
		name string
		spec *Spec
	}{
		{"servers=2", benchSpec(RoundRobin, 2)},
		{"tree/servers=2000", bigSpec(2000, 20, 200_000)},
		{"tree/servers=100000", bigSpec(100_000, 300, 10_000_000)},
	} {
		m := newModel(c.spec)
		e := newEngine(b, m, 1, 0, nil)
		if _, err := e.Run(500_000, math.Inf(1)); err != nil {
			b.Fatal(err)
		}
		e.SetUntil(math.Nextafter(e.Next().Epoch, math.Inf(1)))
		if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			var all []byte
			b.ReportAllocs()
			for b.Loop() {
				all = all[:0]
				for n := range m.Graph().Len() {
					var err error
					if all, err = e.AppendNode(all, n); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.SetBytes(int64(len(all)))
			b.ReportMetric(float64(len(all))/float64(m.Graph().Len()), "B/node")
		})
	}
}
