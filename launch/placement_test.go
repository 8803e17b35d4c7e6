package launch

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// graph makes a graph of nodes with the given work, and links between pairs.
func graph(work []float64, pairs ...[2]int) *node.Graph {
	g := &node.Graph{Simprocs: []string{"s"}}
	for i, w := range work {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("n%d", i), Work: w})
	}
	for _, p := range pairs {
		g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: p[0]}, To: node.Endpoint{Node: p[1]}, Lookahead: 1})
	}
	return g
}

func ones(n int) []float64 {
	work := make([]float64, n)
	for i := range work {
		work[i] = 1
	}
	return work
}

func place(t *testing.T, g *node.Graph, workers int, pinned map[int]int32) *Placement {
	t.Helper()
	p, err := Place(g, workers, pinned)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlaceKnown(t *testing.T) {
	chain := func(n int) (pairs [][2]int) {
		for i := range n - 1 {
			pairs = append(pairs, [2]int{i, i + 1})
		}
		return pairs
	}
	for _, c := range []struct {
		name    string
		g       *node.Graph
		workers int
		pinned  map[int]int32
		want    []int32
		cut     float64
	}{
		{"chain in two", graph(ones(6), chain(6)...), 2, nil, []int32{0, 0, 0, 1, 1, 1}, 1.0 / 5},
		{"a node each", graph(ones(3), chain(3)...), 3, nil, []int32{0, 1, 2}, 1},
		{"one worker", graph(ones(3), chain(3)...), 1, nil, []int32{0, 0, 0}, 0},
		{"no link at all", graph(ones(4)), 2, nil, []int32{0, 0, 1, 1}, 0},
		{"nobody has work", graph(make([]float64, 4), chain(4)...), 2, nil, []int32{0, 0, 1, 1}, 1.0 / 3},
		{"one node has all the work", graph([]float64{0, 0, 9, 0}, chain(4)...), 2, nil, []int32{0, 0, 1, 1}, 1.0 / 3},
		{"order of links, not of indices", graph(ones(4), [2]int{0, 2}, [2]int{2, 1}, [2]int{1, 3}), 2, nil, []int32{0, 1, 0, 1}, 1.0 / 3},
		{"pins stay", graph(ones(4), chain(4)...), 2, map[int]int32{0: 1}, []int32{1, 0, 0, 1}, 2.0 / 3},
		{"two parts that don't touch", graph(ones(4), [2]int{0, 2}, [2]int{1, 3}), 2, nil, []int32{0, 1, 0, 1}, 0},
		{"sums beyond float64", graph([]float64{math.MaxFloat64, math.MaxFloat64}, chain(2)...), 2, nil, []int32{0, 1}, 1},
	} {
		p := place(t, c.g, c.workers, c.pinned)
		if !slices.Equal(p.Of, c.want) || math.Abs(p.Cut-c.cut) > 1e-12 {
			t.Errorf("%s: placed as %v with cut %v, want %v with %v", c.name, p.Of, p.Cut, c.want, c.cut)
		}
	}
}

// A border moves towards little traffic as long as the work stays nearly even.
func TestPlaceAvoidsTraffic(t *testing.T) {
	g := graph(ones(100))
	for i := range 99 {
		rate := 100.0
		if i == 48 { // between nodes 48 and 49: one node from the middle
			rate = 1
		}
		g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: i + 1}, Rate: rate})
	}
	p := place(t, g, 2, nil)
	if p.Nodes[0] != 49 || p.Cut > 1e-3 {
		t.Errorf("placed %v nodes with a cut of %v, want 49 and 51 with the thin link between", p.Nodes, p.Cut)
	}
	// In a graph in which everybody talks to everybody no border is much better than
	// the even one.
	g = graph(ones(40))
	for i := range 40 {
		for j := range i {
			g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: j}})
		}
	}
	if p := place(t, g, 4, nil); !slices.Equal(p.Nodes, []int{10, 10, 10, 10}) {
		t.Errorf("a full graph was placed as %v, want 10 nodes each", p.Nodes)
	}
}

// dumbBest is the least load of the busiest worker over all ways to cut order into
// blocks, by trying them all.
func dumbBest(order []int, work, loads []float64, needy []bool) float64 {
	if len(loads) == 0 {
		if len(order) == 0 {
			return 0
		}
		return math.Inf(1)
	}
	best := math.Inf(1)
	for end := 0; end <= len(order); end++ {
		if needy[0] && end == 0 {
			continue
		}
		load := loads[0]
		for _, n := range order[:end] {
			load += work[n]
		}
		best = min(best, max(load, dumbBest(order[end:], work, loads[1:], needy[1:])))
	}
	return best
}

// TestPlaceAgainstDumb holds placements of small random graphs against the best that
// trying everything finds.
func TestPlaceAgainstDumb(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		n := 1 + rng.IntN(8)
		workers := 1 + rng.IntN(min(n, 4))
		g := graph(ones(n))
		for i := range g.Nodes {
			g.Nodes[i].Work = [...]float64{0, 1, rng.Float64() * 10, 5}[rng.IntN(4)]
		}
		for range rng.IntN(2 * n) {
			g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: rng.IntN(n)}, To: node.Endpoint{Node: rng.IntN(n)}, Rate: float64(rng.IntN(3))})
		}
		pinned := map[int]int32{}
		for i := range n {
			if rng.IntN(4) == 0 {
				pinned[i] = int32(rng.IntN(workers))
			}
		}
		checkAgainstDumb(t, g, workers, pinned)
	}
}

func checkAgainstDumb(t *testing.T, g *node.Graph, workers int, pinned map[int]int32) {
	t.Helper()
	work, loads, needy := expectedWork(g), make([]float64, workers), make([]bool, workers)
	for w := range needy {
		needy[w] = true
	}
	var order []int
	for _, n := range newNeighbours(g).depthFirst() {
		if w, ok := pinned[n]; ok {
			loads[w] += work[n]
			needy[w] = false
		} else {
			order = append(order, n)
		}
	}
	best := dumbBest(order, work, loads, needy)
	p, err := Place(g, workers, pinned)
	if err != nil {
		if !math.IsInf(best, 1) {
			t.Fatalf("%v, but there is a placement with load %v: work %v, pinned %v", err, best, work, pinned)
		}
		return
	}
	got := make([]float64, workers)
	for n, w := range p.Of {
		if want, ok := pinned[n]; ok && want != w {
			t.Fatalf("node %d was pinned to worker %d and is on %d", n, want, w)
		}
		got[w] += work[n]
	}
	if busiest := slices.Max(got); busiest > best*(1+cutSlack)+1e-9 {
		t.Fatalf("busiest worker has %v, the best is %v: work %v, pinned %v, order %v, placed %v", busiest, best, work, pinned, order, p.Of)
	}
}

func TestPlaceLarge(t *testing.T) {
	n := 200_000
	g := graph(ones(n))
	for i := range n - 1 {
		g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: i + 1}})
	}
	p := place(t, g, 7, nil)
	if p.Balance() > 1+cutSlack || p.Cut != 6.0/float64(n-1) {
		t.Errorf("a long chain has balance %v and cut %v, want near 1 and 6 of %d links", p.Balance(), p.Cut, n-1)
	}
}

func TestPlaceRefuses(t *testing.T) {
	g := graph(ones(2), [2]int{0, 1})
	for _, c := range []struct {
		workers int
		pinned  map[int]int32
		want    string
	}{
		{0, nil, "launch: 0 workers for 2 nodes, want 1 to 2"},
		{3, nil, "launch: 3 workers for 2 nodes, want 1 to 2"},
		{2, map[int]int32{0: 0, 1: 0}, "launch: the placement leaves worker 1 of 2 without a node: use fewer workers, or place a node on it"},
		{2, map[int]int32{0: 2}, "launch: node 0 is placed on worker 2, but there are 2 nodes and workers 0 to 1"},
		{2, map[int]int32{7: 0}, "launch: node 7 is placed on worker 0, but there are 2 nodes and workers 0 to 1"},
	} {
		if _, err := Place(g, c.workers, c.pinned); err == nil || err.Error() != c.want {
			t.Errorf("%d workers, pinned %v: error %v, want %s", c.workers, c.pinned, err, c.want)
		}
	}
}

func TestParsePins(t *testing.T) {
	g := graph(ones(3), [2]int{0, 1})
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "p:"},
		{"a list", "- n0\n", "p:1:1: found a list, want one line `node: worker` a node"},
		{"no number", "n0: one\n", `p:1:5: n0: found "one", want the number of a worker, 0 for the first`},
		{"half a worker", "n0: 1.5\n", `p:1:5: n0: found "1.5", want the number of a worker, 0 for the first`},
		{"a list of workers", "n0: [1, 2]\n", `p:1:5: n0: found a list, want the number of a worker, 0 for the first`},
		{"twice", "n0: 0\nn1: 1\nn0: 1\n", "p:3:1: n0: found the node a second time (the first is on line 1), want every node once"},
		{"unknown node", "n0: 0\nn9: 1\n", "p:2:1: n9: found a node that the scenario doesn't have, want one of its nodes: n0, n1, n2; did you mean n0?"},
		{"unknown worker", "n0: 0\nn1: 2\n", "p:2:5: n1: found worker 2, want 0 to 1: this run has 2 workers"},
		{"negative worker", "n0: -1\n", "p:1:5: n0: found worker -1, want 0 to 1: this run has 2 workers"},
		{"two faults", "n0: x\nn1: y\n", "p:1:5: n0: found \"x\", want the number of a worker, 0 for the first\np:2:5: n1: found \"y\", want the number of a worker, 0 for the first"},
	} {
		pins, err := ParsePins("p", []byte(c.text))
		if err == nil {
			_, err = pins.resolve(g, 2)
		}
		var problems scenario.Problems
		if !errors.As(err, &problems) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
	pins, err := ParsePins("p", []byte("# by hand\nn2: 0\n\"n1\": 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := pins.resolve(g, 2)
	if err != nil || len(got) != 2 || got[2] != 0 || got[1] != 1 {
		t.Errorf("resolved to %v with error %v, want nodes 2 and 1 on workers 0 and 1", got, err)
	}
}
