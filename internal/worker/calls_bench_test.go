// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"testing"

	"github.com/disco-sim/disco/internal/cputime"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/node"
)

// BenchmarkCallWriter is what a journal costs a worker: processor time of PHOLD's 10^5 processes with one, which is
// written to a file, ÷ without. Two Engines do a stretch of 50,000 calls each, in turn, so that other programs disturb
// both alike.
func BenchmarkCallWriter(b *testing.B) {
	p := phold.Defaults()
	p.LPs, p.Events, p.End = 100_000, 10, 1e9
	m := phold.New(p)
	plan, err := node.NewPlan(m.Graph(), make([]int32, m.Graph().Len()), 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	f, err := outfile.Temporary(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := newCallWriter(f, false)
	defer w.close()
	if err := w.replication(plan, 0); err != nil {
		b.Fatal(err)
	}
	var engines [2]*node.Engine
	for i, log := range []*node.CallLog{nil, &w.log} {
		engines[i], err = node.NewEngine(plan, node.Config{Model: m, Horizon: m.Horizon(), Calls: log})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := engines[i].Run(1_500_000, math.Inf(1)); err != nil {
			b.Fatal(err)
		}
	}
	var seconds [2]float64
	for turn := 0; b.Loop(); turn++ {
		for k := range engines {
			i := (k + turn) % 2
			began := cputime.Self()
			if _, err := engines[i].Run(50_000, math.Inf(1)); err != nil {
				b.Fatal(err)
			}
			if i == 1 && turn%20 == 0 {
				w.flush()
			}
			seconds[i] += cputime.Self() - began
		}
		if err := f.Truncate(0); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.failed(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(seconds[1]/seconds[0], "with/without")
}
