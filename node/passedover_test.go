// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// overAll is over, but it looks at every link of the lane.
func overAll(w *wiring, r *reach, peer int) shift {
	h := shift{}
	for _, l := range w.lane(w.self, peer) {
		from, lookahead := w.placeOf(SimprocID(l.from)), w.lookahead[l.link]
		if math.IsInf(r.dist[from], 1) {
			continue
		}
		switch d := r.dist[from] + lookahead; {
		case r.zero[from] && lookahead == 0:
			level := w.levels[w.linkTo[l.link]]
			h = h.join(shift{kind: shiftZero, step: 1, low: level, high: level})
		case d == 0:
			h = h.join(shift{kind: shiftAfter})
		default:
			h = h.join(w.aheadBy(d))
		}
	}
	return h
}

// earliest is when the first event comes over the lane to a peer after origin was called at an epoch: rounded once a
// link, as events are. Rounding never turns the order of two sums about: the earliest at each simproc is enough.
func earliest(w *wiring, g *Graph, origin int32, epoch float64, peer int) float64 {
	at := make([]float64, len(g.Nodes))
	for n := range at {
		at[n] = math.Inf(1)
	}
	at[w.local[origin]] = epoch
	for changed := true; changed; {
		changed = false
		for _, l := range g.Links {
			to, here := at[l.From.Node]+l.Lookahead, w.workerOf(SimprocID(l.From.Node)) == w.self
			if here && to < at[l.To.Node] {
				at[l.To.Node], changed = to, true
			}
		}
	}
	first := math.Inf(1)
	for n := range at {
		if w.workerOf(SimprocID(n)) == peer {
			first = min(first, at[n])
		}
	}
	return first
}

// overGraph is some nodes of worker 1 with links among them, and to nodes of worker 2. Lookaheads are zero, some small
// numbers, or near a multiple of one, unit: sums that differ in their last bits.
func overGraph(rnd *rand.Rand) (g *Graph, placement []int32, unit float64) {
	g = &Graph{Simprocs: []string{"p"}}
	own := 2 + rnd.IntN(6)
	unit = math.Ldexp(1+rnd.Float64(), -rnd.IntN(30))
	placement = make([]int32, 0, own+4)
	for n := range own + 4 {
		g.Nodes = append(g.Nodes, Node{Name: fmt.Sprintf("n%d", n)})
		worker := int32(1)
		switch {
		case n == own+3:
			worker = 0
		case n >= own:
			worker = 2
		}
		placement = append(placement, worker)
	}
	for range 3 * own {
		from, to := rnd.IntN(own), rnd.IntN(own+3)
		lookahead := unit
		switch rnd.IntN(5) {
		case 0:
			if to > from { // no cycle
				lookahead = 0
			}
		case 1:
			lookahead *= float64(1 + rnd.IntN(4))
		case 2:
			lookahead *= float64(1+rnd.IntN(4)) * (1 - math.Ldexp(1, -20-rnd.IntN(33)))
		case 3:
			lookahead *= float64(1+rnd.IntN(4)) * (1 + math.Ldexp(1, -20-rnd.IntN(33)))
		}
		if from != to {
			g.Links = append(g.Links, Link{From: Endpoint{Node: from}, To: Endpoint{Node: to}, Lookahead: lookahead})
		}
	}
	return g, placement, unit
}

// Links that over passes over, and ways that aren't looked for because it is settled before, don't change the shift,
// but for the slack, which they may have made larger than needed: the bound is never above the earliest event, however
// sums are rounded.
func TestLinksPassedOver(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	tighter, kinds, settled := 0, make(map[shiftKind]int), make(map[shiftKind]int)
	for range 4000 {
		g, placement, unit := overGraph(rnd)
		plan, err := NewPlan(g, placement, 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		w := newWiring(plan.Placed, 1, plan.local, nil)
		r, members := w.newReach(), make([]int32, len(w.local))
		for i := range members {
			members[i] = int32(i)
		}
		for origin := range int32(len(w.local)) {
			w.atOnce(r, []int32{origin})
			got, atOnce := w.over(r, 2), w.to(r, members, 0)
			early := w.settled(got, 2)
			w.later(r)
			if early {
				settled[got.kind]++
			} else {
				got = w.over(r, 2)
			}
			if to := w.to(r, members, 0); atOnce.kind == shiftZero && atOnce != to {
				t.Fatalf("%v: from %d at once %+v to all here, in the end %+v", g.Links, origin, atOnce, to)
			}
			all := overAll(w, r, 2)
			kinds[got.kind]++
			if got.slack < all.slack {
				tighter++
			}
			slack := got.slack
			if got.slack = all.slack; got != all || slack > all.slack {
				t.Fatalf("%v: from %d the shift is %+v with slack %v, over all links %+v", g.Links, origin, got, slack,
					all)
			}
			got.slack = slack
			for range 20 {
				e := unit * math.Ldexp(rnd.Float64(), rnd.IntN(39))
				bound, first := got.apply(Bound{e, 0}), earliest(w, g, origin, e, 2)
				if bound.Epoch > first {
					t.Fatalf("%v: after %v at %d an event comes at %v, the bound is %v (%+v)", g.Links, e, origin,
						first, bound, got)
				}
			}
		}
	}
	if tighter == 0 || kinds[shiftAhead] == 0 || kinds[shiftZero] == 0 || kinds[shiftNone] == 0 ||
		settled[shiftAhead] == 0 || settled[shiftZero] == 0 {
		t.Errorf("%d shifts with less slack, kinds %v, settled %v: want some of each", tighter, kinds, settled)
	}
}
