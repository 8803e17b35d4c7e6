// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"gonum.org/v1/gonum/graph/path"
	"gonum.org/v1/gonum/graph/simple"

	"github.com/disco-sim/disco/internal/gml"
)

func near(a, b, relative float64) bool { return math.Abs(a-b) <= relative*math.Abs(b) }

// TestDistance: distances from tables, and places where formulas go wrong.
func TestDistance(t *testing.T) {
	at := func(lat, lon float64) *Place { return &Place{Latitude: lat, Longitude: lon} }
	quarter := math.Pi / 2 * earthMetres
	for _, c := range []struct {
		a, b *Place
		want float64
		part float64
	}{
		{at(51.5074, -0.1278), at(48.8566, 2.3522), 343_560, 1e-3},      // London - Paris
		{at(40.7128, -74.006), at(34.0522, -118.2437), 3_935_750, 1e-3}, // New York - Los Angeles
		{at(0, 0), at(0, 90), quarter, 1e-12},
		{at(0, 179.5), at(0, -179.5), quarter / 90, 1e-9},
		{at(0, 0), at(0, 180), 2 * quarter, 1e-12},
		{at(89, 0), at(89, 180), quarter / 45, 1e-9},
		{at(50, 8), at(50, 8), 0, 0},
	} {
		if got := distance(c.a, c.b); !near(got, c.want, c.part) || got != distance(c.b, c.a) {
			t.Errorf("%+v to %+v: %v m, want %v", c.a, c.b, got, c.want)
		}
	}
	if propagation(0) < 10e-6 || propagation(0) > 10e-6+tick || !near(propagation(2e8), 1, 1e-15) {
		t.Errorf("delays: %v, %v", propagation(0), propagation(2e8))
	}
}

// TestPlaces: names, guessed places, parallel cables, channels.
func TestPlaces(t *testing.T) {
	text, err := os.ReadFile("testdata/net.gml")
	if err != nil {
		t.Fatal(err)
	}
	g, err := gml.Parse("net.gml", text)
	if err != nil {
		t.Fatal(err)
	}
	top, loops, err := newTopology(g, 5e6)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a", "b", "c", "j", "x-y", "twin #5", "twin #6"} {
		if top.Nodes[i].Name != want {
			t.Errorf("node %d is named %q, want %q", i, top.Nodes[i].Name, want)
		}
	}
	j := top.Nodes[3]
	if lat, lon := centre([]*Place{&top.Nodes[0], &top.Nodes[2]}); !j.Guessed || !j.Junction || j.Latitude != lat ||
		j.Longitude != lon || !near(lat, 51, 1e-3) || !near(lon, 7.5, 1e-2) {
		t.Errorf("the junction is %+v", j)
	}
	if len(loops) != 1 || len(top.Cables) != 7 || top.Cables[1].Name != "b - a (2)" || top.Cables[1].Rate != 2e6 ||
		top.Cables[2].Rate != 5e6 {
		t.Errorf("loops %v, cables %+v", loops, top.Cables)
	}
	for n := range top.Nodes {
		for _, id := range top.Out[n] {
			c := top.Channels[id]
			if c.From != n || top.In[c.To][c.Input] != id {
				t.Errorf("channel %d of %s: %+v", id, top.Nodes[n].Name, c)
			}
		}
	}
}

// TestGuessChain: a chain of nodes without a place is filled from its ends, and what
// has no place anywhere near keeps none and the least delay.
func TestGuessChain(t *testing.T) {
	g, err := gml.Parse("t.gml", []byte(`graph [
node [ id 0 Latitude 10 Longitude 179 ] node [ id 1 ] node [ id 2 ]
node [ id 3 Latitude 10 Longitude -179 ] node [ id 4 ] node [ id 5 ]
edge [ source 0 target 1 ] edge [ source 1 target 2 ] edge [ source 2 target 3 ]
edge [ source 4 target 5 ] edge [ source 0 target 3 ] ]`))
	if err != nil {
		t.Fatal(err)
	}
	top, _, err := newTopology(g, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := top.Nodes; !near(n[1].Longitude, 179, 1e-9) || !near(n[2].Longitude, -179, 1e-9) || n[4].Placed ||
		n[5].Placed {
		t.Errorf("places: %+v", n)
	}
	if top.Cables[0].Delay != propagation(0) || top.Cables[3].Delay != propagation(0) ||
		!near(top.Cables[4].Metres, 219_000, 1e-2) {
		t.Errorf("cables: %+v", top.Cables)
	}
}

// randomTopology is a graph of n nodes with random edges, some parallel, of few
// different lengths, so that many ways are equally long.
func randomTopology(rnd *rand.Rand, n, edges int, directed bool) *Topology {
	g := &gml.Graph{Directed: directed}
	for i := range n {
		g.Nodes = append(g.Nodes, gml.Node{ID: int64(i), Placed: true, Latitude: float64(rnd.IntN(4)),
			Longitude: float64(rnd.IntN(4))})
	}
	for range edges {
		g.Edges = append(g.Edges, gml.Edge{Source: rnd.IntN(n), Target: rnd.IntN(n),
			Rate: []float64{0, 1e6, 3e6}[rnd.IntN(3)]})
	}
	t, _, err := newTopology(g, 7e6)
	if err != nil {
		panic(err)
	}
	return t
}

// reference is the delay of the shortest ways from one node, by gonum.
func reference(t *Topology, metric []float64, root int, down func(int) bool) []float64 {
	g := simple.NewWeightedDirectedGraph(0, math.Inf(1))
	for i := range t.Nodes {
		g.AddNode(simple.Node(i))
	}
	for id, c := range t.Channels {
		if down(c.Cable) {
			continue
		}
		w := metric[id]
		if old, ok := g.Weight(int64(c.From), int64(c.To)); ok {
			w = min(w, old)
		}
		g.SetWeightedEdge(g.NewWeightedEdge(simple.Node(c.From), simple.Node(c.To), w))
	}
	tree := path.DijkstraFrom(simple.Node(root), g)
	delays := make([]float64, len(t.Nodes))
	for i := range delays {
		delays[i] = tree.WeightTo(int64(i))
	}
	return delays
}

// TestShortest holds routes against gonum's, bit by bit, on random graphs with random
// cables down; and follows them hop by hop over the trees of all nodes: they agree, so
// no packet goes round in circles.
func TestShortest(t *testing.T) {
	const seed = 5
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 60 {
		n := 2 + rnd.IntN(25)
		top := randomTopology(rnd, n, rnd.IntN(3*n), round%4 == 0)
		s := &Spec{Topology: top, Sizes: Sizes{Mean: 700}}
		metric := s.metric()
		dead := make([]bool, len(top.Cables))
		for i := range dead {
			dead[i] = rnd.IntN(4) == 0
		}
		down := func(c int) bool { return dead[c] }
		trees := make([]*tree, n)
		for root := range n {
			trees[root] = top.shortest(root, metric, down)
		}
		for root := range n {
			want := reference(top, metric, root, down)
			for to := range n {
				first := trees[root].first[to]
				if reached := first >= 0 || to == root; reached == math.IsInf(want[to], 1) || reached &&
					trees[root].delay[to] != want[to] {
					t.Fatalf("seed %d, round %d: from %d to %d takes %v, want %v", seed, round, root, to,
						trees[root].delay[to], want[to])
				}
				if first < 0 {
					continue
				}
				delay, at := 0.0, root
				for at != to {
					id := trees[at].first[to]
					delay += metric[id]
					at = top.Channels[id].To
					if dead[top.Channels[id].Cable] || delay > want[to] {
						t.Fatalf("seed %d, round %d: the way from %d to %d goes over %d after %v s", seed, round, root,
							to, at, delay)
					}
				}
				if delay != want[to] {
					t.Fatalf("seed %d, round %d: hop by hop from %d to %d takes %v, want %v", seed, round, root, to,
						delay, want[to])
				}
			}
		}
	}
}
