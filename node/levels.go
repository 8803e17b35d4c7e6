// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
)

// Levels gives every simproc its level: the length of the longest way to it over
// links of lookahead 0 and the rank order inside each node. Work at one epoch is
// done level by level. A cycle of such steps has no first one: it is an error that
// prints the cycle link by link. (Kahn, Topological sorting of large networks,
// CACM 5(11), 1962.)
func (g *Graph) Levels() ([]uint32, error) {
	n := g.NumSimprocs()
	out := g.zeroSteps()
	before := make([]int32, n) // steps into a simproc from ones without a level
	for _, to := range out.to {
		before[to]++
	}
	levels := make([]uint32, n)
	ready := make([]SimprocID, 0, n)
	for id := range before {
		if before[id] == 0 {
			ready = append(ready, SimprocID(id))
		}
	}
	for i := 0; i < len(ready); i++ {
		for _, to := range out.of(ready[i]) {
			levels[to] = max(levels[to], levels[ready[i]]+1)
			if before[to]--; before[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
	if len(ready) == n {
		return levels, nil
	}
	return nil, g.cycleError(out, before)
}

// steps is an adjacency list in two flat slices.
type steps struct {
	start []int32 // of each simproc's part of to; one more at the end
	to    []SimprocID
}

func (s *steps) of(id SimprocID) []SimprocID { return s.to[s.start[id]:s.start[id+1]] }

// zeroSteps lists, for every simproc, the simprocs that come after it within one
// epoch: targets of its zero-lookahead links, and the next rank of its node.
func (g *Graph) zeroSteps() *steps {
	n, layers := g.NumSimprocs(), len(g.Simprocs)
	s := &steps{start: make([]int32, n+1)}
	each := func(visit func(from, to SimprocID)) {
		for id := 0; id < n; id++ {
			if id%layers != layers-1 {
				visit(SimprocID(id), SimprocID(id+1))
			}
		}
		for i := range g.Links {
			if l := &g.Links[i]; l.Lookahead == 0 {
				visit(g.ID(l.From), g.ID(l.To))
			}
		}
	}
	each(func(from, _ SimprocID) { s.start[from+1]++ })
	for id := 0; id < n; id++ {
		s.start[id+1] += s.start[id]
	}
	s.to = make([]SimprocID, s.start[n])
	fill := append([]int32(nil), s.start[:n]...)
	each(func(from, to SimprocID) {
		s.to[fill[from]] = to
		fill[from]++
	})
	return s
}

// cycleError finds one cycle among the simprocs that have no level (before > 0):
// going backwards from any of them over such simprocs must repeat one.
func (g *Graph) cycleError(out *steps, before []int32) error {
	prev := make(map[SimprocID]SimprocID)
	var at SimprocID
	for id := range before {
		if before[id] == 0 {
			continue
		}
		for _, to := range out.of(SimprocID(id)) {
			if before[to] > 0 {
				prev[to] = SimprocID(id)
				at = to
			}
		}
	}
	seen := make(map[SimprocID]bool)
	for !seen[at] {
		seen[at] = true
		at = prev[at]
	}
	cycle := []string{g.Name(at)}
	for id := prev[at]; id != at; id = prev[id] {
		cycle = append(cycle, g.Name(id))
	}
	var b strings.Builder
	for i := len(cycle) - 1; i >= 0; i-- {
		from, to := cycle[(i+1)%len(cycle)], cycle[i]
		fmt.Fprintf(&b, "\n  %s -> %s (lookahead 0)", from, to)
	}
	return fmt.Errorf("node: links of lookahead 0, with the order of the simprocs in a node, form a cycle of %d "+
		"steps: give one of them a lookahead above 0:%s", len(cycle), b.String())
}
