// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"slices"

	"github.com/disco-sim/disco/node"
)

// Over divides nodes among workers as Make does, and chooses a machine for each worker as OnMachines does. With MinCut
// and without pins, run.Workers is the most: where workers on fewer machines are predicted to be so much faster that
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
	for machines := all.m.used() / 2; machines >= 1; machines /= 2 {
		few, fewer := n.largest(machines, run)
		if method != MinCut || len(pinned) > 0 || all.events == 0 || fewer.Workers >= all.p.Workers ||
			run.near(all.seconds(), fewer.least(all.events)) {
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

// largest is the network with so many of its machines, those with the most slots, and a run on them.
func (n *Network) largest(machines int, run Run) (*Network, Run) {
	few := &Network{Slots: make([]int, len(n.Slots)), RoundTrip: n.RoundTrip, SecondsPerByte: n.SecondsPerByte}
	order := inOrder(len(n.Slots))
	slices.SortStableFunc(order, func(x, y int32) int { return cmp.Compare(n.Slots[y], n.Slots[x]) })
	slots, processors := 0, 0
	for _, m := range order[:machines] {
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

// placing is a partition on machines.
type placing struct {
	p      *Partition
	m      *Machines
	events float64 // in a simulated second; 0: unknown
	work   float64 // seconds of a simulated second, beside what is lost between machines
}

// seconds is the predicted time of a simulated second.
func (p *placing) seconds() float64 { return p.work + p.m.Seconds() }

func over(
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
