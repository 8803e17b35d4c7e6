// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// lazily is g with its nodes and links given one by one.
func lazily(g *Graph) *Graph {
	return &Graph{Simprocs: g.Simprocs, Meshes: g.Meshes, NodeCount: len(g.Nodes),
		NodeAt: func(n int) Node { return g.Nodes[n] }, EachLink: slices.Values(g.Links)}
}

func drawnGraph(rnd *rand.Rand) *Graph {
	g := &Graph{Simprocs: []string{"a", "b"}[:1+rnd.IntN(2)]}
	for n := range 1 + rnd.IntN(20) {
		g.Nodes = append(g.Nodes, Node{Name: fmt.Sprint("n", n), Work: rnd.Float64(), Shared: rnd.IntN(2) == 0})
	}
	end := func() Endpoint { return Endpoint{rnd.IntN(len(g.Nodes)), rnd.IntN(len(g.Simprocs))} }
	for range rnd.IntN(60) {
		g.Links = append(g.Links, Link{From: end(), To: end(), Lookahead: float64(1 + rnd.IntN(3)),
			Rate: float64(rnd.IntN(3))})
	}
	return g
}

// A structure has what its graph has, whether that is listed or not and in whatever order, and every link between
// workers lies in their lane, once.
func TestStructureOfGraph(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		g := drawnGraph(rnd)
		s, err := Compile(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		other := *g
		other.Links = slices.Clone(g.Links)
		rnd.Shuffle(len(other.Links), func(i, j int) {
			other.Links[i], other.Links[j] = other.Links[j], other.Links[i]
		})
		want := linksOf(s)
		for _, same := range []*Graph{lazily(g), &other} {
			if again, err := Compile(same, nil); err != nil || !slices.Equal(linksOf(again), want) {
				t.Fatalf("%v, %v, want %v", err, linksOf(again), want)
			}
		}
		if len(want) != len(g.Links) {
			t.Fatalf("%d links, want %d", len(want), len(g.Links))
		}
		for n := range g.Nodes {
			if got := (Node{s.NodeName(n), s.Work(n), s.Shared(n)}); got != g.Nodes[n] {
				t.Fatalf("node %d is %+v, want %+v", n, got, g.Nodes[n])
			}
		}
		checkPlaced(t, s, rnd)
	}
}

func linksOf(s *Structure) (all []Link) {
	for id := range SimprocID(s.NumSimprocs()) {
		first, end := s.LinksOf(id)
		for k := first; k < end; k++ {
			all = append(all, Link{s.Endpoint(id), s.Endpoint(s.To(k)), s.Lookahead(k), s.Rate(k)})
		}
	}
	return all
}

func checkPlaced(t *testing.T, s *Structure, rnd *rand.Rand) {
	t.Helper()
	workers := 1 + rnd.IntN(4)
	placement := make([]int32, s.NumNodes())
	for n := range placement {
		placement[n] = int32(rnd.IntN(workers))
	}
	p, err := s.Place(placement, workers)
	if err != nil {
		t.Fatal(err)
	}
	crossing := 0
	for id := range SimprocID(s.NumSimprocs()) {
		first, end := s.LinksOf(id)
		for k := first; k < end; k++ {
			from, to := int(placement[s.Node(id)]), int(placement[s.Node(s.To(k))])
			if from == to {
				continue
			}
			crossing++
			if !slices.Contains(p.lane(from, to), crossLink{uint32(id), uint32(k)}) {
				t.Fatalf("link %d from %d isn't in the lane from %d to %d", k, id, from, to)
			}
		}
	}
	if len(p.crossing) != crossing {
		t.Fatalf("%d links in lanes, want %d", len(p.crossing), crossing)
	}
	checkMapped(t, p)
	if o := s.Outline(); o.NumLinks() != s.NumLinks() || o.NumSimprocs() != s.NumSimprocs() ||
		o.Name(SimprocID(s.NumSimprocs()-1)) != s.Name(SimprocID(s.NumSimprocs()-1)) {
		t.Fatalf("outline %+v of %+v", o, s)
	}
	for w := range workers {
		plan, err := p.Plan(w, nil)
		if err != nil {
			t.Fatal(err)
		}
		for place, id := range plan.local {
			if p.placeOf(id) != place || p.workerOf(id) != w || p.indexOn(w, id) < 0 || p.indexOn(w+1, id) >= 0 {
				t.Fatalf("simproc %d is not in place %d of worker %d", id, place, w)
			}
		}
	}
}

// Functions that give other links the second time, or fail in between, leave no half structure.
func TestStructureRefused(t *testing.T) {
	calls := 0
	g := &Graph{Simprocs: []string{"x"}, NodeCount: 3, NodeAt: func(n int) Node { return Node{Name: fmt.Sprint(n)} },
		EachLink: func(yield func(Link) bool) {
			calls++
			for range 3 - calls {
				if !yield(Link{From: Endpoint{Node: calls}, Lookahead: 1}) {
					return
				}
			}
		}}
	if _, err := Compile(g, nil); err == nil || !strings.Contains(err.Error(), "the same links each time") {
		t.Errorf("links that change: %v", err)
	}
	stop := errors.New("stop")
	g = &Graph{Simprocs: []string{"x"}, NodeCount: 1 << 20,
		NodeAt: func(n int) Node { return Node{Name: fmt.Sprint(n)} }}
	asked := 0
	_, err := Compile(g, func() error {
		if asked++; asked == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || asked != 3 {
		t.Errorf("stopped at the third of %d questions: %v", asked, err)
	}
	g.NodeAt = func(n int) Node { return Node{Name: fmt.Sprint(n % 1000)} }
	if _, err := Compile(g, nil); err == nil || err.Error() != `node: nodes 0 and 1000 are both named "0"` {
		t.Errorf("two nodes of one name: %v", err)
	}
}
