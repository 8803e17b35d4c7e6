// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/tracefile"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// Outcome is the results of a run.
type Outcome struct {
	// Summary is the scenario's own results; nil when the run was interrupted before
	// anything was simulated.
	Summary scenario.Summary

	// Interrupted says that Config.Stop ended the run early. The results are then
	// about what was simulated up to there, and TraceHash is empty. A replication that
	// was under way has ended at one simulated time on all workers, its Reached: it is
	// what a run with that horizon would be.
	Interrupted bool

	// Full says that it was interrupted because its memory was used up; the error beside it is a *MemoryError.
	Full bool

	// TraceHash is a hash over everything that was handled, in total order.
	TraceHash string

	Replications []Replication // that were begun, by index
	Workers      []WorkerStats // summed over the replications
	Events       uint64        // handled, in all replications
	Activations  uint64        // calls of handlers
	WallSeconds  float64       // during which at least one replication was under way
	SetupSeconds float64       // everything else: starting workers, building nodes
	Phases       Phases

	Checkpoints *Checkpoints // nil: none were asked for
	Moves       *Moves       // nil: nodes stayed where they were
	Recoveries  []Recovery   // of RunRecovering
	Launch      *Launch      // as what RunRecovering ended: another one than was called where it went back; of SoFar
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

// writeInput writes what workers get of the scenario.
func (l *Launch) writeInput() error {
	defer shm.HugeHeap()()
	l.clock.enter(&l.clock.Write)
	if err := l.pack(); err != nil {
		return err
	}
	return l.shareInput()
}

// Run starts the workers and returns when all of them have ended. The error is a
// *WorkerError when one of them died or failed. One that did so when all results were
// there doesn't cost them: Run then returns the whole outcome beside the error. The end
// of ctx ends the run at once, with ErrEnded.
func (l *Launch) Run(ctx context.Context) (*Outcome, error) {
	began := time.Now()
	l.noteSpread()
	if l.cfg.begin("starting %d workers", l.Workers()) != nil {
		return &Outcome{Interrupted: true}, nil
	}
	defer l.releaseInput()
	if err := l.writeInput(); err != nil {
		return nil, err
	}
	l.keepMachines()
	schedule := newSchedule(l)
	l.soFar = l.newSoFar()
	if err := cmp.Or(l.openStore(ctx), l.loadFinished(ctx, schedule)); err != nil {
		return nil, err
	}
	end, err := l.openAnswers(ctx, false)
	defer end()
	if err != nil {
		return nil, err
	}
	if err := l.cfg.Replay.prepare(ctx, l); err != nil {
		return nil, err
	}
	l.clock.enter(&l.clock.Start)
	sets, err := l.startSets(ctx, schedule)
	defer func() {
		for _, ws := range sets {
			ws.release()
		}
	}()
	if err != nil {
		for _, ws := range sets {
			ws.supervisor.terminate(false)
		}
		if errors.Is(err, errNotBegun) {
			return l.outcome(schedule, nil)
		}
		return nil, err
	}
	failed := l.mismatched(l.postMortem(sets, l.withFolder(l.lead(ctx, sets, schedule))))
	written := l.writePerfetto(sets)
	l.wentOn, l.refused = schedule.first, schedule.first.IsZero() && errors.Is(failed, ErrConfig)
	if schedule.first.IsZero() && l.cfg.Loading == nil {
		failed = l.damagedBegin(ctx, failed)
	}
	if failed != nil && !delivered(failed) {
		if err := l.writeUnfinished(ctx, sets, schedule.available(),
			l.refused || isFileError(failed)); err != nil {
			failed = errors.Join(failed, err)
		}
		return nil, l.usedUp(nil, errors.Join(failed, written))
	}
	setup := time.Since(began) - schedule.wall
	if err := cmp.Or(written, l.writeTrace(ctx, schedule.available()),
		l.writeRecords(ctx, schedule.available())); err != nil {
		return nil, err
	}
	out, err := l.outcome(schedule, statsOf(sets))
	if err != nil {
		return nil, err
	}
	out.SetupSeconds, out.Checkpoints, out.Moves = setup.Seconds(), l.store.numbers(), l.moved(sets)
	l.clock.enter(nil)
	out.Phases = l.clock.Phases
	return out, l.usedUp(out, failed)
}

// noteSpread remarks on what the run is spread over, where that isn't what was asked for.
func (l *Launch) noteSpread() {
	if text := l.fewerWorkers(); text != "" {
		l.note(text)
	}
	if text := l.spinsInTurn(); text != "" {
		l.note(text)
	}
	for _, line := range l.machinesText {
		l.note(line)
	}
}

func statsOf(sets []*workerSet) (workers []WorkerStats) {
	for _, ws := range sets {
		workers = append(workers, ws.stats...)
	}
	return workers
}

// delivered reports whether an error is about a worker that had delivered all its results.
func delivered(err error) bool {
	var w *WorkerError
	return errors.As(err, &w) && w.Delivered
}

// startSets starts all worker sets. After an error, those that were started are returned too.
func (l *Launch) startSets(ctx context.Context, s *schedule) ([]*workerSet, error) {
	var sets []*workerSet
	proceed := func() error {
		select {
		case <-ctx.Done():
			return ErrEnded
		case <-l.cfg.Stop:
			return errNotBegun
		default:
		}
		for _, ws := range sets {
			if err := ws.supervisor.checkStarted(); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range l.sets {
		ws, err := l.newWorkerSet(i, s, proceed)
		if err != nil {
			return sets, err
		}
		sets = append(sets, ws)
	}
	return sets, nil
}

// lead leads all worker sets through their replications, and merges their results meanwhile.
// The first error ends them all, but for one of a set that had delivered all it had to.
func (l *Launch) lead(ctx context.Context, sets []*workerSet, s *schedule) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	merged := make(chan error, 1)
	go func() {
		err := s.merge()
		if err != nil {
			cancel()
		}
		merged <- err
	}()
	var ticking sync.WaitGroup
	defer ticking.Wait()
	defer cancel()       // before it is waited for
	if l.memory != nil { // but in tests
		l.memory.begin(sets)
		ticking.Go(func() { l.memory.watch(ctx, sets) })
	}
	if l.cfg.saves() {
		ticking.Go(func() { l.store.wallClock(ctx, l.cfg.Legs) })
		ticking.Go(func() { l.store.watch(ctx, l.timeouts.slowStore, l.note) })
	}
	if l.soFar != nil {
		ticking.Go(func() { l.soFar.watch(ctx, l.cfg.Legs) })
	}
	for _, ws := range sets {
		if ws.rebalancing != nil {
			ticking.Go(func() { ws.watchBalance(ctx) })
			defer cancel()
		}
	}
	errs := make(chan error)
	for _, ws := range sets {
		go func() { errs <- ws.lead(ctx) }()
	}
	var first error
	for range sets {
		err := <-errs
		if replaces(err, first) {
			first = err
		}
		if err != nil && !delivered(err) {
			cancel()
		}
	}
	l.cfg.doing("adding up the results")
	s.close(first != nil && !delivered(first))
	if err := <-merged; err != nil && (first == nil || delivered(first) || errors.Is(first, ErrEnded)) {
		return l.mergeError(err)
	}
	return first
}

// replaces reports whether an error says more about the end of a run than the one before it:
// one that costs results comes before one that doesn't, and both before the end of a worker
// set that the first error has brought about.
func replaces(err, before error) bool {
	switch {
	case err == nil:
		return false
	case before == nil:
		return true
	case delivered(before):
		return !delivered(err)
	}
	return errors.Is(before, ErrEnded) && !errors.Is(err, ErrEnded) && !delivered(err)
}

// largeTrace is how many bytes of records take so long to merge that the run says so.
const largeTrace = 64 << 20

func tracesOf(results []*result) []tracefile.Replication {
	traces := make([]tracefile.Replication, len(results))
	for i, r := range results {
		traces[i] = r.trace
	}
	return traces
}

// writeUnfinished writes the journal of a node of a run that has failed, up to the failure. The workers have ended.
// Other traces aren't written: what is missing of them isn't the end alone. Nor is that of a run that was refused, or
// has failed because it couldn't write it (none).
func (l *Launch) writeUnfinished(ctx context.Context, sets []*workerSet, results []*result, none bool) error {
	if l.cfg.Journal == nil || l.cfg.Journal.Node == "" || l.cfg.Trace == "" || ctx.Err() != nil || none {
		return nil
	}
	traces := tracesOf(results)
	for _, ws := range sets {
		mark, err := ws.trace.Mark()
		if err != nil {
			return err
		}
		traces = append(traces, tracefile.Replication{Index: ws.supervisor.stage.replication,
			Section: ws.trace.Section(ws.traceBegan, mark), Reached: math.Inf(1)})
	}
	traces = slices.DeleteFunc(traces, func(r tracefile.Replication) bool {
		return tracefile.Bytes([]tracefile.Replication{r}) == 0
	})
	slices.SortStableFunc(traces, func(a, b tracefile.Replication) int { return cmp.Compare(a.Index, b.Index) })
	if err := tracefile.Write(ctx, l.cfg.Trace, l.structure, traces); err != nil {
		return fmt.Errorf("launch: trace: %w", err)
	}
	return nil
}

// writeTrace writes the trace file, if one is wanted and something was simulated.
func (l *Launch) writeTrace(ctx context.Context, results []*result) error {
	if l.cfg.Trace == "" || len(results) == 0 {
		return nil
	}
	l.cfg.doing("writing the trace")
	traces := tracesOf(results)
	if size := tracefile.Bytes(traces); size > largeTrace && l.cfg.Stderr != nil {
		fmt.Fprintf(l.cfg.Stderr, "writing the trace of %d MiB of records to %s\n", size>>20, l.cfg.Trace)
	}
	err := tracefile.Write(ctx, l.cfg.Trace, l.structure, traces)
	switch {
	case err != nil && ctx.Err() != nil:
		return ErrEnded
	case err != nil:
		return fmt.Errorf("launch: trace: %w", err)
	}
	return nil
}

// eachRow gives the rows of a replication, each of which is a simproc's of this run.
func (l *Launch) eachRow(r *tracefile.Replication) func(yield func(r *node.Recorded) error) error {
	return func(yield func(r *node.Recorded) error) error {
		return r.EachRow(func(row *node.Recorded) error {
			if int64(row.Simproc) >= int64(l.structure.NumSimprocs()) {
				return fmt.Errorf("found a row of simproc %d, want one of 0 to %d", row.Simproc,
					l.structure.NumSimprocs()-1)
			}
			return yield(row)
		})
	}
}

// writeRecords hands over what handlers have recorded, if that is wanted and something was simulated.
func (l *Launch) writeRecords(ctx context.Context, results []*result) error {
	if l.cfg.Records == nil || len(results) == 0 {
		return nil
	}
	l.cfg.doing("writing the records")
	all := make([]RecordsOf, len(results))
	for i, r := range results {
		all[i] = RecordsOf{r.Index, r.Reached, l.eachRow(&r.trace)}
	}
	if err := l.cfg.Records.Write(ctx, all); err != nil && ctx.Err() != nil {
		return ErrEnded
	} else if err != nil {
		return fmt.Errorf("launch: records: %w", err)
	}
	return nil
}
