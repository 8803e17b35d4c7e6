// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"time"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/scenario"
)

// Outcome is what a run has found out.
type Outcome struct {
	// Summary is the scenario's own results; nil when the run was interrupted before
	// anything was simulated.
	Summary scenario.Summary

	// Interrupted says that Config.Stop ended the run early. The results are then
	// about what was simulated up to there, and TraceHash is empty. A replication that
	// was under way has ended at one simulated time on all workers, its Reached: it is
	// what a run with that horizon would be.
	Interrupted bool

	// TraceHash is a hash over everything that was handled, in total order.
	TraceHash string

	Replications []Replication // that were begun, by index
	Workers      []WorkerStats // summed over the replications
	Events       uint64        // handled, in all replications
	Activations  uint64        // calls of handlers
	WallSeconds  float64       // during which at least one replication was under way
	SetupSeconds float64       // everything else: starting workers, building nodes
}

// Replication is one repetition.
type Replication struct {
	Index       int
	Reached     float64 // simulated seconds
	Interrupted bool
	Events      uint64
	Activations uint64
	WallSeconds float64
	TraceHash   string // of what was handled before Reached
}

// WorkerStats is what one worker did.
type WorkerStats struct {
	Worker int
	Nodes  int
	Events uint64
	worker.Stats
}

// Run starts the workers and returns when all of them have ended. The error is a
// *WorkerError when one of them died or failed. One that did so when all results were
// there doesn't cost them: Run then returns the whole outcome beside the error. The end
// of ctx ends the run at once, with ErrEnded.
func (l *Launch) Run(ctx context.Context) (*Outcome, error) {
	began := time.Now()
	if l.Workers() < l.cfg.Workers {
		l.note(l.fewer())
	}
	agenda := newAgenda(l)
	teams, err := l.assemble(ctx, agenda)
	defer func() {
		for _, t := range teams {
			t.release()
		}
	}()
	if err != nil {
		for _, t := range teams {
			t.end(false)
		}
		if errors.Is(err, errNotBegun) {
			return l.conclude(agenda, nil)
		}
		return nil, err
	}
	failed := l.postMortem(teams, l.lead(ctx, teams, agenda))
	if failed != nil && !delivered(failed) {
		return nil, failed
	}
	setup := time.Since(began) - agenda.wall
	if err := l.mergeTraces(ctx, agenda.results()); err != nil {
		return nil, err
	}
	var workers []WorkerStats
	for _, t := range teams {
		workers = append(workers, t.stats...)
	}
	out, err := l.conclude(agenda, workers)
	if err != nil {
		return nil, err
	}
	out.SetupSeconds = setup.Seconds()
	return out, failed
}

// delivered tells whether an error is about a worker that had told all its results.
func delivered(err error) bool {
	var w *WorkerError
	return errors.As(err, &w) && w.Delivered
}

// assemble starts all teams. After an error, those that were started are returned too.
func (l *Launch) assemble(ctx context.Context, a *agenda) ([]*team, error) {
	var teams []*team
	goOn := func() error {
		select {
		case <-ctx.Done():
			return ErrEnded
		case <-l.cfg.Stop:
			return errNotBegun
		default:
		}
		for _, t := range teams {
			if err := t.early(); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range l.teams {
		t, err := l.newTeam(i, a, goOn)
		if err != nil {
			return teams, err
		}
		t.phase.name = PhaseStart
		teams = append(teams, t)
	}
	return teams, nil
}

// lead leads all teams through their replications. The first error ends them all, but
// for one of a team that had delivered all it had to. What the teams have found out is
// summed up meanwhile.
func (l *Launch) lead(ctx context.Context, teams []*team, a *agenda) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	merged := make(chan error, 1)
	go func() {
		err := a.merge()
		if err != nil {
			cancel()
		}
		merged <- err
	}()
	errs := make(chan error)
	for _, t := range teams {
		go func() { errs <- t.lead(ctx) }()
	}
	var first error
	for range teams {
		err := <-errs
		if err != nil && (first == nil || delivered(first) && !delivered(err) || errors.Is(first, ErrEnded) && !errors.Is(err, ErrEnded) && !delivered(err)) {
			first = err
		}
		if err != nil && !delivered(err) {
			cancel()
		}
	}
	a.close(first == nil || delivered(first))
	if err := <-merged; err != nil && (first == nil || delivered(first) || errors.Is(first, ErrEnded)) {
		return l.unsummed(err)
	}
	return first
}
