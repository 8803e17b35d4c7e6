// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/node"
)

// The values that a graph may hold and that a sum, a difference or a quotient may not
// survive.
var (
	extremeLookaheads = []float64{0, math.SmallestNonzeroFloat64, 1e-300, 1e-9, 0.1, 1, 1e300, math.MaxFloat64}
	extremeRates      = []float64{0, math.SmallestNonzeroFloat64, 1e-300, 0.5, 1, 1000, 1e300, math.MaxFloat64,
		math.Inf(1), math.NaN(), -1}
	extremeWorks = []float64{0, math.SmallestNonzeroFloat64, 1e-300, 1, 7, 1e300, math.MaxFloat64}
)

// drawn turns bytes into numbers; without more bytes they are 0.
type drawn struct{ bytes []byte }

func (d *drawn) below(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % n
}

// graphOf makes a graph of up to 12 nodes from bytes: separate parts, links from a node to
// itself, several links between two nodes, meshes, pins, with all extremes.
func graphOf(bytes []byte) (g *node.Graph, workers int, pinned map[int]int32) {
	d := &drawn{bytes}
	n := 1 + d.below(12)
	workers = 1 + d.below(n)
	g = graph(ones(n))
	if d.below(2) == 1 {
		g.Simprocs = append(g.Simprocs, "t")
	}
	layers := len(g.Simprocs)
	pinned = map[int]int32{}
	for i := range g.Nodes {
		g.Nodes[i].Work = extremeWorks[d.below(len(extremeWorks))]
		g.Nodes[i].Shared = d.below(4) == 1
		if d.below(4) == 1 {
			pinned[i] = int32(d.below(workers))
		}
	}
	rate := func() float64 { return extremeRates[d.below(len(extremeRates))] }
	for range d.below(4) - 2 {
		g.Meshes = append(g.Meshes, node.Mesh{From: d.below(layers), To: d.below(layers), Rate: rate(),
			Lookahead: max(1e-300, extremeLookaheads[d.below(len(extremeLookaheads))])})
	}
	for len(d.bytes) > 0 && len(g.Links) < 60 {
		l := node.Link{
			From:      node.Endpoint{Node: d.below(n), Simproc: d.below(layers)},
			To:        node.Endpoint{Node: d.below(n), Simproc: d.below(layers)},
			Lookahead: extremeLookaheads[d.below(len(extremeLookaheads))], Rate: rate(),
		}
		if g.ID(l.From) >= g.ID(l.To) { // with lookahead 0 it might close a cycle
			l.Lookahead = max(l.Lookahead, math.SmallestNonzeroFloat64)
		}
		g.Links = append(g.Links, l)
	}
	return g, workers, pinned
}

// checkMake makes a partition and compares everything in it with what a plain function
// says.
func checkMake(t *testing.T, g *node.Graph, workers int, method Method, pinned map[int]int32) {
	t.Helper()
	p, err := makeOf(g, workers, method, pinned)
	taken := map[int32]bool{}
	for _, w := range pinned {
		taken[w] = true
	}
	if possible := len(g.Nodes)-len(pinned) >= workers-len(taken); possible != (err == nil) {
		t.Fatalf("%s: error %v, and that there is a partition is %v: %d nodes, %d workers, pinned %v", method, err,
			possible, len(g.Nodes), workers, pinned)
	}
	if err != nil {
		return
	}
	checkPins(t, p, pinned)
	nodes, work := make([]int, workers), dumbWork(g, workers, p.Of)
	for _, w := range p.Of {
		nodes[w]++ // panics for a worker that there isn't
	}
	mayBeEmpty := method == MinCut && len(pinned) == 0
	if len(p.Of) != len(g.Nodes) || !slices.Equal(nodes, p.Nodes) || slices.Min(nodes) == 0 && !mayBeEmpty {
		t.Fatalf("%s: %v, counted %v for %d workers", method, p.Of, p.Nodes, workers)
	}
	most, sum := 0.0, 0.0
	for w := range work {
		if !near(p.Work[w], work[w]) {
			t.Fatalf("%s: work %v, want %v", method, p.Work, work)
		}
		most, sum = max(most, work[w]), sum+work[w]
	}
	balance := 1.0
	if sum > 0 {
		balance = most * float64(workers)
	}
	if !near(p.Balance(), balance) {
		t.Fatalf("%s: balance %v, want %v", method, p.Balance(), balance)
	}
	if cut := dumbShare(g, p.Of); !near(p.Cut, cut) || p.Cut < 0 || p.Cut > 1 {
		t.Fatalf("%s: cut %v, want %v: placed %v, links %+v, meshes %+v", method, p.Cut, cut, p.Of, g.Links, g.Meshes)
	}
	if lookahead := dumbLookahead(g, p.Of); p.Lookahead != lookahead {
		t.Fatalf("%s: lookahead %v, want %v", method, p.Lookahead, lookahead)
	}
	checkOrder(t, g, method, pinned, p)
}

// checkOrder makes the same partition of the same links in other orders.
func checkOrder(t *testing.T, g *node.Graph, method Method, pinned map[int]int32, want *Partition) {
	t.Helper()
	for seed := range uint64(3) {
		other := *g
		other.Links = slices.Clone(g.Links)
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(other.Links), func(i, j int) {
			other.Links[i], other.Links[j] = other.Links[j], other.Links[i]
		})
		got := mustMake(t, &other, want.Workers, method, pinned)
		if !slices.Equal(got.Of, want.Of) || got.Cut != want.Cut || got.Balance() != want.Balance() ||
			got.Lookahead != want.Lookahead {
			t.Fatalf("%s: %+v, and %+v with the links in another order: %+v", method, want, got, g.Links)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(b)) }

// number is a float64 as a number that no sum of them is too large or too small for.
func number(x float64) *big.Float { return new(big.Float).SetPrec(4400).SetFloat64(x) }

func add(a, b *big.Float) *big.Float { return number(0).Add(a, b) }

func share(part, whole *big.Float) float64 {
	if whole.Sign() == 0 {
		return 0
	}
	f, _ := number(0).Quo(part, whole).Float64()
	return f
}

func dumbWork(g *node.Graph, workers int, of []int32) []float64 {
	all, parts := number(0), make([]*big.Float, workers)
	for w := range parts {
		parts[w] = number(0)
	}
	for n := range g.Nodes {
		all = add(all, number(g.Nodes[n].Work))
		parts[of[n]] = add(parts[of[n]], number(g.Nodes[n].Work))
	}
	shares := make([]float64, workers)
	for w := range shares {
		shares[w] = share(parts[w], all)
	}
	return shares
}

// dumbShare is the share of the traffic between workers: links that don't tell their rate
// have the mean of the others, meshes that don't the largest of all for every node.
func dumbShare(g *node.Graph, of []int32) float64 {
	isKnown := func(rate float64) bool { return rate > 0 && !math.IsInf(rate, 0) && !math.IsNaN(rate) }
	sum, count, most := number(0), 0, 0.0
	for _, l := range g.Links {
		if l.From.Node != l.To.Node && isKnown(l.Rate) {
			sum, count, most = add(sum, number(l.Rate)), count+1, max(most, l.Rate)
		}
	}
	for _, m := range g.Meshes {
		if isKnown(m.Rate) {
			most = max(most, m.Rate)
		}
	}
	if most == 0 {
		most = 1
	}
	mean := number(most)
	if count > 0 {
		mean = number(0).Quo(sum, number(float64(count)))
	}
	all, cut := number(0), number(0)
	between := func(a, b int, rate *big.Float) {
		if a == b {
			return
		}
		all = add(all, rate)
		if of[a] != of[b] {
			cut = add(cut, rate)
		}
	}
	for _, l := range g.Links {
		rate := mean
		if isKnown(l.Rate) {
			rate = number(l.Rate)
		}
		between(l.From.Node, l.To.Node, rate)
	}
	for _, m := range g.Meshes {
		rate := number(most)
		if isKnown(m.Rate) {
			rate = number(m.Rate)
		}
		each := number(0).Quo(rate, number(float64(max(1, len(of)-1))))
		for a := range of {
			for b := range of {
				between(a, b, each)
			}
		}
	}
	return share(cut, all)
}

// dumbLookahead tries for every link between workers whether there is a way back.
func dumbLookahead(g *node.Graph, of []int32) float64 {
	at := func(e node.Endpoint) node.Endpoint {
		if g.Nodes[e.Node].Shared {
			e.Simproc = 0
		}
		return e
	}
	least := math.Inf(1)
	for _, l := range g.Links {
		seen := map[node.Endpoint]bool{at(l.To): true}
		for grown := true; grown; {
			grown = false
			for _, k := range g.Links {
				if seen[at(k.From)] && !seen[at(k.To)] {
					seen[at(k.To)], grown = true, true
				}
			}
		}
		if of[l.From.Node] != of[l.To.Node] && seen[at(l.From)] {
			least = min(least, l.Lookahead)
		}
	}
	for _, m := range g.Meshes {
		if slices.Min(of) < slices.Max(of) {
			least = min(least, m.Lookahead)
		}
	}
	return least
}

// Any graph at all gives a partition whose figures are right.
func TestExtremes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		bytes := make([]byte, rng.IntN(300))
		for i := range bytes {
			bytes[i] = byte(rng.Uint32())
		}
		g, workers, pinned := graphOf(bytes)
		for _, method := range Methods() {
			checkMake(t, g, workers, method, pinned)
		}
	}
}

func FuzzMake(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x02\x01\x00\x03\x00\x00\x03\x00\x00\x03\x00\x00\x00\x00\x01\x01\x04\x01\x00\x01\x04"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		g, workers, pinned := graphOf(bytes)
		for _, method := range Methods() {
			checkMake(t, g, workers, method, pinned)
		}
	})
}

// Costs and their sums are numbers, and an extreme cost leaves the differences between the
// others visible: what the refinement subtracts must not be lost in rounding.
func TestCostsAreFinite(t *testing.T) {
	for _, tiny := range extremeLookaheads {
		for _, rate := range extremeRates {
			g := graph(ones(4))
			g.Links = []node.Link{link(0, 1, rate, tiny), link(1, 0, rate, tiny), link(2, 3, 3, 1), link(3, 2, 2, 1)}
			costs := linkCosts(g, Run{}, cyclicLinks(g, math.MaxFloat64))
			for i, c := range costs {
				if !(c >= 0 && c <= 1+syncEvents*eventsMax) {
					t.Errorf("lookahead %v, rate %v: link %d costs %v", tiny, rate, i, c)
				}
			}
			if rate <= 3 && !(costs[2] > costs[3] && costs[2]+costs[0] > costs[3]+costs[0]) {
				t.Errorf("lookahead %v, rate %v: a link of 3 events/s costs %v, one of 2 costs %v", tiny, rate,
					costs[2], costs[3])
			}
		}
	}
}

// Two stations that send to each other without transit, and a third alone: an exponential
// service promises nothing but that time passes (the least float64 above 0).
func TestStationsWithoutTransit(t *testing.T) {
	least := math.SmallestNonzeroFloat64
	for _, rate := range []float64{0, 1e-300, 1, 1000} {
		for c, want := range [][]int32{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}} {
			a, b := (c+1)%3, (c+2)%3
			g := graph(ones(3))
			g.Links = []node.Link{link(a, b, rate, least), link(b, a, rate, least)}
			p := mustMake(t, g, 2, MinCut, nil)
			if p.Of[a] != p.Of[b] || p.Of[c] == p.Of[a] || p.Cut != 0 || !math.IsInf(p.Lookahead, 1) {
				t.Errorf("rate %v, alone %d: placed %v with cut %v and lookahead %v, want %v or its mirror image, 0 "+
					"and +Inf", rate, c, p.Of, p.Cut, p.Lookahead, want)
			}
		}
	}
}

// Pairs that had better not be parted, among links that may: with many of them the best cut
// has none, however near 0 their lookaheads are.
func TestPairsStayTogether(t *testing.T) {
	for _, tiny := range []float64{math.SmallestNonzeroFloat64, 1e-300, 1e-12} {
		for _, rate := range []float64{1e-3, 1, 1e6} {
			t.Run(fmt.Sprint(tiny, "/", rate), func(t *testing.T) {
				const n = 80
				g := graph(ones(n))
				for i := 0; i < n; i += 2 {
					g.Links = append(g.Links, link(i, i+1, rate, tiny), link(i+1, i, rate, tiny))
					for _, far := range []int{2, 7, 26} {
						g.Links = append(g.Links, link(i, (i+far)%n, rate, 10), link((i+far)%n, i, rate, 10))
					}
				}
				for workers := 2; workers <= 5; workers++ {
					p := mustMake(t, g, workers, MinCut, nil)
					if p.Lookahead != 10 || p.Balance() > 1+2*cutSlack+2.0*float64(workers)/n {
						t.Errorf("%d workers: lookahead %v between them, want 10; balance %v; %v", workers, p.Lookahead,
							p.Balance(), p.Of)
					}
				}
			})
		}
	}
}

// Two bad pins: the message is the same every time.
func TestBadPinsInOrder(t *testing.T) {
	for range 20 {
		_, err := makeOf(graph(ones(4)), 2, Block, map[int]int32{3: 9, 1: 5, 2: 8})
		if want := "partition: node 1 is placed on worker 5, but there are 4 nodes and workers 0 to 1"; err == nil ||
			err.Error() != want {
			t.Fatalf("%v, want %s", err, want)
		}
	}
}

// Nodes that no event may pass without a promise are assigned together, also where a
// border through them would make the work more even, or leave another worker something; but not where their pins
// forbid it, and not for lookaheads with events to handle in them.
func TestTightGroups(t *testing.T) {
	least := math.SmallestNonzeroFloat64
	cycle := func(rate float64, lookaheads ...float64) (links []node.Link) {
		for i, lookahead := range lookaheads {
			links = append(links, link(i, (i+1)%len(lookaheads), rate, lookahead))
		}
		return links
	}
	for _, c := range []struct {
		name   string
		work   []float64
		links  []node.Link
		pinned map[int]int32
		want   []int32
	}{
		{"together though uneven", []float64{2, 2, 1}, cycle(1, least, least), nil, []int32{0, 0, 1}},
		{"a step of lookahead 0 on the way", []float64{2, 2, 2, 1}, cycle(1, 0, 0, least), nil, []int32{0, 0, 0, 1}},
		{"pinned as a whole", []float64{2, 2, 1}, cycle(1, least, least), map[int]int32{1: 1}, []int32{1, 1, 0}},
		{"pinned apart", []float64{2, 2, 1}, cycle(1, least, least), map[int]int32{0: 0, 1: 1}, []int32{0, 1, 1}},
		{"nothing else for the other worker", []float64{1, 1}, cycle(1, least, least), nil, []int32{0, 0}},
		{"a way back with lookahead", []float64{2, 2, 1}, cycle(1, least, 100), nil, []int32{0, 1, 1}},
		{"half an event between two promises", []float64{2, 2, 1}, cycle(1, 0.1, 0.1), nil, []int32{0, 0, 1}},
		{"five hundred events between two promises", []float64{2, 2, 1}, cycle(1, 100, 100), nil, []int32{0, 1, 1}},
		{"much to do that no link carries", []float64{200, 200, 100}, cycle(1, 0.1, 0.1), nil, []int32{0, 1, 1}},
		{"no rates, an epoch's least step", []float64{2, 2, 1}, cycle(0, least, least), nil, []int32{0, 0, 1}},
		{"no rates, short", []float64{2, 2, 1}, cycle(0, 0.1, 0.1), nil, []int32{0, 1, 1}},
	} {
		g := graph(c.work)
		g.Links = c.links
		if p := mustMake(t, g, 2, MinCut, c.pinned); !slices.Equal(p.Of, c.want) {
			t.Errorf("%s: placed %v, want %v", c.name, p.Of, c.want)
		}
	}
}
