// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/circuit"
)

// server is the runner of one slot. Only that of partition 0 does something: its run has a worker for each of the gang.
type server struct {
	a     *Agent
	ended func(error)
	as    cluster.Assignment
	work  *work // of partition 0, from Initialize on

	others []executor.Machine // of a gang over several, which partition 0 leads
}

// work is an attempt that this agent simulates.
type work struct {
	a     *Agent
	as    cluster.Assignment
	id    fleet.AttemptID
	job   *executor.Job
	began time.Time

	start       uint64 // its number for the circuit
	startedOnce sync.Once

	run     executor.Run
	watched chan struct{} // closed when nobody watches over run any more
	giveUp  chan struct{} // closed when the server gives the attempt up

	ran time.Duration // before a pause; of the goroutine that watches over run

	released  chan struct{} // closed when the executor has nothing of it any more
	releasing sync.Mutex    // held while it forgets it

	mu     sync.Mutex // held while a report is written
	number uint64     // of the last report
	done   bool       // the last report of the attempt is written, or isn't wanted
}

// Initialize implements cluster.Runner.
func (s *server) Initialize(ctx context.Context, as cluster.Assignment) ([]string, error) {
	s.as, s.work = as, nil
	id, err := attempt(as)
	if err != nil {
		return nil, err
	}
	if as.Partition > 0 {
		if s.others, err = s.a.check(ctx, as, id); err != nil {
			return nil, err
		}
		s.a.host(as, s)
		return nil, nil
	}
	s.a.host(as, s)
	w := &work{a: s.a, as: as, id: id, giveUp: make(chan struct{}), released: make(chan struct{}),
		began: s.a.o.Now().UTC()}
	if err := w.take(ctx); err != nil {
		s.a.leave(as, s)
		return nil, err // nobody waits for it
	}
	final := false
	if final, err = s.a.job(ctx, w); err == nil {
		err = w.prepare(ctx)
	}
	if err == nil {
		s.work = w
		return nil, nil
	}
	err = errors.Join(err, w.release())
	s.a.leave(as, s)
	if ctx.Err() != nil || errors.Is(err, ErrOld) {
		return nil, err // nobody waits for it
	}
	kind, state := fleet.ErrorMachine, fleet.Held
	switch {
	case final:
		kind, state = fleet.ErrorModel, fleet.Failed
	case isRefusal(err):
		kind = fleet.ErrorRefused
	}
	e := &fleet.Error{Where: s.a.o.Member, Type: kind, Message: short(err.Error()), Step: "fetching"}
	return nil, errors.Join(err, w.report(ctx, fleet.Report{State: state, Error: e}))
}

// prepare prepares a job, unless the executor starts nothing now.
func (w *work) prepare(ctx context.Context) error {
	var err error
	if w.start, err = w.a.starts.Allow(time.Now()); err != nil {
		return fmt.Errorf("the executor of %s: %w", w.a.o.Member, err)
	}
	if err = w.a.o.Executor.Prepare(ctx, w.job); err == nil {
		return nil
	}
	if ctx.Err() != nil || isRefusal(err) || executor.IsOwn(err) {
		w.started(circuit.Neither, nil)
	} else {
		w.started(circuit.HasFailed, err)
	}
	return err
}

// isRefusal tells whether nothing was tried: the executor has said so, or its circuit.
func isRefusal(err error) bool {
	open, full := (*circuit.OpenError)(nil), (*executor.RefusedError)(nil)
	return errors.As(err, &open) || errors.As(err, &full)
}

// short bounds a message.
func short(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.ToValidUTF8(text[:min(len(text), fleet.MaxReason)], "")
}

// Activate implements cluster.Runner.
func (s *server) Activate(context.Context) error {
	w := s.work
	if w == nil {
		return nil
	}
	run, err := s.a.o.Executor.Start(w.job)
	if err != nil {
		w.started(circuit.HasFailed, err)
		return err
	}
	w.run, w.watched = run, make(chan struct{})
	s.a.waiters.Go(func() {
		defer close(w.watched)
		w.watch(run)
	})
	return nil
}

// Pause implements cluster.Runner: the run ends at a checkpoint, from which Activate goes on.
func (s *server) Pause(ctx context.Context) error {
	w := s.work
	if w == nil || w.run == nil {
		return nil
	}
	// What was begun is ended, whatever is asked for meanwhile.
	if err := w.run.Stop(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-w.watched
	if w.run.Outcome().Stopped {
		return w.report(ctx, fleet.Report{State: fleet.Paused, Progress: w.run.Progress()})
	}
	return nil // it has ended by itself, as its report says
}

// reportMax is how long a server that gives an attempt up tries to say so.
const reportMax = 5 * time.Second

// Terminate implements cluster.Runner.
func (s *server) Terminate(ctx context.Context) error {
	w := s.work
	s.a.leave(s.as, s)
	s.work = nil
	if w == nil {
		s.a.ways.forget(namesOf(s.others), true)
		return s.a.endRun(ctx, s.as)
	}
	close(w.giveUp)
	defer w.started(circuit.Neither, nil)
	r := fleet.Report{State: fleet.Canceled}
	if w.run != nil {
		if err := w.run.Stop(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		<-w.watched
		r.Progress = w.run.Progress()
		if kept := w.run.Outcome().Kept; kept != nil { // it was faster
			r.State, r.Kept = fleet.Finished, kept
			r.Outputs, r.Texts = w.run.Outcome().Outputs, w.run.Outcome().Texts
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportMax)
	defer cancel()
	if err := w.report(ctx, r); err != nil { // the leader sees that the server has given it up
		s.a.o.Report(fmt.Errorf("the report that %s was given up: %w", w.job.Name(), err))
	}
	return errors.Join(s.a.endRun(ctx, s.as), w.release())
}

// take waits until no other server of this agent has an attempt of this name. There is one where a store, or a site,
// was given an experiment again that it had lost: the executor knows attempts by name, and ends the first one's
// processes and removes its files when that is given up.
func (w *work) take(ctx context.Context) error {
	a, name := w.a, attemptName{w.as.Experiment, w.as.Replication}
	for {
		a.mu.Lock()
		other := a.works[name]
		if other == nil {
			a.works[name] = w
		}
		a.mu.Unlock()
		if other == nil {
			return nil
		}
		select {
		case <-other.released: // its own server sees to that
		case <-ctx.Done():
			return fmt.Errorf("an earlier %s/%s is still being ended here: %w", name.experiment, name.replication,
				context.Cause(ctx))
		}
	}
}

// release has the executor forget the attempt, and does nothing when it has.
func (w *work) release() error {
	w.releasing.Lock()
	defer w.releasing.Unlock()
	select {
	case <-w.released:
		return nil
	default:
	}
	if w.job != nil {
		if err := w.a.o.Executor.Release(w.job); err != nil {
			return err
		}
	}
	w.a.mu.Lock()
	delete(w.a.works, attemptName{w.as.Experiment, w.as.Replication})
	w.a.mu.Unlock()
	close(w.released)
	return nil
}

// watch reports on a run until it has ended, and then how.
func (w *work) watch(run executor.Run) {
	progress, logs := time.NewTicker(w.a.o.Progress), time.NewTicker(w.a.o.Log)
	defer progress.Stop()
	defer logs.Stop()
	var log []byte
	pace := newPace(w.ran)
	ctx, cancel := context.WithCancel(w.a.closed)
	defer cancel()
	go func() { // what is being written is given up when the run ends
		select {
		case <-run.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		select {
		case <-progress.C:
			if p, tell := pace.of(run.Progress()); tell {
				if p.Events > 0 || p.Now > 0 {
					w.started(circuit.Succeeded, nil)
				}
				w.complain(ctx, w.report(ctx, fleet.Report{State: fleet.Running, Progress: p}))
			}
		case <-logs.C:
			if text := run.Output(); !bytes.Equal(text, log) {
				log = text
				w.complain(ctx, w.a.o.Store.PutLog(ctx, w.as.Experiment, w.id, text))
			}
		case <-run.Done():
			w.ran = pace.ran()
			w.end(run)
			return
		}
	}
}

// complain passes an error on, unless nobody waits for what has failed.
func (w *work) complain(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, fleet.ErrStale) && !errors.Is(err, fleet.ErrGone) {
		w.a.o.Report(fmt.Errorf("%s: %w", w.job.Name(), err))
	}
}

// end reports the end of a run that has ended by itself, and frees the servers.
func (w *work) end(run executor.Run) {
	w.judge(run)
	out := run.Outcome()
	ctx, cancel := context.WithTimeout(w.a.closed, reportMax)
	w.complain(ctx, w.a.o.Store.PutLog(ctx, w.as.Experiment, w.id, run.Output()))
	cancel()
	if out.Stopped {
		return // who has stopped it says so
	}
	r := fleet.Report{State: fleet.Finished, Progress: run.Progress(), Kept: out.Kept, Error: out.Error,
		Outputs: out.Outputs, Texts: out.Texts}
	var failed error
	if e := out.Error; e != nil {
		if e.Where == "" && (len(w.job.Machines) == 0 || e.Type != fleet.ErrorMachine) {
			e.Where = w.a.o.Member // of several machines nobody knows which one it was
		}
		r.State = fleet.Held
		switch {
		case e.Final():
			r.State = fleet.Failed
		case out.Elsewhere:
			spared := *e
			spared.Type = fleet.ErrorRefused
			spared.Message = short(out.Behind + ", behind this agent, hasn't started it: " + e.Message)
			r.Error = &spared
		}
		failed = errors.New(e.Message)
		if e.Type == fleet.ErrorMachine {
			w.a.recheck(namesOf(w.job.Machines))
		}
	}
	if !w.reported(r) {
		return // the server gives it up, or the agent ends
	}
	if err := w.release(); err != nil {
		w.a.o.Report(err)
	}
	w.a.endAll(w.as, failed)
}

// reportPause is the time between two tries to report an end, on average.
const reportPause = time.Second

// reported writes the report of an end, however long the store is away. false: the server gives the attempt up first,
// or the agent ends.
func (w *work) reported(r fleet.Report) bool {
	for {
		ctx, cancel := context.WithTimeout(w.a.closed, 2*reportMax)
		err := w.report(ctx, r)
		cancel()
		if err == nil || errors.Is(err, fleet.ErrStale) || errors.Is(err, fleet.ErrGone) {
			return true
		}
		w.complain(w.a.closed, fmt.Errorf("its end can't be reported, and is tried again: %w", err))
		select {
		case <-time.After(rand.N(2 * reportPause)): // not all agents at a time
		case <-w.giveUp:
			return false
		case <-w.a.closed.Done():
			return false
		}
	}
}

// report writes a report of the attempt. Behind that of its end none is written.
func (w *work) report(ctx context.Context, r fleet.Report) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	w.number++
	r.Attempt, r.Number, r.Began = w.id.Attempt, w.number, w.began
	err := w.a.o.Store.PutReport(ctx, w.a.o.Member, w.as.Experiment, w.id.PieceID, r)
	if err == nil && (r.State.Ended() || r.State == fleet.Held) {
		w.done = true
	}
	return err
}
