// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// called runs a function for every call of a handler.
type called struct {
	g    *Graph
	call func(p *Simproc) error
}

func (s *called) Graph() *Graph { return s.g }
func (s *called) NewHandler(*Simproc) (Handler, error) {
	return calledHandler{s}, nil
}

type calledHandler struct{ s *called }

func (h calledHandler) Handle(p *Simproc, _ []Event) error { return h.s.call(p) }

// swallow is a Port that takes everything.
type swallow struct{}

func (swallow) SendEvent(int, *envelope.Event) error     { return nil }
func (swallow) SendPromise(int, *envelope.Promise) error { return nil }

// A class that is held by one that was passed over holds others in its turn: what it has
// pending is not done, and may come before their first activation.
//
//	c (congested, 0.45) ──0──▶ a1 ──0.5──▶ a2 (0.5) ──0.01──▶ b (0.6)
//
// a1 and a2 are one class, because the same peers reach them and are reached: it is held by
// c, since c may still cause work at a1 at 0.45. From c to b it takes 0.51, so c doesn't hold
// b. But a2 causes work at b at 0.51, before 0.6.
func TestHeldClassHoldsOthers(t *testing.T) {
	const (
		c, a1, a2, b, one, two = 0, 1, 2, 3, 4, 5
	)
	g := &Graph{Simprocs: []string{"p"}}
	for _, name := range []string{"c", "a1", "a2", "b", "one", "two"} {
		g.Nodes = append(g.Nodes, Node{Name: name})
	}
	link := func(from, to int, lookahead float64) {
		g.Links = append(g.Links, Link{From: Endpoint{Node: from}, To: Endpoint{Node: to}, Lookahead: lookahead})
	}
	link(c, a1, 0)
	link(a1, a2, 0.5)
	link(a2, b, 0.01)
	link(c, one, 1) // only c reaches worker 1
	link(a2, two, 1)
	link(one, c, 1)
	link(two, a1, 1)
	var calls []string
	m := &called{g: g}
	m.call = func(p *Simproc) error {
		calls = append(calls, fmt.Sprintf("%s %v", p.Name(), p.Now()))
		switch at := map[string]float64{"c/p": 0.45, "a2/p": 0.5, "b/p": 0.6}[p.Name()]; {
		case p.Now() == 0 && at > 0:
			return p.Schedule(at, nil)
		case p.Name() == "a2/p" && p.Now() == 0.5:
			id, err := p.LinkTo(Endpoint{Node: b})
			if err != nil {
				return err
			}
			return p.Send(id, 0.51, nil)
		}
		return nil
	}
	plan, err := NewPlan(g, []int32{0, 0, 0, 0, 1, 2}, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(plan, Config{Model: m, Horizon: 10, Port: swallow{}})
	if err != nil {
		t.Fatal(err)
	}
	run := func() {
		t.Helper()
		for {
			n, err := e.Run(100, 100)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				return
			}
		}
	}
	for peer := 1; peer <= 2; peer++ {
		if err := e.ReceiveBound(peer, Bound{0.001, 0}); err != nil {
			t.Fatal(err)
		}
	}
	run()
	for peer := 1; peer <= 2; peer++ {
		if err := e.ReceiveBound(peer, Never); err != nil {
			t.Fatal(err)
		}
	}
	calls = nil
	e.SetCongested(1, true)
	run()
	if len(calls) != 0 {
		t.Errorf("while c's lane is full: %v, want nothing", calls)
	}
	if e.Blocked() {
		t.Error("want of room counts as blocked")
	}
	e.SetCongested(1, false)
	run()
	if want := []string{"c/p 0.45", "a2/p 0.5", "b/p 0.51", "b/p 0.6"}; !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
}
