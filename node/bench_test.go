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

// BenchmarkPholdBare is the reference: the same events in a bare 4-ary heap of
// (epoch, target), without a model interface, payload, order or hash.
func BenchmarkPholdBare(b *testing.B) {
	const lps, start, remote, lookahead = 1024, 16, 0.1, 0.1
	type item struct {
		epoch  float64
		target uint32
	}
	rnds := make([]*rand.Rand, lps)
	var h []item
	push := func(it item) {
		h = append(h, it)
		i := len(h) - 1
		for i > 0 {
			p := (i - 1) >> 2
			if h[p].epoch <= it.epoch {
				break
			}
			h[i] = h[p]
			i = p
		}
		h[i] = it
	}
	for i := range rnds {
		rnds[i] = rand.New(rand.NewPCG(uint64(i), 1))
		for range start {
			push(item{lookahead + rnds[i].ExpFloat64()*(1-lookahead), uint32(i)})
		}
	}
	b.ResetTimer()
	for range b.N {
		it := h[0]
		r := rnds[it.target]
		to := it.target
		if r.Float64() <= remote {
			to = uint32(r.IntN(lps))
		}
		next := item{it.epoch + lookahead + r.ExpFloat64()*(1-lookahead), to}
		// The new event takes the first one's place and sinks.
		i, n := 0, len(h)
		for {
			c := i<<2 + 1
			if c >= n {
				break
			}
			least := c
			for j, end := c+1, min(c+4, n); j < end; j++ {
				if h[j].epoch < h[least].epoch {
					least = j
				}
			}
			if h[least].epoch >= next.epoch {
				break
			}
			h[i] = h[least]
			i = least
		}
		h[i] = next
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
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
