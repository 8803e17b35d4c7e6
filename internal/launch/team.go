// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
)

// team is the workers that simulate a replication together. A run that spreads nodes
// has one team of all workers; one that spreads replications has teams of one worker,
// each of which takes the next replication from the agenda until none is left. The
// fields are used by the goroutine that leads the team.
type team struct {
	*Launch
	*supervisor
	index   int
	agenda  *agenda
	memory  *memory
	traces  *traces
	stats   []WorkerStats
	cleanup []func() // in the order of what they undo
}

// newTeam makes the memory and starts the workers of team index. goOn is asked between
// two steps; its error ends the start.
func (l *Launch) newTeam(index int, a *agenda, goOn func() error) (_ *team, err error) {
	t := &team{Launch: l, index: index, agenda: a, stats: make([]WorkerStats, l.placement.Workers)}
	defer func() {
		if err != nil {
			t.release()
		}
	}()
	for w := range t.stats {
		t.stats[w].Worker, t.stats[w].Nodes = t.number(w), l.placement.Nodes[w]
	}
	if t.traces, err = l.openTraces(); err != nil {
		return nil, err
	}
	t.cleanup = append(t.cleanup, t.traces.close)
	if t.memory, err = newMemory(l.cfg.Transport, t.number(0), l.placement.Workers, l.cfg.Tuning, goOn); err != nil {
		return nil, err
	}
	t.cleanup = append(t.cleanup, func() { _ = t.memory.close() }) // nothing can be done about it
	if l.cfg.Tuning.HugePages && index == 0 {
		l.note(t.memory.pages())
	}
	crew, done, err := t.start(goOn)
	if err != nil {
		return nil, err
	}
	t.cleanup = append(t.cleanup, done)
	t.supervisor = newSupervisor(crew, l)
	t.reached, t.called = t.memory.reached, t.lastCall
	t.events = func() uint64 { _, events := t.memory.progress(); return events }
	if l.cfg.Progress != nil {
		t.tick = t.progress
	}
	return t, nil
}

// release gives back what the team holds. Its workers have ended.
func (t *team) release() {
	for i := len(t.cleanup) - 1; i >= 0; i-- {
		t.cleanup[i]()
	}
	t.cleanup = nil
}

// number is the number that people know the team's worker w by.
func (t *team) number(w int) int { return t.index*t.placement.Workers + w }

// lead leads the team from its first message to the end of its last worker.
func (t *team) lead(ctx context.Context) error {
	err := t.replications(ctx)
	if errors.Is(err, errNotBegun) {
		t.end(false) // they may be long at what they are doing, and nobody needs it
		return nil
	}
	if err != nil {
		t.end(ctx.Err() == nil)
		return err
	}
	err = t.dismiss(ctx)
	if w := (*WorkerError)(nil); errors.As(err, &w) {
		w.Delivered = true
	}
	return err
}

// replications runs the protocol up to the last Done.
func (t *team) replications(ctx context.Context) error {
	t.phase.name = PhaseStart
	t.point("started")
	if _, err := t.ask(ctx, t.setup, worker.TypeReady); err != nil {
		return err
	}
	if err := t.memory.release(); err != nil { // the workers have theirs now
		return err
	}
	for !t.stopping {
		r, ok, later := t.agenda.take()
		switch {
		case ok:
			if err := t.replication(ctx, r); err != nil {
				return err
			}
		case later == nil:
			return nil
		default:
			t.phase = phase{PhasePrepare, t.agenda.begun()}
			t.point("rests")
			if err := t.rest(ctx, later); err != nil {
				return err
			}
		}
	}
	return nil
}

// replication runs one. A worker may fail when all have told their results: then these
// count, and the error says so if there are no more to come.
func (t *team) replication(ctx context.Context, r int) error {
	t.phase = phase{PhasePrepare, r}
	prepare := &worker.Message{Type: worker.TypePrepare, Prepare: &worker.Prepare{Replication: r}}
	if _, err := t.ask(ctx, func(int) *worker.Message { return prepare }, worker.TypeReady); err != nil {
		return err
	}
	t.phase.name = PhaseRun
	began := time.Now()
	t.agenda.begin(t.index, r)
	answers, failed := t.ask(ctx, func(int) *worker.Message { return &worker.Message{Type: worker.TypeGo} }, worker.TypeDone)
	t.agenda.end(t.index)
	if answers == nil {
		return failed
	}
	f, err := t.finish(r, answers, time.Since(began))
	if err != nil {
		return err
	}
	if !f.Interrupted || f.Reached > 0 { // or it had only begun: there is nothing to know of it
		t.agenda.file(f)
	}
	if w := (*WorkerError)(nil); errors.As(failed, &w) {
		w.Delivered = t.stopping || t.agenda.dealt()
	}
	return failed
}

// setup is what the team's worker index is told first.
func (t *team) setup(index int) *worker.Message {
	return &worker.Message{Type: worker.TypeSetup, Setup: &worker.Setup{
		Worker:    index,
		Workers:   t.placement.Workers,
		First:     t.number(0),
		File:      t.cfg.File,
		Text:      t.cfg.Text,
		Set:       t.cfg.Set,
		Attached:  t.attached,
		Horizon:   t.cfg.Horizon,
		Seed:      t.cfg.Seed,
		Placement: t.placement.Of,
		Tuning:    t.cfg.Tuning,
		Trace:     t.cfg.Trace,
		// Workers that share a process yield to each other, and can't be told apart in CPU time.
		OneProcess: t.cfg.Transport == TransportInproc,
	}}
}

// progress tells how far the team is.
func (t *team) progress() {
	now, events := t.memory.progress()
	t.agenda.tick(t.index, now, events)
}

// finish puts together what the team's workers have to say about replication r.
func (t *team) finish(r int, answers []*worker.Message, wall time.Duration) (*finished, error) {
	f := &finished{
		Replication: Replication{Index: r, Reached: math.Inf(1), WallSeconds: wall.Seconds()},
		parts:       make([][]byte, t.graph.NumSimprocs()),
		traces:      t.traces,
	}
	done := make([]*worker.Done, len(answers))
	for w, a := range answers {
		d := a.Done
		done[w] = d
		f.Interrupted = f.Interrupted || d.Interrupted
		f.Reached = min(f.Reached, d.Reached)
		f.Events += d.Events
		f.Activations += d.Activations
		t.stats[w].add(d)
		for id, part := range d.Parts {
			if int(id) >= len(f.parts) {
				return nil, fmt.Errorf("launch: worker %d reports about simproc %d, but there are %d", t.number(w), id, len(f.parts))
			}
			f.parts[id] = part
		}
	}
	if !f.Interrupted {
		f.Reached = t.scenario.Horizon()
	}
	var err error
	if f.hash, err = traceHash(t.graph, done); err != nil {
		return nil, err
	}
	f.TraceHash = runHash([][]byte{f.hash})
	f.mark, err = t.traces.mark()
	return f, err
}

// add sums up what a worker says after each replication.
func (s *WorkerStats) add(d *worker.Done) {
	s.Events += d.Events
	s.WallSeconds += d.Stats.WallSeconds
	s.WorkingSeconds += d.Stats.WorkingSeconds
	s.BlockedSeconds += d.Stats.BlockedSeconds
	s.RoomSeconds += d.Stats.RoomSeconds
	s.ReportSeconds += d.Stats.ReportSeconds
	s.CPUSeconds += d.Stats.CPUSeconds
	s.Sent += d.Stats.Sent
	s.Received += d.Stats.Received
	s.Promises += d.Stats.Promises
	s.IdleJumps += d.Stats.IdleJumps
	s.FullWaits += d.Stats.FullWaits
	s.InBlocks += d.Stats.InBlocks
	s.InParts += d.Stats.InParts
	s.Parks += d.Stats.Parks
}

// lastCall reads off its board which handler a worker called last; empty where it has
// called none, or the board says what can't be.
func (t *team) lastCall(index int) (simproc string, epoch float64) {
	values, err := worker.Numbers(t.memory.boards[index])
	if err != nil {
		return "", 0
	}
	var of uint64
	for _, v := range values {
		switch v.Name {
		case worker.NumberCallOf:
			of = v.Count
		case worker.NumberCallAt:
			epoch = v.Gauge
		}
	}
	if of == 0 || of > uint64(t.graph.NumSimprocs()) {
		return "", 0
	}
	return t.graph.Name(node.SimprocID(of - 1)), epoch
}
