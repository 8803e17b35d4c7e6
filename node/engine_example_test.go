// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/node"
)

// relay is a model of three runners. The first starts at epoch 0, and each passes the baton to the next one, which
// takes at least 10 seconds.
type relay struct{ runners int }

func (m relay) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"run"}}
	for i := range m.runners {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("runner-%d", i)})
	}
	for i := range m.runners - 1 {
		from, to := node.Endpoint{Node: i}, node.Endpoint{Node: i + 1}
		g.Links = append(g.Links, node.Link{From: from, To: to, Lookahead: 10})
	}
	return g
}

// NewHandler is called at wiring time: links are resolved here once, and not for each event.
func (m relay) NewHandler(p *node.Simproc) (node.Handler, error) {
	r := &runner{last: p.NodeIndex() == m.runners-1}
	if r.last {
		return r, nil
	}
	next, err := p.LinkTo(node.Endpoint{Node: p.NodeIndex() + 1})
	r.next = next
	return r, err
}

type runner struct {
	next node.LinkID
	last bool
}

// Handle is called once at epoch 0, and then for each epoch that has events.
func (r *runner) Handle(p *node.Simproc, events []node.Event) error {
	starts := p.Now() == 0 && p.NodeIndex() == 0
	for _, ev := range events {
		fmt.Printf("%4.1f s: %s gets the %s\n", p.Now(), p.Name(), ev.Data)
	}
	if r.last || len(events) == 0 && !starts {
		return nil
	}
	return p.Send(r.next, p.Now()+10+0.5*float64(p.NodeIndex()), []byte("baton"))
}

// An Engine that hosts all nodes needs no peers: it runs until nothing is pending before the horizon.
func ExampleEngine() {
	model := relay{runners: 3}
	plan, err := node.NewPlan(model.Graph(), []int32{0, 0, 0}, 0, 1) // every node on worker 0 of 1
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := node.NewEngine(plan, node.Config{Model: model, Seed: 1, Horizon: 60})
	if err != nil {
		fmt.Println(err)
		return
	}
	calls := 0
	for e.Next() != node.Never {
		n, err := e.Run(100, math.Inf(1)) // at most 100 calls of handlers
		if err != nil {
			fmt.Println(err)
			return
		}
		calls += n
	}
	fmt.Println(calls, "calls of handlers")
	// Output:
	// 10.0 s: runner-1/run gets the baton
	// 20.5 s: runner-2/run gets the baton
	// 5 calls of handlers
}
