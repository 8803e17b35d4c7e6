// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"
)

// computeLevels gives every simproc its level. A cycle of steps within one epoch has no
// first one: it is an error that prints the cycle link by link. (Kahn, Topological sorting
// of large networks, CACM 5(11), 1962.)
func (c *compiler) computeLevels() error {
	s := c.s
	n, layers := s.NumSimprocs(), len(s.layers)
	if layers == 1 && !slices.Contains(s.lookahead, 0) {
		return nil
	}
	s.levels = make([]uint32, n)
	if !slices.Contains(s.lookahead, 0) {
		for id := range s.levels {
			s.levels[id] = uint32(id % layers)
		}
		return nil
	}
	before := make([]int32, n) // steps into a simproc from ones without a level
	for id := range SimprocID(n) {
		s.eachZeroStep(id, func(to SimprocID) { before[to]++ })
	}
	ready := make([]SimprocID, 0, n)
	for id := range before {
		if before[id] == 0 {
			ready = append(ready, SimprocID(id))
		}
	}
	for i := 0; i < len(ready); i++ {
		if err := c.step(); err != nil {
			return err
		}
		s.eachZeroStep(ready[i], func(to SimprocID) {
			s.levels[to] = max(s.levels[to], s.levels[ready[i]]+1)
			if before[to]--; before[to] == 0 {
				ready = append(ready, to)
			}
		})
	}
	if len(ready) == n {
		return nil
	}
	return s.cycleError(before)
}

// eachZeroStep visits the simprocs that come after id within one epoch: the next rank of
// its node, and the targets of its links of lookahead 0.
func (s *Structure) eachZeroStep(id SimprocID, visit func(to SimprocID)) {
	if layers := SimprocID(len(s.layers)); id%layers != layers-1 {
		visit(id + 1)
	}
	first, end := s.LinksOf(id)
	for k := first; k < end; k++ {
		if s.lookahead[k] == 0 {
			visit(SimprocID(s.linkTo[k]))
		}
	}
}

// cycleShown is how many steps of a cycle a message has.
const cycleShown = 12

// cycleError finds one cycle among the simprocs that have no level (before > 0):
// going backwards from any of them over such simprocs must repeat one.
func (s *Structure) cycleError(before []int32) error {
	prev := make(map[SimprocID]SimprocID)
	var at SimprocID
	for id := range before {
		if before[id] == 0 {
			continue
		}
		s.eachZeroStep(SimprocID(id), func(to SimprocID) {
			if before[to] > 0 {
				prev[to] = SimprocID(id)
				at = to
			}
		})
	}
	seen := make(map[SimprocID]bool)
	for !seen[at] {
		seen[at] = true
		at = prev[at]
	}
	cycle := []string{s.Name(at)}
	for id := prev[at]; id != at; id = prev[id] {
		cycle = append(cycle, s.Name(id))
	}
	var b strings.Builder
	for i := len(cycle) - 1; i >= 0; i-- {
		if len(cycle) > cycleShown && i == len(cycle)-cycleShown {
			fmt.Fprintf(&b, "\n  … and %d more, back to %s", i, cycle[len(cycle)-1])
			break
		}
		from, to := cycle[(i+1)%len(cycle)], cycle[i]
		fmt.Fprintf(&b, "\n  %s -> %s (lookahead 0)", from, to)
	}
	return fmt.Errorf("node: links of lookahead 0, with the order of the simprocs in a node, form a cycle of %d "+
		"steps: give one of them a lookahead above 0:%s", len(cycle), b.String())
}
