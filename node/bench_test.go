// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// phold is the PHOLD model (Fujimoto, Performance of Time Warp under synthetic
// workloads, 1990) through the public model interface: every event makes one event, for
// a random simproc or its own.
type phold struct {
	g         *Graph
	start     int
	remote    float64
	lookahead float64
	payload   int
}

func newPhold(lps, start int, remote, lookahead float64, payload int) *phold {
	g := &Graph{Simprocs: []string{"lp"}}
	for i := range lps {
		g.Nodes = append(g.Nodes, Node{Name: fmt.Sprintf("lp%d", i), Work: 1})
	}
	g.Meshes = []Mesh{{Lookahead: lookahead}}
	return &phold{g, start, remote, lookahead, payload}
}

func (m *phold) Graph() *Graph { return m.g }

type pholdLP struct {
	m    *phold
	rnd  *rand.Rand
	self LinkID
	data []byte
}

func (m *phold) NewHandler(p *Simproc) (Handler, error) {
	return &pholdLP{m, rand.New(p.Source("lp")), LinkID(p.NodeIndex()), make([]byte, m.payload)}, nil
}

func (h *pholdLP) Handle(p *Simproc, events []Event) error {
	n := len(events)
	if p.Now() == 0 {
		n += h.m.start
	}
	for range n {
		to := h.self
		if p.Now() != 0 && h.rnd.Float64() <= h.m.remote {
			to = LinkID(h.rnd.IntN(len(h.m.g.Nodes)))
		}
		if err := p.Send(to, p.Now()+h.m.lookahead+h.rnd.ExpFloat64()*(1-h.m.lookahead), h.data); err != nil {
			return err
		}
	}
	return nil
}

func benchEngine(b *testing.B, m *phold) *Engine {
	plan, err := NewPlan(m.g, make([]int32, len(m.g.Nodes)), 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	e, err := NewEngine(plan, Config{Model: m, Seed: 1, Horizon: math.MaxFloat64})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := e.Run(len(m.g.Nodes)*(m.start+4), math.Inf(1)); err != nil {
		b.Fatal(err)
	}
	return e
}

func BenchmarkPhold(b *testing.B) {
	for _, payload := range []int{0, 16} {
		b.Run(fmt.Sprintf("payload=%d", payload), func(b *testing.B) {
			e := benchEngine(b, newPhold(1024, 16, 0.1, 0.1, payload))
			before := e.stats.Events
			b.ReportAllocs()
			b.ResetTimer()
			if _, err := e.Run(b.N, math.Inf(1)); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(e.stats.Events-before)/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}

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

func TestHandlingDoesNotAllocate(t *testing.T) {
	if checked {
		t.Skip("the checks of the checked build allocate")
	}
	m := newPhold(64, 16, 0.5, 0.1, 24)
	plan, _ := NewPlan(m.g, make([]int32, 64), 0, 1)
	e, err := NewEngine(plan, Config{Model: m, Seed: 1, Horizon: math.MaxFloat64})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(100_000, math.Inf(1)); err != nil { // queues reach their sizes
		t.Fatal(err)
	}
	got := testing.AllocsPerRun(10, func() {
		if _, err := e.Run(1000, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
	})
	if got > 1 { // a queue may still grow now and then
		t.Errorf("%v allocations per 1000 activations, want none", got)
	}
}
