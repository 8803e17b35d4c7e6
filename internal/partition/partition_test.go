// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/node"
)

// graph makes a graph of nodes with the given work, and links between pairs.
func graph(work []float64, pairs ...[2]int) *node.Graph {
	g := &node.Graph{Simprocs: []string{"s"}}
	for i, w := range work {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("n%d", i), Work: w})
	}
	for _, p := range pairs {
		g.Links = append(g.Links, link(p[0], p[1], 0, 1))
	}
	return g
}

func link(from, to int, rate, lookahead float64) node.Link {
	return node.Link{From: node.Endpoint{Node: from}, To: node.Endpoint{Node: to}, Lookahead: lookahead, Rate: rate}
}

func ones(n int) []float64 {
	work := make([]float64, n)
	for i := range work {
		work[i] = 1
	}
	return work
}

func chain(n int) (pairs [][2]int) {
	for i := range n - 1 {
		pairs = append(pairs, [2]int{i, i + 1})
	}
	return pairs
}

// structure is a graph in its compact form. Nodes without a name get one.
func structure(g *node.Graph) *node.Structure {
	named := *g
	named.Nodes = slices.Clone(g.Nodes)
	for n := range named.Nodes {
		if named.Nodes[n].Name == "" {
			named.Nodes[n].Name = fmt.Sprint("n", n)
		}
	}
	s, err := node.Compile(&named, nil)
	if err != nil {
		panic(err) // the test's fault
	}
	return s
}

func makeOf(g *node.Graph, workers int, method Method, pinned map[int]int32) (*Partition, error) {
	return Make(structure(g), each(workers), method, pinned, nil)
}

// each is a long run whose workers have a processor each.
func each(workers int) Run { return Run{Workers: workers, Processors: workers, Seconds: 1e9} }

func mustMake(t testing.TB, g *node.Graph, workers int, method Method, pinned map[int]int32) *Partition {
	t.Helper()
	p, err := makeOf(g, workers, method, pinned)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestKnown(t *testing.T) {
	for _, c := range []struct {
		name    string
		method  Method
		g       *node.Graph
		workers int
		pinned  map[int]int32
		want    []int32
		cut     float64
	}{
		{"one worker", MinCut, graph(ones(3), chain(3)...), 1, nil, []int32{0, 0, 0}, 0},
		{"chain in two", MinCut, graph(ones(6), chain(6)...), 2, nil, []int32{0, 0, 0, 1, 1, 1}, 1.0 / 5},
		{"no node has work", MinCut, graph(make([]float64, 4), chain(4)...), 2, nil, []int32{0, 0, 1, 1}, 1.0 / 3},
		{"order of links, not of indices", MinCut, graph(ones(4), [2]int{0, 2}, [2]int{2, 1}, [2]int{1, 3}), 2, nil,
			[]int32{0, 1, 0, 1}, 1.0 / 3},
		{"two parts that don't touch", MinCut, graph(ones(4), [2]int{0, 2}, [2]int{1, 3}), 2, nil, []int32{0, 1, 0, 1},
			0},
		{"sums beyond float64", MinCut, graph([]float64{math.MaxFloat64, math.MaxFloat64}, chain(2)...), 2, nil,
			[]int32{0, 1}, 1},
		{"block", Block, graph(ones(4), [2]int{0, 2}, [2]int{1, 3}), 2, nil, []int32{0, 0, 1, 1}, 1},
		{"block by work", Block, graph([]float64{3, 1, 1, 1}, chain(4)...), 2, nil, []int32{0, 1, 1, 1}, 1.0 / 3},
		{"block with pins", Block, graph(ones(4), chain(4)...), 2, map[int]int32{0: 1}, []int32{1, 0, 0, 1}, 2.0 / 3},
		{"round-robin", RoundRobin, graph(ones(5), chain(5)...), 2, nil, []int32{0, 1, 0, 1, 0}, 1},
		{"round-robin with pins", RoundRobin, graph(ones(5), chain(5)...), 2, map[int]int32{0: 0, 1: 0, 2: 0},
			[]int32{0, 0, 0, 1, 1}, 1.0 / 4},
	} {
		p := mustMake(t, c.g, c.workers, c.method, c.pinned)
		if !slices.Equal(p.Of, c.want) || math.Abs(p.Cut-c.cut) > 1e-12 {
			t.Errorf("%s: %v with cut %v, want %v with %v", c.name, p.Of, p.Cut, c.want, c.cut)
		}
	}
}

// The only thin link is cut, wherever it lies within the slack of the work.
func TestThinLink(t *testing.T) {
	for at := 48; at <= 50; at++ {
		g := graph(ones(100))
		for i := range 99 {
			rate := 100.0
			if i == at {
				rate = 1
			}
			g.Links = append(g.Links, link(i, i+1, rate, 1))
		}
		if p := mustMake(t, g, 2, MinCut, nil); p.Cut > 1e-3 || p.Balance() > 1+cutSlack {
			t.Errorf("thin link behind node %d: a cut of %v with balance %v", at, p.Cut, p.Balance())
		}
	}
}

// Links on cycles with little lookahead stay inside, whatever the traffic on others that
// lead nowhere back.
func TestLookahead(t *testing.T) {
	g := graph(ones(4))
	for _, l := range [][3]float64{{0, 1, 0.001}, {1, 2, 1}, {2, 3, 0.001}, {3, 0, 1}} {
		g.Links = append(g.Links, link(int(l[0]), int(l[1]), 10, l[2]), link(int(l[1]), int(l[0]), 10, l[2]))
	}
	p := mustMake(t, g, 2, MinCut, nil)
	if p.Of[0] != p.Of[1] || p.Of[2] != p.Of[3] || p.Of[0] == p.Of[2] || p.Lookahead != 1 {
		t.Errorf("placed %v with lookahead %v, want the links of 1 ms inside", p.Of, p.Lookahead)
	}
	// The same chain without a way back: lookahead doesn't matter.
	g.Links = []node.Link{link(0, 1, 10, 0), link(1, 2, 11, 0), link(2, 3, 10, 0), link(0, 3, 9, 0)}
	if p = mustMake(t, g, 2, MinCut, nil); !math.IsInf(p.Lookahead, 1) {
		t.Errorf("no cycle, but a lookahead of %v between workers", p.Lookahead)
	}
}

// Between parts of the nodes only links on a cycle count, and meshes.
func TestLeastBetween(t *testing.T) {
	g := graph(ones(6))
	g.Links = []node.Link{link(0, 1, 0, 0.1), link(1, 0, 0, 0.1), link(1, 2, 0, 3), link(2, 3, 0, 0.2),
		link(3, 0, 0, 2), link(3, 4, 0, 0.5), link(4, 5, 0, 0.3)}
	for i, c := range []struct {
		of   []int32
		want float64
	}{
		{[]int32{0, 0, 0, 0, 0, 0}, math.Inf(1)},
		{[]int32{0, 0, 1, 1, 1, 1}, 2},
		{[]int32{0, 0, 2, 1, 1, 1}, 0.2},
		{[]int32{0, 1, 1, 1, 1, 1}, 0.1},
		{[]int32{0, 0, 0, 0, 1, 1}, math.Inf(1)}, // a pipeline
	} {
		s, err := node.Compile(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		least, err := LeastBetween(s, c.of, func() error { return nil })
		if err != nil || least != c.want {
			t.Errorf("%d: %v, %v, want %v", i, least, err, c.want)
		}
	}
}

// Shared simprocs of one node count as one: a way from one to the other closes a cycle.
func TestCyclesThroughSharedNodes(t *testing.T) {
	g := graph(ones(2))
	g.Simprocs = []string{"a", "b"}
	up := node.Link{From: node.Endpoint{Node: 0, Simproc: 1}, To: node.Endpoint{Node: 1, Simproc: 0}, Lookahead: 2}
	down := node.Link{From: node.Endpoint{Node: 1, Simproc: 1}, To: node.Endpoint{Node: 0, Simproc: 0}, Lookahead: 3}
	g.Links = []node.Link{up, down}
	if p := mustMake(t, g, 2, MinCut, nil); !math.IsInf(p.Lookahead, 1) {
		t.Errorf("simprocs with their own state: lookahead %v, want none on a cycle", p.Lookahead)
	}
	g.Nodes[0].Shared, g.Nodes[1].Shared = true, true
	if p := mustMake(t, g, 2, MinCut, nil); p.Lookahead != 2 {
		t.Errorf("shared state: lookahead %v, want 2", p.Lookahead)
	}
}

// Structures with a known best cut.
func TestStructures(t *testing.T) {
	cliques := graph(ones(40))
	for c := range 4 {
		for i := range 10 {
			for j := range i {
				// Interleaved, so that the order of nodes is no help.
				cliques.Links = append(cliques.Links, link(4*i+c, 4*j+c, 0, 1))
			}
		}
		cliques.Links = append(cliques.Links, link(c, (c+1)%4, 0, 1))
	}
	const side = 20
	grid := graph(ones(side * side))
	for x := range side {
		for y := range side {
			if x+1 < side {
				grid.Links = append(grid.Links, link(x*side+y, (x+1)*side+y, 0, 1))
			}
			if y+1 < side {
				grid.Links = append(grid.Links, link(x*side+y, x*side+y+1, 0, 1))
			}
		}
	}
	star := graph(ones(101))
	for i := range 100 {
		star.Links = append(star.Links, link(0, i+1, 0, 1))
	}
	for _, c := range []struct {
		name    string
		g       *node.Graph
		workers int
		most    float64 // links
	}{
		{"cliques", cliques, 4, 4},
		{"grid in two", grid, 2, side * 1.3},
		{"grid in four", grid, 4, 2 * side * 1.3},
		{"star in two", star, 2, 53},
		{"star in four", star, 4, 77},
	} {
		p := mustMake(t, c.g, c.workers, MinCut, nil)
		if links := p.Cut * float64(len(c.g.Links)); links > c.most+1e-6 || p.Balance() > 1+2*cutSlack {
			t.Errorf("%s: %v links cut, want at most %v; balance %v", c.name, links, c.most, p.Balance())
		}
	}
}

// dumbBlocks is the least load of the busiest worker over all ways to cut order into
// blocks, by trying them all.
func dumbBlocks(order []int32, work, loads []float64, empty []bool) float64 {
	if len(loads) == 0 {
		if len(order) == 0 {
			return 0
		}
		return math.Inf(1)
	}
	best := math.Inf(1)
	for end := 0; end <= len(order); end++ {
		if empty[0] && end == 0 {
			continue
		}
		load := loads[0]
		for _, n := range order[:end] {
			load += work[n]
		}
		best = min(best, max(load, dumbBlocks(order[end:], work, loads[1:], empty[1:])))
	}
	return best
}

// random makes a small random graph, and pins.
func random(rng *rand.Rand, nodes, workersMax int) (g *node.Graph, workers int, pinned map[int]int32) {
	n := 1 + rng.IntN(nodes)
	workers = 1 + rng.IntN(min(n, workersMax))
	g = graph(ones(n))
	for i := range g.Nodes {
		g.Nodes[i].Work = [...]float64{0, 1, rng.Float64() * 10, 5}[rng.IntN(4)]
	}
	for range rng.IntN(3 * n) {
		lookahead := [...]float64{rng.Float64(), rng.Float64(), 0, math.SmallestNonzeroFloat64, 1e-300,
			1e300}[rng.IntN(6)]
		from, to := rng.IntN(n), rng.IntN(n)
		if from >= to { // with lookahead 0 it might close a cycle, which a scenario can't have
			lookahead = max(lookahead, math.SmallestNonzeroFloat64)
		}
		g.Links = append(g.Links, link(from, to, float64(rng.IntN(3)), lookahead))
	}
	pinned = map[int]int32{}
	for i := range n {
		if rng.IntN(4) == 0 {
			pinned[i] = int32(rng.IntN(workers))
		}
	}
	return g, workers, pinned
}

// Blocks are as even as blocks can be, within the slack, for all small random graphs; and
// a partition is refused only where there is none.
func TestBlocksAgainstDumb(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		g, workers, pinned := random(rng, 8, 4)
		work, loads, empty := expectedWork(g), make([]float64, workers), make([]bool, workers)
		for w := range empty {
			empty[w] = true
		}
		var order []int32
		for n := range g.Nodes {
			if w, ok := pinned[n]; ok {
				loads[w] += work[n]
				empty[w] = false
			} else {
				order = append(order, int32(n))
			}
		}
		best := dumbBlocks(order, work, loads, empty)
		p, err := makeOf(g, workers, Block, pinned)
		if err != nil {
			if !math.IsInf(best, 1) {
				t.Fatalf("%v, but there is a partition with load %v: work %v, pinned %v", err, best, work, pinned)
			}
			continue
		}
		checkPins(t, p, pinned)
		if busiest := slices.Max(loadsOf(p, work)); busiest > best*(1+cutSlack)+1e-9 {
			t.Fatalf("busiest worker has %v, the best is %v: work %v, pinned %v, placed %v", busiest, best, work,
				pinned, p.Of)
		}
	}
}

// A block that just fits at the first halving must not be lost to rounding: the best here
// is 5/11 for the first worker, and it was assigned as if the best were a half.
func TestBlocksAtTheLimit(t *testing.T) {
	g := graph([]float64{5, 5, 1, 5, 0, 5, 1, 0})
	work := expectedWork(g)
	p := mustMake(t, g, 3, Block, nil)
	if busiest := slices.Max(loadsOf(p, work)); busiest > 5.0/11*(1+cutSlack) {
		t.Errorf("busiest worker has %v, the best is %v: placed %v", busiest, 5.0/11, p.Of)
	}
}

func checkPins(t *testing.T, p *Partition, pinned map[int]int32) {
	t.Helper()
	for n, want := range pinned {
		if p.Of[n] != want {
			t.Fatalf("node %d was pinned to worker %d and is on %d", n, want, p.Of[n])
		}
	}
}

func loadsOf(p *Partition, work []float64) []float64 {
	loads := make([]float64, p.Workers)
	for n, w := range p.Of {
		loads[w] += work[n]
	}
	return loads
}

// MinCut keeps pins, and mostly finds the best cut that trying everything finds among the
// partitions that are as even.
func TestMinCutAgainstDumb(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	best, rounds := 0, 0
	for range 1500 {
		g, workers, pinned := random(rng, 8, 3)
		p, err := makeOf(g, workers, MinCut, pinned)
		if err != nil {
			if _, err := makeOf(g, workers, Block, pinned); err == nil {
				t.Fatalf("MinCut finds nothing where Block does: %v", g)
			}
			continue
		}
		checkPins(t, p, pinned)
		work := expectedWork(g)
		pin := make([]int32, len(g.Nodes))
		for n := range pin {
			pin[n] = free
			if w, ok := pinned[n]; ok {
				pin[n] = w
			}
		}
		m := newMesh(g, work, linkCosts(g, Run{}, cyclicLinks(g, math.MaxFloat64)), pin)
		p.Of = slices.Clone(pin)
		sorted := list(structure(g))
		minCut(sorted, Run{}, workers, p.Of, cyclicLinks(sorted, math.MaxFloat64)) // Make may leave workers empty
		got := m.cut(p.Of)
		least := dumbCut(m, evenRule(workers, slices.Max(loadsOf(p, work))))
		if got < least-1e-9 {
			t.Fatalf("a cut of %v, and trying everything finds only %v", got, least)
		}
		rounds++
		if got <= least+1e-9 {
			best++
		}
	}
	t.Logf("%d of %d are the best", best, rounds)
	if best < rounds*9/10 {
		t.Errorf("only %d of %d cuts are the best that there is", best, rounds)
	}
}

// dumbCut tries all partitions that keep the rule.
func dumbCut(m *mesh, r rule) float64 {
	part, best := make([]int32, len(m.work)), math.Inf(1)
	var try func(n int)
	try = func(n int) {
		if n == len(part) {
			if m.over(part, r) == 0 {
				best = min(best, m.cut(part))
			}
			return
		}
		for w := range r.limit {
			if m.pin[n] == free || m.pin[n] == int32(w) {
				part[n] = int32(w)
				try(n + 1)
			}
		}
	}
	try(0)
	return best
}

func TestLarge(t *testing.T) {
	n := 100_000
	g := graph(ones(n), chain(n)...)
	for _, method := range []Method{MinCut, Block} {
		p := mustMake(t, g, 7, method, nil)
		if p.Balance() > 1+2*cutSlack || p.Cut != 6.0/float64(n-1) {
			t.Errorf("%s: a long chain has balance %v and cut %v, want near 1 and 6 of %d links", method, p.Balance(),
				p.Cut, n-1)
		}
	}
}

func TestSameEveryTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	g := graph(ones(300))
	for range 2000 {
		g.Links = append(g.Links, link(rng.IntN(300), rng.IntN(300), rng.Float64(), 1))
	}
	want := mustMake(t, g, 5, MinCut, nil)
	for range 3 {
		if got := mustMake(t, g, 5, MinCut, nil); !slices.Equal(got.Of, want.Of) {
			t.Fatal("two calls, two partitions")
		}
	}
}

func TestRefuses(t *testing.T) {
	g := graph(ones(2), [2]int{0, 1})
	for _, c := range []struct {
		workers int
		method  Method
		pinned  map[int]int32
		want    string
	}{
		{0, MinCut, nil, "partition: 0 workers for 2 nodes, want 1 to 2"},
		{3, Block, nil, "partition: 3 workers for 2 nodes, want 1 to 2"},
		{2, MinCut, map[int]int32{0: 0, 1: 0},
			"partition: worker 1 of 2 is left without a node: use fewer workers, or place a node on it"},
		{2, MinCut, map[int]int32{0: 2},
			"partition: node 0 is placed on worker 2, but there are 2 nodes and workers 0 to 1"},
		{2, RoundRobin, map[int]int32{7: 0},
			"partition: node 7 is placed on worker 0, but there are 2 nodes and workers 0 to 1"},
		{2, "best", nil, `partition: method "best", want one of ["mincut" "block" "round-robin"]`},
	} {
		if _, err := makeOf(g, c.workers, c.method, c.pinned); err == nil || err.Error() != c.want {
			t.Errorf("%d workers, pinned %v: error %v, want %s", c.workers, c.pinned, err, c.want)
		}
	}
	if m, err := ParseMethod("block"); m != Block || err != nil {
		t.Errorf("ParseMethod(block) = %q, %v", m, err)
	}
	if _, err := ParseMethod("x"); err == nil {
		t.Error("ParseMethod(x) has no error")
	}
}

// The nodes of a mesh send to all others alike: of 4 on two workers, 2 of 3 are away.
func TestMesh(t *testing.T) {
	g := graph(ones(4))
	g.Meshes = []node.Mesh{{Lookahead: 0.5, Rate: 300}}
	p := mustMake(t, g, 2, MinCut, nil)
	if math.Abs(p.Cut-2.0/3) > 1e-12 || p.Lookahead != 0.5 {
		t.Errorf("cut %v with lookahead %v, want 2/3 and 0.5", p.Cut, p.Lookahead)
	}
	g.Links = []node.Link{link(0, 1, 1200, 1)} // as much as the whole mesh
	p = mustMake(t, g, 2, Block, nil)
	if math.Abs(p.Cut-1.0/3) > 1e-12 {
		t.Errorf("cut %v, want half of 2/3", p.Cut)
	}
}
