// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// alarm is a model whose simprocs only wake themselves.
type alarm struct{ g *Graph }

func (m alarm) Graph() *Graph { return m.g }

func (m alarm) NewHandler(p *Simproc) (Handler, error) {
	return &alarmHandler{rand.New(p.Source("alarm"))}, nil
}

type alarmHandler struct{ rnd *rand.Rand }

func (h *alarmHandler) Handle(p *Simproc, _ []Event) error {
	return p.Wakeup(p.Now() + 0.1 + 0.9*h.rnd.ExpFloat64())
}

// BenchmarkClasses is what it costs that a worker has more than one class: worker 0 of
// as many workers as classes, where peer i sends to layer i and so reaches all layers
// behind it.
func BenchmarkClasses(b *testing.B) {
	for _, classes := range []int{1, 2, 4, 8, 16} {
		b.Run(fmt.Sprint(classes), func(b *testing.B) {
			const local = 1024
			g := &Graph{}
			placement := make([]int32, local/classes)
			for r := range classes {
				g.Simprocs = append(g.Simprocs, fmt.Sprintf("r%d", r))
			}
			for i := range local/classes + classes - 1 {
				g.Nodes = append(g.Nodes, Node{Name: fmt.Sprintf("n%d", i)})
			}
			for peer := 1; peer < classes; peer++ {
				from := len(placement)
				placement = append(placement, int32(peer))
				for n := range local / classes {
					g.Links = append(g.Links, Link{From: Endpoint{from, peer}, To: Endpoint{n, peer}, Lookahead: 1})
				}
			}
			plan, err := NewPlan(g, placement, 0, classes)
			if err != nil || len(plan.classes) != classes {
				b.Fatalf("%d classes, %v, want %d", len(plan.classes), err, classes)
			}
			e, err := NewEngine(plan, Config{Model: alarm{g}, Seed: 1, Horizon: math.MaxFloat64})
			for peer := 1; peer < classes && err == nil; peer++ {
				err = e.ReceiveBound(peer, Never)
			}
			if err == nil {
				_, err = e.Run(10*local, math.Inf(1))
			}
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			if _, err := e.Run(b.N, math.Inf(1)); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mactivations/s")
		})
	}
}
