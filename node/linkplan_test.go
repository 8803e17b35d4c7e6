// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// What has too many links between workers for promises of their own is refused before
// anything is made of it; what has none, or just enough, isn't.
func TestTooManyLinks(t *testing.T) {
	g := &Graph{Simprocs: []string{"x"}, Meshes: []Mesh{{Lookahead: 1}}}
	for i := range 1 << 9 {
		g.Nodes = append(g.Nodes, Node{Name: fmt.Sprint("n", i)})
	}
	placed := func(there int) []int32 { // so many nodes on worker 1
		p := make([]int32, len(g.Nodes))
		for i := range there {
			p[i] = 1
		}
		return p
	}
	for there, want := range map[int]int{0: 0, 1: 2 * 511, 68: 2 * 68 * 444, 256: 2 * 256 * 256} {
		plan, err := NewPlan(g, placed(there), 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.CountLinks(); got != want {
			t.Errorf("%d nodes on the other worker: %d links, want %d", there, got, want)
		}
		err = plan.PromiseByLink()
		if want <= LinksMax {
			if err != nil {
				t.Errorf("%d links: %v", want, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "--sync lane") ||
			!strings.Contains(err.Error(), fmt.Sprint(want)) {
			t.Errorf("%d links: %v, want an error with the number and the way out", want, err)
		}
	}
}

// A peer that promises in the other way than the run is refused.
func TestOtherWayOfPromising(t *testing.T) {
	g := &Graph{Simprocs: []string{"x"}, Nodes: []Node{{Name: "a"}, {Name: "b"}}}
	g.Links = []Link{{From: Endpoint{0, 0}, To: Endpoint{1, 0}, Lookahead: 1}}
	for _, byLink := range []bool{false, true} {
		plan, err := NewPlan(g, []int32{0, 1}, 1, 2)
		if err == nil && byLink {
			err = plan.PromiseByLink()
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEngine(plan, Config{Model: &called{g: g, call: func(*Simproc) error { return nil }}, Seed: 1,
			Horizon: 10})
		if err != nil {
			t.Fatal(err)
		}
		if byLink {
			err = e.ReceiveBound(0, Bound{5, 0})
		} else {
			err = e.ReceivePromise(0, &envelope.Promise{Sender: 0, Target: 1, Seqnr: 1, Epoch: 5})
		}
		if err == nil || !strings.Contains(err.Error(), "this run promises") {
			t.Errorf("by link %v: %v, want an error that says how the run promises", byLink, err)
		}
	}
}
