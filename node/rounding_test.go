// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// What comes over several links comes at an epoch that was rounded once a link. No bound
// over these links may be above it, or a correct run ends with a broken promise; and a
// bound over one link is the event's epoch itself, to the bit.
func TestBoundsAreBelowRoundedEpochs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	draw := func() float64 {
		switch rnd.IntN(3) {
		case 0:
			return float64(1+rnd.IntN(9)) / 10
		case 1:
			return rnd.Float64()*0.01 + 1e-9
		}
		return rnd.ExpFloat64() + 1e-12
	}
	below, exact := 0, 0
	for range 3000 {
		// Worker 0 sends to worker 1, whose nodes are a chain, and that to worker 2.
		k := rnd.IntN(6)
		g := &Graph{Simprocs: []string{"p"}}
		placement := []int32{0}
		for range k + 1 {
			placement = append(placement, 1)
		}
		placement = append(placement, 2)
		var lookaheads []float64
		for i := range placement {
			g.Nodes = append(g.Nodes, Node{Name: fmt.Sprintf("n%d", i)})
			if i > 0 {
				l := draw()
				g.Links = append(g.Links, Link{From: Endpoint{Node: i - 1}, To: Endpoint{Node: i}, Lookahead: l})
				if i > 1 {
					lookaheads = append(lookaheads, l)
				}
			}
		}
		plan, err := NewPlan(g, placement, 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			e := rnd.Float64() * []float64{1, 100, 1e6}[rnd.IntN(3)]
			arrives := e
			for _, l := range lookaheads {
				arrives += l
			}
			got := plan.through[0][2].apply(Bound{e, 0})
			if (Bound{arrives, 0}).Before(got) {
				t.Fatalf("after %v over %v an event comes at %v, but the bound is %v", e, lookaheads, arrives, got)
			}
			if len(lookaheads) == 1 && got.Epoch != arrives {
				t.Fatalf("after %v over %v the bound is %v, want %v", e, lookaheads, got, arrives)
			}
			if got.Epoch < arrives {
				below++
			} else {
				exact++
			}
			if lost := arrives - got.Epoch; lost > 100*0x1p-52*arrives && lost > 0.01*lookaheads[0] {
				t.Fatalf("after %v over %v an event comes at %v, and the bound is far below, %v", e, lookaheads,
					arrives, got)
			}
		}
	}
	if below == 0 || exact == 0 {
		t.Errorf("%d bounds below, %d exact: want some of each", below, exact)
	}
}
