package service

import (
	"math"
	"testing"
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

// BenchmarkModel is the speed of a whole run on one worker: one operation is one
// event handled, so the inverse of ns/op is events per second and core.
func BenchmarkModel(b *testing.B) {
	for _, c := range []struct {
		name string
		spec *Spec
	}{
		{"round-robin/servers=2", benchSpec(RoundRobin, 2)},
		{"least-connection/servers=2", benchSpec(LeastConnection, 2)},
		{"round-robin/servers=100", benchSpec(RoundRobin, 100)},
		{"least-connection/servers=100", benchSpec(LeastConnection, 100)},
		{"big/servers=2000", bigSpec(2000, 20, 200000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := newEngine(b, mustModel(b, c.spec), 1, 0, nil)
			if _, err := e.Run(200000, math.Inf(1)); err != nil {
				b.Fatal(err)
			}
			from := e.Stats().Activations
			b.ReportAllocs()
			b.ResetTimer()
			if n, err := e.Run(b.N, math.Inf(1)); err != nil || n < b.N {
				b.Fatalf("%d of %d: %v", n, b.N, err)
			}
			b.ReportMetric(float64(e.Stats().Activations-from)/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}
