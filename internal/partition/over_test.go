// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/node"
)

// everybody is nodes that send to all others, so many events a second each, with a lookahead of 0.1 s: a round trip
// between machines passes for each 0.2 s.
func everybody(nodes int, rate float64) *node.Structure {
	g := graph(slices.Repeat([]float64{rate}, nodes))
	g.Meshes = []node.Mesh{{Lookahead: 0.1, Rate: rate}}
	return structure(g)
}

// Fewer machines get workers where the round trips between more cost too much, and only there.
func TestOver(t *testing.T) {
	const workers = 4
	s := everybody(64, 1000) // 64,000 events: 6.4 ms of work a second
	network := func(roundTrip float64) *Network {
		n := evenNetwork(roundTrip, 1e-10, 2, 1, 2)
		n.Processors = []int{2, 1, 2}
		return n
	}
	run := Run{Workers: workers, Processors: 5, Seconds: 100}
	for what, c := range map[string]struct {
		roundTrip float64
		run       Run
		method    Method
		workers   int
		wait      float64 // of what is chosen
	}{
		"near":                  {1e-5, run, MinCut, 4, 5e-5},
		"far":                   {1e-2, run, MinCut, 2, 0},
		"far, but asked for":    {1e-2, run, Block, 4, 5e-2},
		"far, but a short run":  {1e-2, Run{Workers: workers, Processors: 5, Seconds: 0.01}, MinCut, 4, 5e-2},
		"one of them is enough": {1e-2, Run{Workers: 2, Processors: 5, Seconds: 100}, MinCut, 2, 0},
	} {
		p, m, err := Over(s, c.run, c.method, nil, network(c.roundTrip), nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.Workers != c.workers || len(m.Of) != c.workers || p.Workers+p.Unused != c.run.Workers ||
			!(math.Abs(m.Waiting-c.wait) <= c.wait/10) {
			t.Errorf("%s: %d workers on %v, %d unused, waiting %v; want %d, waiting %v", what, p.Workers, m.Of,
				p.Unused, m.Waiting, c.workers, c.wait)
		}
		text := strings.Join(m.Text([]string{"a", "b", "c"}, network(c.roundTrip)), "\n")
		fewer := p.Unused > 0
		if fewer != strings.Contains(text, "not 4 on 2, which are predicted to take ") || fewer != (p.Saved > 10) ||
			fewer != strings.Contains(text, "a simulated second waits 50 ms for round trips") {
			t.Errorf("%s: saved %v, %s", what, p.Saved, text)
		}
	}
	pins := map[int]int32{0: 0, 1: 1, 2: 2, 3: 3}
	if p, _, err := Over(s, run, MinCut, pins, network(1e-2), nil); err != nil || p.Workers != workers {
		t.Errorf("with pins %+v, %v", p, err)
	}
	stop := errors.New("stop")
	if _, _, err := Over(s, run, MinCut, nil, network(1e-2), func() error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error is %v", err)
	}
}

// A scenario that states no rates is spread over all workers: nothing is known to compare with.
func TestOverWithoutRates(t *testing.T) {
	g := graph(make([]float64, 8), chain(8)...)
	g.Links = append(g.Links, link(7, 0, 0, 1))
	for i := range g.Links {
		g.Links[i].Rate = 0
	}
	p, m, err := Over(structure(g), Run{Workers: 4, Processors: 4, Seconds: 100}, MinCut, nil,
		evenNetwork(1, 1e-9, 2, 2), nil)
	if err != nil || p.Workers != 4 || !(m.Waiting > 0 && m.Waiting <= 4) {
		t.Errorf("%+v on %+v, %v", p, m, err)
	}
}

// Borders between machines are where lookaheads are long, though more events pass there: on one machine they are where
// fewer events pass.
func TestOverDividesForRoundTrips(t *testing.T) {
	// A ring of four nodes: two links of 100 events and 10 ms, two of 1,000 events and 1 s.
	links := []node.Link{link(0, 1, 100, 1e-2), link(1, 2, 1000, 1), link(2, 3, 100, 1e-2), link(3, 0, 1000, 1)}
	g := graph(slices.Repeat([]float64{25_000}, 4))
	g.Links = links
	run := Run{Workers: 2, Processors: 2, Seconds: 100}
	for roundTrip, want := range map[float64][]int32{1e-7: {0, 1, 1, 0}, 1e-3: {0, 0, 1, 1}} {
		p, m, err := Over(structure(g), run, MinCut, nil, evenNetwork(roundTrip, 1e-10, 1, 1), nil)
		if err != nil || p.Workers != 2 {
			t.Fatal(p, err)
		}
		if other := want[0] != p.Of[0]; slices.ContainsFunc([]int{0, 1, 2, 3}, func(n int) bool {
			return (p.Of[n] != want[n]) != other
		}) {
			t.Errorf("with a round trip of %v s the nodes are on %v, want %v; waiting %v", roundTrip, p.Of, want,
				m.Waiting)
		}
	}
}

// Of two machines that are near each other and a third that is far, the two are taken, wherever they are in the list.
func TestOverTakesTheNearest(t *testing.T) {
	g := graph(slices.Repeat([]float64{25_000}, 6))
	for from := range 6 {
		g.Links = append(g.Links, link(from, (from+1)%6, 10, 1))
	}
	run := Run{Workers: 3, Processors: 3, Seconds: 100}
	for far := range 3 {
		n := evenNetwork(1e-5, 1e-10, 1, 1, 1)
		for m := range 3 {
			if m != far {
				n.RoundTrip[m][far], n.RoundTrip[far][m] = 1, 1
			}
		}
		p, m, err := Over(structure(g), run, MinCut, nil, n, nil)
		if err != nil || p.Workers != 2 || slices.Contains(m.Of, int32(far)) {
			t.Errorf("machine %d is far, and %+v on %+v, %v", far, p, m, err)
		}
	}
}

// The numbers of machines that are tried fall, end with one, and are few for large graphs.
func TestFewerMachinesTried(t *testing.T) {
	for used := 1; used <= 64; used++ {
		for _, size := range []int{10, 1 << 20} {
			counts := fewerMachines(used, size)
			if size == 10 && len(counts) != used-1 || size > 10 && len(counts) > 6 || used == 1 && len(counts) > 0 ||
				used > 1 && (counts[0] >= used || counts[len(counts)-1] != 1) ||
				!slices.IsSortedFunc(counts, func(a, b int) int { return b - a }) {
				t.Errorf("%d machines, size %d: %v", used, size, counts)
			}
		}
	}
}

// Machines that are taken together are those with the shortest longest round trip: compared with all choices.
func TestNearest(t *testing.T) {
	r := seed.Rand(t)
	for range 300 {
		n := evenNetwork(1, 0, make([]int, 1+r.IntN(8))...)
		sites := make([]int, len(n.Slots)) // where the choice from each machine on finds the best one
		for m := range sites {
			sites[m], n.Slots[m] = r.IntN(3), 1+r.IntN(4)
		}
		for i := range n.RoundTrip {
			for j := range n.RoundTrip {
				if i != j && sites[i] == sites[j] {
					n.RoundTrip[i][j] = 1e-3
				}
			}
		}
		count := 1 + r.IntN(len(n.Slots))
		few, _ := n.nearest(count, Run{Workers: 64})
		most := [3]int{}
		for _, site := range sites {
			most[site]++
		}
		got, inSite := 0, [3]int{}
		for m, s := range few.Slots {
			if s > 0 {
				got++
				inSite[sites[m]]++
			}
		}
		if got != count || slices.Max(most[:]) >= count && slices.Max(inSite[:]) != count {
			t.Fatalf("%d of machines at sites %v: slots %v", count, sites, few.Slots)
		}
	}
}
