// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"slices"

	"github.com/disco-sim/disco/node"
)

// Over divides nodes among workers as Make does, and chooses a machine for each worker as OnMachines does. With MinCut,
// messages between machines are part of what borders cost, where the run is predicted to be faster so. With MinCut and
// without pins, run.Workers is the most: where workers on fewer machines are predicted to be so much faster that
// MinCut would leave the others empty on one machine, only these get workers. Workers without a node are left out.
// run.Processors are those of all machines.
func Over(
	s *node.Structure, run Run, method Method, pinned map[int]int32, n *Network, proceed func() error,
) (*Partition, *Machines, error) {
	all, err := over(s, run, method, pinned, n, proceed)
	if err != nil {
		return nil, nil, err
	}
	best := all
	for _, machines := range fewerMachines(all.m.used(), s.NumNodes()+s.NumLinks()) {
		few, fewer := n.nearest(machines, run)
		if method != MinCut || len(pinned) > 0 || all.events == 0 || fewer.Workers >= all.p.Workers ||
			fewer.least(all.events) >= best.seconds() || run.near(all.seconds(), fewer.least(all.events)) {
			continue
		}
		try, err := over(s, fewer, method, nil, few, proceed)
		if err != nil {
			return nil, nil, err
		}
		if try.seconds() < best.seconds() && !run.near(all.seconds(), try.seconds()) {
			best = try
		}
	}
	if best != all {
		best.p.Unused = all.p.Workers + all.p.Unused - best.p.Workers
		best.p.Saved = all.seconds() / best.seconds()
		best.m.instead, best.m.saved = all.m, best.p.Saved
	}
	return best.p, best.m, nil
}

// fewerMachines are the smaller numbers of machines to try for a graph of so many nodes and links: all of them where
// that takes no time, else a half, a quarter, … and one.
func fewerMachines(used, size int) (counts []int) {
	all := used*size <= allCounts
	for count := used - 1; count >= 1; count-- {
		if all || slices.Contains([]int{used / 2, used / 4, used / 8, used / 16, used / 32, 1}, count) {
			counts = append(counts, count)
		}
	}
	return counts
}

// nearest is the network with so many of its machines, and a run on them: those between which the longest round trip is
// shortest, and of these the ones with the most slots, as found by taking the nearest one to those taken, from each on.
func (n *Network) nearest(machines int, run Run) (*Network, Run) {
	few := &Network{Slots: make([]int, len(n.Slots)), Processors: n.Processors, RoundTrip: n.RoundTrip,
		SecondsPerByte: n.SecondsPerByte}
	best, farthest, most := []int(nil), 0.0, 0
	for first, slots := range n.Slots {
		if slots <= 0 {
			continue
		}
		if taken, far, all := n.around(first, machines); best == nil || len(taken) > len(best) ||
			len(taken) == len(best) && cmp.Or(cmp.Compare(farthest, far), cmp.Compare(all, most)) > 0 {
			best, farthest, most = taken, far, all
		}
	}
	slots, processors := 0, 0
	for _, m := range best {
		few.Slots[m] = n.Slots[m]
		slots += n.Slots[m]
		if n.Processors != nil {
			processors += n.Processors[m]
		}
	}
	run.Workers = min(run.Workers, slots)
	if n.Processors != nil {
		run.Processors = min(run.Processors, processors)
	}
	return few, run
}

// around takes so many machines from first on, each time the one that is nearest to those taken, of these the one with
// the most slots, of these the first: which, the longest round trip between them, and their slots.
func (n *Network) around(first, machines int) (taken []int, longest float64, slots int) {
	far := make([]float64, len(n.Slots)) // from those taken
	for next := first; next >= 0; {
		taken, longest, slots = append(taken, next), max(longest, far[next]), slots+n.Slots[next]
		last := next
		next = -1
		for m, s := range n.Slots {
			if s <= 0 || len(taken) >= machines || slices.Contains(taken, m) {
				continue
			}
			if far[m] = max(far[m], n.RoundTrip[last][m]); next < 0 ||
				cmp.Or(cmp.Compare(far[next], far[m]), cmp.Compare(s, n.Slots[next])) > 0 {
				next = m
			}
		}
	}
	return taken, longest, slots
}

// placing is a partition on machines.
type placing struct {
	p      *Partition
	m      *Machines
	events float64 // in a simulated second; 0: unknown
	work   float64 // seconds of a simulated second, beside what is lost between machines
}

// seconds is the predicted time of a simulated second.
func (p *placing) seconds() float64 { return p.work + p.m.Seconds() }

// over is the better one of two divisions: that of one machine, and, where its workers wait for long on messages
// between machines, one in which such a wait is part of what a border costs.
func over(
	s *node.Structure, run Run, method Method, pinned map[int]int32, n *Network, proceed func() error,
) (*placing, error) {
	near, err := place(s, run, method, pinned, n, proceed)
	if err != nil || method != MinCut || near.events == 0 || !near.waits(run) {
		return near, err
	}
	run.Message = n.longest() / 2
	far, err := place(s, run, method, pinned, n, proceed)
	if err != nil || far.seconds() >= near.seconds() {
		return near, err
	}
	return far, nil
}

// waits tells whether what is lost between machines is worth another division: that takes as long again.
func (p *placing) waits(run Run) bool {
	lost := p.m.Seconds()
	return lost*run.Seconds > secondsFew && lost > p.work*lostFew
}

// lostFew is how much is lost between machines, as a part of the work, where no other division is tried.
const lostFew = 0.1

// longest is the longest round trip between two machines that have slots.
func (n *Network) longest() float64 {
	longest := 0.0
	for i, row := range n.RoundTrip {
		for j, seconds := range row {
			if n.Slots[i] > 0 && n.Slots[j] > 0 {
				longest = max(longest, seconds)
			}
		}
	}
	return longest
}

// place divides the nodes, and chooses machines for the workers.
func place(
	s *node.Structure, run Run, method Method, pinned map[int]int32, n *Network, proceed func() error,
) (*placing, error) {
	p, err := Make(s, run, method, pinned, proceed)
	if err != nil {
		return nil, err
	}
	p.LeaveOut()
	c, err := Couple(s, p.Of, p.Workers, proceed)
	if err != nil {
		return nil, err
	}
	m, err := OnMachines(c, n)
	if err != nil {
		return nil, err
	}
	work := run.least(c.events)
	if p.Slowdown > 0 {
		work = p.Slowdown * c.events * eventSeconds
	}
	return &placing{p, m, c.events, work}, nil
}
