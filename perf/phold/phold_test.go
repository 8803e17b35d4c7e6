// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/disco-sim/disco/node"
)

var shapes = []Config{
	{LPs: 64, Start: 16, Remote: 0.1, Lookahead: 0.1, Payload: 16},
	{LPs: 1024, Start: 16, Remote: 0.1, Lookahead: 0.1, Payload: 0},
	{LPs: 1024, Start: 16, Remote: 0.1, Lookahead: 0.1, Payload: 16},
	{LPs: 1024, Start: 16, Remote: 1, Lookahead: 0.1, Payload: 16},
	{LPs: 1024, Start: 16, Remote: 0.1, Lookahead: 0.001, Payload: 16},
	{LPs: 10_000, Start: 1, Remote: 0.1, Lookahead: 0.1, Payload: 16},
	{LPs: 10_000, Start: 16, Remote: 0.1, Lookahead: 0.1, Payload: 16},
	{LPs: 100_000, Start: 1, Remote: 0.1, Lookahead: 0.1, Payload: 16},
	{LPs: 100_000, Start: 16, Remote: 0.1, Lookahead: 0.1, Payload: 16},
	{LPs: 1_000_000, Start: 1, Remote: 0.1, Lookahead: 0.1, Payload: 16},
	{LPs: 1_000_000, Start: 16, Remote: 0.1, Lookahead: 0.1, Payload: 16},
}

func (c Config) String() string {
	return fmt.Sprintf("lps=%d/start=%d/remote=%v/lookahead=%v/payload=%d", c.LPs, c.Start, c.Remote, c.Lookahead,
		c.Payload)
}

func run(b *testing.B, e *node.Engine, n int) {
	if _, err := e.Run(n, math.Inf(1)); err != nil {
		b.Fatal(err)
	}
}

func rate(n int, since time.Time) float64 { return float64(n) / time.Since(since).Seconds() / 1e6 }

// BenchmarkRatio runs the bare loop and the engine in turns, so that a noisy machine
// slows both; b.N is the number of turns.
func BenchmarkRatio(b *testing.B) {
	for _, cfg := range shapes {
		b.Run(cfg.String(), func(b *testing.B) {
			bare := NewBare(cfg)
			e, err := NewEngine(cfg)
			if err != nil {
				b.Fatal(err)
			}
			const turn = 500_000
			warm := max(turn, 4*cfg.LPs*cfg.Start)
			bare.Run(warm)
			run(b, e, warm)
			var bares, engines, ratios []float64
			for b.Loop() {
				start := time.Now()
				bare.Run(turn)
				bares = append(bares, rate(turn, start))
				start = time.Now()
				run(b, e, turn)
				engines = append(engines, rate(turn, start))
				ratios = append(ratios, engines[len(engines)-1]/bares[len(bares)-1])
			}
			slices.Sort(ratios)
			b.ReportMetric(slices.Max(bares), "bare-Mev/s")
			b.ReportMetric(slices.Max(engines), "engine-Mev/s")
			b.ReportMetric(ratios[0], "ratio-min")
			b.ReportMetric(ratios[len(ratios)/2], "ratio-median")
			b.ReportMetric(ratios[len(ratios)-1], "ratio-max")
		})
	}
}

// The two make events at the same rate of simulated time.
func TestSameEventStructure(t *testing.T) {
	cfg := Config{LPs: 64, Start: 4, Remote: 0.25, Lookahead: 0.1, Payload: 8}
	const n = 200_000
	bare := NewBare(cfg)
	bare.Run(n)
	e, err := NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(n, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	// Steps have mean 1: n events among 256 at a time take n/256 seconds.
	want := float64(n) / float64(cfg.LPs*cfg.Start)
	for name, got := range map[string]float64{"bare": bare.heap[0].epoch, "engine": e.Next().Epoch} {
		if math.Abs(got-want) > 0.02*want {
			t.Errorf("%s loop is at %v after %d events, want about %v", name, got, n, want)
		}
	}
}
