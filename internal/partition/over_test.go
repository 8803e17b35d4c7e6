// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

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
