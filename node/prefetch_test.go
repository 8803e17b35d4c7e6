// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// crowd is a model of many simprocs that send themselves events of all sizes, and each
// other some, at times that lie close together.
type crowd struct{ g *Graph }

func newCrowd(n int) crowd {
	g := &Graph{Simprocs: []string{"p"}, Meshes: []Mesh{{Lookahead: 0.01}}}
	for i := range n {
		g.Nodes = append(g.Nodes, Node{Name: fmt.Sprint(i)})
	}
	return crowd{g}
}

func (m crowd) Graph() *Graph { return m.g }

func (m crowd) NewHandler(p *Simproc) (Handler, error) {
	h := &crowdHandler{nodes: len(m.g.Nodes)}
	h.pcg.Seed(p.Seed("crowd"))
	return h, nil
}

type crowdHandler struct {
	pcg   rand.PCG
	nodes int
	data  [256]byte
}

func (h *crowdHandler) Handle(p *Simproc, events []Event) error {
	rnd := rand.New(&h.pcg)
	for range max(len(events), 1) {
		at, data := p.Now()+0.01+rnd.ExpFloat64(), h.data[:rnd.IntN(256)]
		if rnd.IntN(4) > 0 {
			if err := p.Schedule(math.Round(at*1e4)/1e4, data); err != nil {
				return err
			}
			continue
		}
		link, err := p.LinkTo(Endpoint{Node: rnd.IntN(h.nodes)})
		if err == nil {
			err = p.Send(link, at, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// What handlers get doesn't depend on whether the Engine looks ahead.
func TestLookingAheadChangesNothing(t *testing.T) {
	m := newCrowd(aheadMin)
	var hashes [2][]uint64
	for i := range hashes {
		plan, err := NewPlan(m.Graph(), make([]int32, len(m.g.Nodes)), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEngine(plan, Config{Model: m, Seed: 1, Horizon: 10})
		if err != nil {
			t.Fatal(err)
		}
		set := &e.classes[0].set
		if !set.ahead {
			t.Fatalf("no looking ahead with %d simprocs, want it from %d on", len(m.g.Nodes), aheadMin)
		}
		set.ahead = i == 1
		asked := 0
		for e.Next() != Never {
			if _, err := e.Run(1, math.Inf(1)); err != nil {
				t.Fatal(err)
			}
			if set.near > set.at {
				asked++
			}
		}
		if n := e.Stats().Activations; i == 1 && asked < int(n)*9/10 {
			t.Errorf("handlers were asked for ahead of %d of %d calls, want nearly all", asked, n)
		}
		e.Hashes(func(_ SimprocID, hash uint64) { hashes[i] = append(hashes[i], hash) })
	}
	if !slices.Equal(hashes[0], hashes[1]) {
		t.Error("trace hashes differ")
	}
}

// A generator that starts from Seed draws what the stream of that name draws.
func TestSeedIsSource(t *testing.T) {
	m := newCrowd(2)
	plan, err := NewPlan(m.Graph(), make([]int32, 2), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(plan, Config{Model: m, Seed: 1, Horizon: 10, Replication: 3})
	if err != nil {
		t.Fatal(err)
	}
	var pcg rand.PCG
	pcg.Seed(e.procs[1].Seed("steps"))
	source := e.procs[1].Source("steps")
	for i := range 10 {
		if got, want := pcg.Uint64(), source.Uint64(); got != want {
			t.Errorf("number %d from Seed is %x, from Source %x", i, got, want)
		}
	}
}

// crowdBeside is a crowd of which only some have something to do.
type crowdBeside struct {
	crowd
	busy int
}

type stateless struct{}

func (stateless) Handle(*Simproc, []Event) error { return nil }

func (m crowdBeside) NewHandler(p *Simproc) (Handler, error) {
	if p.NodeIndex() >= m.busy {
		return stateless{}, nil
	}
	return m.crowd.NewHandler(p)
}

// What has no state is in no cache, and doesn't count for looking ahead.
func TestOnlyStateCountsForLookingAhead(t *testing.T) {
	for busy, want := range map[int]bool{aheadMin - 1: false, aheadMin: true, 2 * aheadMin: true} {
		m := crowdBeside{newCrowd(2 * aheadMin), busy}
		plan, err := NewPlan(m.Graph(), make([]int32, 2*aheadMin), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEngine(plan, Config{Model: m, Seed: 1, Horizon: 10})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.classes[0].set.ahead; got != want {
			t.Errorf("looking ahead with %d simprocs of %d that have state: %v, want %v", busy, 2*aheadMin, got, want)
		}
	}
}
