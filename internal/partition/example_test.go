// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"fmt"

	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/node"
)

// Two groups of nodes exchange much within themselves and little, with much lookahead, with each other. However the
// nodes are listed, each group goes to a worker of its own.
func Example() {
	g := &node.Graph{Simprocs: []string{"main"}}
	for _, name := range []string{"web-1", "db-1", "web-2", "db-2"} {
		g.Nodes = append(g.Nodes, node.Node{Name: name, Work: 1})
	}
	both := func(a, b int, lookahead, rate float64) {
		from, to := node.Endpoint{Node: a}, node.Endpoint{Node: b}
		g.Links = append(g.Links,
			node.Link{From: from, To: to, Lookahead: lookahead, Rate: rate},
			node.Link{From: to, To: from, Lookahead: lookahead, Rate: rate})
	}
	both(0, 1, 0.001, 99) // web-1 and db-1
	both(2, 3, 0.001, 99) // web-2 and db-2
	both(0, 2, 0.050, 2)

	s, err := node.Compile(g, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	run := partition.Run{Workers: 2, Processors: 2, Seconds: 1}
	for _, method := range []partition.Method{partition.MinCut, partition.Block, partition.RoundRobin} {
		p, err := partition.Make(s, run, method, map[int]int32{0: 0}, nil) // web-1 stays on worker 0
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-11s %v, cut %.0f %%, lookahead %g s, balance %g\n",
			method, p.Of, 100*p.Cut, p.Lookahead, p.Balance())
	}
	// Output:
	// mincut      [0 0 1 1], cut 1 %, lookahead 0.05 s, balance 1
	// block       [0 0 1 1], cut 1 %, lookahead 0.05 s, balance 1
	// round-robin [0 1 0 1], cut 99 %, lookahead 0.001 s, balance 1
}
