// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/agent"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// endedRuns notes which runs over several machines an agent has ended, and what it has claimed for them then.
type endedRuns struct {
	agent *agent.Agent
	names []string
}

func (e *endedRuns) End(_ context.Context, name string) error {
	servers, _ := e.agent.Claim(name)
	e.names = append(e.names, fmt.Sprintf("%s %d", name, servers))
	return nil
}

// nothing is an executor without runs.
type nothing struct {
	executor.Executor
	prepared *executor.Job
}

func (n *nothing) Prepare(_ context.Context, j *executor.Job) error { n.prepared = j; return nil }
func (*nothing) Release(*executor.Job) error                        { return nil }
func (*nothing) Close(context.Context) error                        { return nil }

// spread writes an attempt at a piece whose gang has a server of another machine, and two of this one.
func (f *fixture) spread(id string, attempt int) {
	f.Helper()
	f.must(f.store.Put(f.ctx, fmt.Sprintf("fleet/pieces/%s/%v", id, piece), fleet.Piece{State: fleet.Dispatched,
		Attempt: attempt, Token: 1, Gang: []fleet.Server{{Name: "h2-0", Member: "h2", Address: "h2:1"},
			{Name: "h1-0", Member: "h1", Address: "h1:1"}, {Name: "h1-1", Member: "h1", Address: "h1:1"}}}))
}

// TestGangMember: what a machine has promised to a gang that another one leads is that attempt's, from READY until it
// is told to give it up; of an older attempt it has nothing, and when a server is free nothing of the run is left.
func TestGangMember(t *testing.T) {
	f := setUp(t)
	defer f.end()
	id := f.submit(launchtest.Scenario(6, 20, ""))
	runs := &endedRuns{}
	a := agent.New(agent.Options{Member: "h1", Store: f.client, Executor: &nothing{}, Runs: runs, Report: f.report})
	runs.agent = a
	defer func() { f.must(a.Close(f.ctx)) }()
	claims := func(run string, servers int, is bool) {
		t.Helper()
		if n, ok := a.Claim(run); n != servers || ok != is {
			t.Errorf("%s: found %d, %v, want %d, %v", run, n, ok, servers, is)
		}
	}
	of := func(attempt, partition int) cluster.Assignment {
		return cluster.Assignment{Experiment: id, Replication: fleet.AttemptID{Attempt: attempt}.String(),
			Partition: partition}
	}
	first, second, name := a.Runner(0, nil), a.Runner(1, nil), id+"/0.0.0.2"
	f.spread(id, 2)
	for _, wrong := range []cluster.Assignment{of(1, 1), of(3, 1), of(2, 0), of(2, 3)} {
		if _, err := first.Initialize(f.ctx, wrong); !errors.Is(err, agent.ErrOld) {
			t.Errorf("%v: found %v, want that it doesn't count", wrong, err)
		}
	}
	claims(name, 0, true)
	for partition, s := range map[int]cluster.Runner{1: first, 2: second} {
		_, err := s.Initialize(f.ctx, of(2, partition))
		f.must(err)
	}
	claims(name, 2, true)
	claims(id+"/0.0.0.1", 0, true)
	claims("other/0.0.0.2", 0, true)
	claims("shop-12ab", 0, false)
	claims("a/b", 0, false)
	f.must(first.Activate(f.ctx))
	f.must(first.Terminate(f.ctx))
	f.must(second.Terminate(f.ctx))
	if want := []string{name + " 1", name + " 0"}; !slices.Equal(runs.names, want) {
		t.Errorf("ended %q, want %q", runs.names, want)
	}
	claims(name, 0, true)
}

// TestGangLeader: a piece with servers of several machines has them all in its job; without runs over machines it is
// refused, and the machine is at fault.
func TestGangLeader(t *testing.T) {
	f := setUp(t)
	defer f.end()
	id := f.submit(launchtest.Scenario(6, 20, ""))
	f.must(f.store.Put(f.ctx, fmt.Sprintf("fleet/pieces/%s/%v", id, piece), fleet.Piece{State: fleet.Dispatched,
		Attempt: 1, Token: 1, Gang: []fleet.Server{{Name: "h1-0", Member: "h1", Address: "h1:1"},
			{Name: "h2-0", Member: "h2", Address: "h2:1"}, {Name: "h1-1", Member: "h1", Address: "h1:1"}}}))
	as := cluster.Assignment{Experiment: id, Replication: fleet.AttemptID{Attempt: 1}.String()}
	with := func(runs agent.Runs) (*executor.Job, error) {
		e := &nothing{}
		a := agent.New(agent.Options{Member: "h1", Store: f.client, Executor: e, Runs: runs, Report: f.report,
			Place: func(*fleet.Spec, fleet.PieceID) string { return "place" }})
		defer func() { f.must(a.Close(f.ctx)) }()
		s := a.Runner(0, nil)
		_, err := s.Initialize(f.ctx, as)
		f.must(s.Terminate(f.ctx))
		return e.prepared, err
	}
	runs := &endedRuns{agent: f.agent}
	j, err := with(runs)
	want := []executor.Machine{{Name: "h1", Address: "h1:1", Slots: 2}, {Name: "h2", Address: "h2:1", Slots: 1}}
	if err != nil || !slices.Equal(j.Machines, want) || len(runs.names) != 1 {
		t.Errorf("found %+v, %v, ended %q; want %+v", j, err, runs.names, want)
	}
	if _, err := with(nil); err == nil || !strings.Contains(err.Error(), "takes no runs over several: want --listen") {
		t.Errorf("found %v", err)
	}
	r, err := f.client.Report(f.ctx, "h1", id, piece)
	if f.must(err); r == nil || r.Report.State != fleet.Canceled && r.Report.Error.Type != fleet.ErrorMachine {
		t.Errorf("found %+v", r)
	}
}
