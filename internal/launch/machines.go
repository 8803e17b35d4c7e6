// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/shm"
)

// home is where the workers of a set run, with their memory.
type home interface {
	Boards() []*shm.Segment
	Pages() string
	Start(worker int, s machine.Spec) (machine.Worker, error)
	Release()
	InspectLane(from, to int) (lane.Status, error)
	Close() error
}

var (
	_ home = (*machine.Memory)(nil) // on this machine
	_ home = (*child.Set)(nil)      // on others
)

// makeHome makes the memory of a set.
func (l *Launch) makeHome(plan machine.Plan, proceed func() error) (home, error) {
	if l.cfg.Machines != nil {
		set, err := l.cfg.Machines.Make(plan, l.inputSegment, proceed)
		if err != nil {
			return nil, refused(err)
		}
		return set, nil
	}
	segments := machine.Config{Input: l.inputSegment, Proceed: proceed}
	if !l.shared() {
		segments.Heap = &l.input
	}
	memory, err := machine.Make(plan, 0, segments)
	if err != nil {
		return nil, err
	}
	return memory, nil
}

// refused makes an error of the child one in what the caller asked for, where it is that.
func refused(err error) error {
	if r := (*child.RefusedError)(nil); errors.As(err, &r) {
		return &configError{err}
	}
	return err
}

// Machines are the machines of the run, and on which of them each worker is; none: all are on this one.
func (l *Launch) Machines() (machines []child.Machine, of []int32) {
	if l.cfg.Machines == nil {
		return nil, nil
	}
	machines = l.cfg.Machines.Network().Machines
	if l.sets > 1 {
		slots, _ := l.cfg.slots()
		return machines, fill(l.sets, slots)
	}
	return machines, l.plan.Machine
}

// away reports whether machines of the run are cut off from others at the moment, or silent.
func (l *Launch) away() bool { return l.cfg.Machines != nil && l.cfg.Machines.Away() }

// keepMachines says how many slots the run uses, where no other run follows.
func (l *Launch) keepMachines() {
	machines, of := l.Machines()
	if machines == nil || !l.cfg.LastThere {
		return
	}
	slots := make([]int, len(machines))
	for _, m := range of {
		slots[m]++
	}
	l.cfg.Machines.Keep(slots)
}

// slots is how many workers the machines of the run take; where there is only this one, as many as there may be.
func (cfg *Config) slots() (slots []int, text string) {
	if cfg.Machines == nil {
		return []int{WorkersMax}, ""
	}
	var parts []string
	for _, m := range cfg.Machines.Network().Machines {
		slots = append(slots, m.Slots)
		parts = append(parts, fmt.Sprintf("%s %d", m.Name, m.Slots))
	}
	return slots, strings.Join(parts, ", ")
}

// machineProcessors is how many threads can run at once on a machine.
func (cfg *Config) machineProcessors(m int32) int {
	if cfg.Machines == nil {
		return cfg.Processors
	}
	return cfg.Machines.Network().Machines[m].Processors
}

// checkMachines refuses more workers than the machines have slots for.
func (cfg *Config) checkMachines() error {
	if cfg.Machines == nil {
		return nil
	}
	if cfg.Transport != TransportShm {
		return badConfig("transport: found %s with machines, want %s", cfg.Transport, TransportShm)
	}
	slots, text := cfg.slots()
	all := 0
	for _, s := range slots {
		all += s
	}
	if cfg.Workers > all {
		return badConfig("workers: found %d, want at most %d, the slots of the machines (%s)", cfg.Workers, all, text)
	}
	return nil
}

// fill fills machines with workers in their order: the machine of each.
func fill(workers int, slots []int) []int32 {
	of := make([]int32, 0, workers)
	for m, free := range slots {
		of = append(of, slices.Repeat([]int32{int32(m)}, min(free, workers-len(of)))...)
	}
	return of
}

// divide divides the nodes among the workers of a set, and chooses a machine for each of these; they are numbered
// machine by machine, unless it was asked for which node is on which.
func (l *Launch) divide(
	g *node.Structure, run partition.Run, pinned map[int]int32,
) (p *partition.Partition, machines []int32, err error) {
	cfg := &l.cfg
	slots, _ := cfg.slots()
	if len(slots) == 1 || run.Workers == 1 {
		if p, err = partition.Make(g, run, cfg.Partition, pinned, cfg.proceed); err != nil {
			return nil, nil, err
		}
		p.LeaveOut()
		return p, fill(p.Workers, slots), nil
	}
	known := cfg.Machines.Network()
	network := partition.Network{Slots: slots, RoundTrip: rows(known.RoundTrip, len(slots)),
		SecondsPerByte: rows(known.SecondsPerByte, len(slots))}
	names := make([]string, len(slots))
	for m := range names {
		names[m] = known.Machines[m].Name
		network.Processors = append(network.Processors, known.Machines[m].Processors)
	}
	network.Settle()
	if cfg.Pins != nil {
		return l.divideAsAsked(g, run, pinned, names, &network)
	}
	p, chosen, err := partition.Over(g, run, cfg.Partition, pinned, &network, cfg.proceed)
	if err != nil {
		return nil, nil, err
	}
	l.machinesText = chosen.Text(names, &network)
	p.Renumber(chosen.Numbers())
	machines = slices.Clone(chosen.Of)
	slices.Sort(machines)
	return p, machines, nil
}

// divideAsAsked keeps the workers' numbers, of which nodes were put on some: they fill machines in their order.
func (l *Launch) divideAsAsked(
	g *node.Structure, run partition.Run, pinned map[int]int32, names []string, network *partition.Network,
) (*partition.Partition, []int32, error) {
	p, err := partition.Make(g, run, l.cfg.Partition, pinned, l.cfg.proceed)
	if err != nil {
		return nil, nil, err
	}
	p.LeaveOut()
	c, err := partition.Couple(g, p.Of, p.Workers, l.cfg.proceed)
	if err != nil {
		return nil, nil, err
	}
	filled := partition.InOrder(c, network)
	l.machinesText = filled.Text(names, network)
	return p, filled.Of, nil
}

// rows makes a table of its n × n values.
func rows(values []float64, n int) [][]float64 {
	table := make([][]float64, n)
	for i := range table {
		table[i] = slices.Clone(values[i*n : (i+1)*n])
	}
	return table
}

// planOf is the plan of a set. Where replications are spread, each set is one worker on the next slot.
func (l *Launch) planOf(set int) machine.Plan {
	plan := l.plan
	plan.First = set * plan.Workers()
	if l.sets > 1 {
		slots, _ := l.cfg.slots()
		plan.Machine = fill(l.sets, slots)[set : set+1]
	}
	return plan
}

// delay is the longest round trip between two machines of the plan.
func (l *Launch) delay(plan *machine.Plan) (longest float64) {
	if l.cfg.Machines == nil {
		return 0
	}
	known := l.cfg.Machines.Network()
	for _, a := range plan.Machine {
		for _, b := range plan.Machine {
			longest = max(longest, known.RoundTrip[int(a)*len(known.Machines)+int(b)])
		}
	}
	return longest
}
