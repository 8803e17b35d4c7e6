// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/disco-sim/disco/node"
)

// In pieces, pins hold, nodes on tight cycles stay together, work is even, and every worker has something.
func TestPieces(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const n, workers = 3000, 4
	g := graph(ones(n))
	for i := range n {
		g.Links = append(g.Links, link(i, (i+1)%n, 1, 10), link(i, rnd.IntN(n), 1e-3, 10))
	}
	for i := 0; i < 300; i += 2 { // pairs far from each other in the order of nodes
		g.Links = append(g.Links, link(i, n-1-i, 1, 1e-9), link(n-1-i, i, 1, 1e-9))
	}
	pinned := map[int]int32{1001: 3, 1002: 0, 1003: 3}
	s := structure(g)
	of := slices.Repeat([]int32{free}, n)
	for at, w := range pinned {
		of[at] = w
	}
	a := newAssignment(s, Run{Workers: workers, Processors: workers}, of, nil)
	if err := a.inPieces(true); err != nil {
		t.Fatal(err)
	}
	p, err := a.figures()
	if err != nil {
		t.Fatal(err)
	}
	checkPins(t, p, pinned)
	if p.Balance() > 1.1 || slices.Min(p.Nodes) == 0 || p.Cut > 0.05 {
		t.Errorf("balance %v, cut %v, nodes %v", p.Balance(), p.Cut, p.Nodes)
	}
	for i := 0; i < 300; i += 2 {
		if of[i] != of[n-1-i] {
			t.Fatalf("nodes %d and %d are apart", i, n-1-i)
		}
	}
}

// Half a million nodes in eight rings, which lie across the order of nodes: a walk along the links finds them.
func TestPiecesOfMany(t *testing.T) {
	const n = 1 << 19
	g := &node.Graph{Simprocs: []string{"x"}, NodeCount: n,
		NodeAt: func(i int) node.Node { return node.Node{Name: strconv.Itoa(i), Work: 1} },
		EachLink: func(yield func(node.Link) bool) {
			for i := range n { // the parts are the numbers that are the same modulo 8
				if !yield(node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: (i + 8) % n}, Lookahead: 1,
					Rate: 1}) {
					return
				}
			}
		}}
	s, err := node.Compile(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Make(s, Run{Workers: 2, Processors: 2}, MinCut, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Cut > 1e-4 || p.Balance() > 1+2*cutSlack {
		t.Errorf("cut %v, balance %v", p.Cut, p.Balance())
	}
}

// Where nodes take longer to be made than to handle their events they are divided evenly; else their work is.
func TestPiecesOfShortRun(t *testing.T) {
	const n = 3000
	work := ones(n)
	for i := range 100 {
		work[i] = 100
	}
	g := graph(work)
	for i := range n {
		g.Links = append(g.Links, link(i, (i+1)%n, 1, 1))
	}
	s := structure(g)
	for _, c := range []struct {
		seconds     float64
		least, most int     // nodes of the worker that has fewer
		balance     float64 // at the most
	}{{0, 1400, 1500, 2}, {1e-6, 1400, 1500, 2}, {1e6, 1, 100, 1.05}, {math.MaxFloat64, 1, 100, 1.05}} {
		of := slices.Repeat([]int32{free}, n)
		a := newAssignment(s, Run{Workers: 2, Processors: 2, Seconds: c.seconds}, of, nil)
		if err := a.inPieces(true); err != nil {
			t.Fatal(err)
		}
		p, err := a.figures()
		if err != nil {
			t.Fatal(err)
		}
		if few := slices.Min(p.Nodes); few < c.least || few > c.most || p.Balance() > c.balance {
			t.Errorf("%v s: balance %v, nodes %v", c.seconds, p.Balance(), p.Nodes)
		}
	}
}

// Where lookaheads are tiny, placements over fewer workers are predicted, too. On the way, with all that is collected
// again, that takes no more than a large graph may take in memory: 200 bytes a node and 40 a link.
func TestMemoryOfTinyLookaheads(t *testing.T) {
	const n, degree = 60_000, 10
	rnd := rand.New(rand.NewPCG(1, 0))
	g := graph(ones(n))
	for i := range n * degree {
		g.Links = append(g.Links, link(i/degree, rnd.IntN(n), 0.1, 1e-8))
	}
	s := structure(g)
	if s.NumNodes()+s.NumLinks() <= listedMax {
		t.Fatalf("%d links: the graph isn't cut into pieces", s.NumLinks())
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := Make(s, Run{Workers: 2, Processors: 2, Seconds: 1}, MinCut, nil, nil)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if most := 200.0*n + 40*n*degree; float64(after.TotalAlloc-before.TotalAlloc) > most {
		t.Errorf("%d bytes, want at most %v", after.TotalAlloc-before.TotalAlloc, most)
	}
	if p.Saved == 1 && slices.Min(p.Nodes) > n/100 {
		t.Errorf("nodes %v: nothing was predicted", p.Nodes)
	}
}
