// SPDX-License-Identifier: Apache-2.0

package phold_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/node"
)

// BenchmarkPhold is the model on one engine: the parameters for which the speeds of
// other simulators are known. perf/phold has the bare loop to compare with.
func BenchmarkPhold(b *testing.B) {
	for _, rng := range []string{phold.Default, phold.CLCG4} {
		for _, remote := range []float64{0.1, 0.5, 1} {
			b.Run(fmt.Sprintf("rng=%s/remote=%v", rng, remote), func(b *testing.B) {
				p := phold.Defaults()
				p.RNG, p.Remote, p.End = rng, remote, 1e9
				e := newEngine(b, phold.New(p))
				before := e.Stats().Events
				b.ReportAllocs()
				b.ResetTimer()
				if _, err := e.Run(b.N, math.Inf(1)); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(e.Stats().Events-before)/b.Elapsed().Seconds()/1e6, "Mevents/s")
			})
		}
	}
}

// BenchmarkSave is what a worker does at the end of a leg: the states of its nodes, and what is pending for them.
func BenchmarkSave(b *testing.B) {
	p := phold.Defaults()
	p.LPs, p.Events, p.Payload, p.End = 10_000, 16, 16, 1e9
	e := newEngine(b, phold.New(p))
	e.SetUntil(math.Nextafter(e.Next().Epoch, math.Inf(1)))
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
		b.Fatal(err)
	}
	var nodes []byte
	b.Run("nodes", func(b *testing.B) {
		for b.Loop() {
			nodes = nodes[:0]
			for n := range p.LPs {
				var err error
				if nodes, err = e.AppendNode(nodes, n); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.SetBytes(int64(len(nodes)))
	})
	b.Run("pending", func(b *testing.B) {
		size := 0
		for b.Loop() {
			size = 0
			err := e.EachPending(func(_ int, encoded []byte) error {
				size += len(encoded)
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(size))
	})
}

func newEngine(tb testing.TB, m *phold.Model) *node.Engine {
	tb.Helper()
	nodes := m.Graph().Len()
	plan, err := node.NewPlan(m.Graph(), make([]int32, nodes), 0, 1)
	if err != nil {
		tb.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: m, Seed: 1, Horizon: m.Horizon()})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := e.Run(20*nodes, math.Inf(1)); err != nil {
		tb.Fatal(err)
	}
	return e
}

func TestHandlingDoesNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of the checked build allocate")
	}
	for _, p := range []phold.Params{
		small(phold.CLCG4),
		{LPs: 64, Events: 16, Remote: 0.5, Lookahead: 0.1, RNG: phold.Default, Payload: 24},
	} {
		p.End = 1e9
		e := newEngine(t, phold.New(p))
		if _, err := e.Run(100_000, math.Inf(1)); err != nil { // queues reach their sizes
			t.Fatal(err)
		}
		got := testing.AllocsPerRun(10, func() {
			if _, err := e.Run(1000, math.Inf(1)); err != nil {
				t.Fatal(err)
			}
		})
		if got > 1 { // a queue may still grow now and then
			t.Errorf("%+v: %v allocations per 1000 activations, want none", p, got)
		}
	}
}
