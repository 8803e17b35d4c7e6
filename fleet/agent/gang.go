// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
)

// machines are those of a gang, in the order of its partitions; none: it is on one.
func machines(gang []fleet.Server) (all []executor.Machine) {
	for _, s := range gang {
		i := slices.IndexFunc(all, func(m executor.Machine) bool { return m.Name == s.Member })
		if i < 0 {
			i, all = len(all), append(all, executor.Machine{Name: s.Member, Address: s.Address})
		}
		all[i].Slots++
	}
	if len(all) < 2 {
		return nil
	}
	return all
}

// check refuses a partition of an attempt that doesn't count, or isn't this machine's, and gives the gang's machines.
func (a *Agent) check(ctx context.Context, as cluster.Assignment, id fleet.AttemptID) ([]executor.Machine, error) {
	p, err := a.o.Store.Piece(ctx, as.Experiment, id.PieceID)
	if err != nil {
		return nil, err
	}
	if p.Attempt != id.Attempt || !p.State.Holds() || as.Partition >= len(p.Gang) ||
		p.Gang[as.Partition].Member != a.o.Member {
		return nil, fmt.Errorf("%w: %s: found attempt %d, %v, of %v", ErrOld, as.String(), p.Attempt, p.State, p.Gang)
	}
	return machines(p.Gang), nil
}

// namesOf are the names of machines.
func namesOf(all []executor.Machine) (names []string) {
	for _, m := range all {
		names = append(names, m.Name)
	}
	return names
}

// Claim is how many servers this machine has for the run of a name, which other machines ask to take part in it; false:
// it isn't the name of an attempt at a piece of an experiment. Servers count from READY on until they are told to give
// the attempt up, so that of a piece's attempts none but the present one finds any. Any goroutine may call it.
func (a *Agent) Claim(run string) (servers int, is bool) {
	at := strings.LastIndexByte(run, '/')
	if at < 0 {
		return 0, false
	}
	if _, err := fleet.ParseAttemptID(run[at+1:]); err != nil {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for as := range a.hosts {
		if as.Experiment == run[:at] && as.Replication == run[at+1:] {
			servers++
		}
	}
	return servers, true
}

// endRun returns when nothing is left here of the run of an attempt that a server has given up.
func (a *Agent) endRun(ctx context.Context, as cluster.Assignment) error {
	if a.o.Runs == nil {
		return nil
	}
	return a.o.Runs.End(context.WithoutCancel(ctx), as.Experiment+"/"+as.Replication)
}
