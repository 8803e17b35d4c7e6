// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/tracefile"
	"github.com/disco-sim/disco/internal/worker"
)

// workerSet is the workers that simulate a replication together. A run that distributes nodes
// has one set of all workers; one that distributes replications has sets of one worker,
// each of which takes the next replication from the schedule until none is left. The
// fields are used by the goroutine that leads the set.
type workerSet struct {
	launch     *Launch
	index      int // among the sets of the run
	schedule   *schedule
	plan       machine.Plan
	home       home
	trace      *tracefile.Files
	traceBegan int // mark behind which the replication's records are, -1: none
	supervisor *supervisor
	stats      []WorkerStats // by worker of the set
	cleanup    []func()      // called in reverse order
	begun      bool          // to simulate

	replicationBegan time.Time // to simulate

	clock *clock // of the run, for its first set

	rebalancing   *rebalancing // nil: nodes stay where they are
	placement     []int32      // by node: its worker
	legUntil      float64      // planned end of the last leg that has one
	checkpointing checkpointing
	committing    sync.WaitGroup
}

// newWorkerSet makes the memory of a set and starts its workers. proceed is called between
// two steps; its error ends the start.
func (l *Launch) newWorkerSet(index int, s *schedule, proceed func() error) (_ *workerSet, err error) {
	ws := &workerSet{launch: l, index: index, schedule: s, traceBegan: -1,
		stats: make([]WorkerStats, l.placement.Workers),
		clock: l.clock, plan: l.planOf(index)}
	ws.placement, ws.rebalancing = l.placement.Of, l.newRebalancing()
	if index > 0 {
		ws.clock = newClock(nil) // of no interest
	}
	defer func() {
		if err != nil {
			l.refused = l.refused || errors.Is(err, ErrConfig)
			ws.release()
		}
	}()
	for w := range ws.stats {
		ws.stats[w].Worker, ws.stats[w].Nodes = ws.number(w), l.placement.Nodes[w]
	}
	if ws.trace, err = tracefile.Open(l.recordPath(), l.placement.Workers); err != nil {
		return nil, err
	}
	ws.cleanup = append(ws.cleanup, ws.trace.Close)
	if err := ws.openFiles(); err != nil {
		return nil, err
	}
	if ws.home, err = l.makeHome(ws.plan, proceed); err != nil {
		return nil, err
	}
	ws.cleanup = append(ws.cleanup, func() { _ = ws.home.Close() }) // an error leaves nothing to be done
	if l.cfg.Tuning.HugePages && index == 0 {
		l.note(ws.home.Pages())
	}
	ws.supervisor = newSupervisor(newConnections(), boards{ws.home.Boards(), l.structure}, l)
	ws.supervisor.rebalancing, ws.supervisor.enough = ws.rebalancing, s.enoughCh
	if l.cfg.Progress != nil {
		ws.supervisor.onProgress = ws.updateProgress
	}
	if index == 0 {
		ws.supervisor.doing = l.cfg.doing
	}
	ws.startRecorder()
	ws.startLines()
	return ws, ws.start(proceed)
}

// release gives back what the set holds. Its workers have ended.
func (ws *workerSet) release() {
	for i := len(ws.cleanup) - 1; i >= 0; i-- {
		ws.cleanup[i]()
	}
	ws.cleanup = nil
}

// number is the number in the run of the set's worker w.
func (ws *workerSet) number(w int) int { return ws.index*ws.launch.placement.Workers + w }

// lead leads the set from its first message to the end of its last worker.
func (ws *workerSet) lead(ctx context.Context) error {
	err := ws.replications(ctx)
	if errors.Is(err, errNotBegun) {
		ws.supervisor.terminate(false) // what they are doing may take long, and is of no use
		return nil
	}
	if errors.Is(err, errEnough) {
		ws.supervisor.terminate(true)
		return nil
	}
	if err != nil {
		ws.supervisor.terminate(ctx.Err() == nil)
		return err
	}
	err = ws.supervisor.shutDown(ctx)
	if w := (*WorkerError)(nil); errors.As(err, &w) {
		w.Delivered = true
	}
	return err
}

// replications runs the protocol up to the last Done.
func (ws *workerSet) replications(ctx context.Context) error {
	s := ws.supervisor
	s.step("started")
	if _, err := s.request(ctx, ws.setup, worker.TypeReady); err != nil {
		return err
	}
	ws.home.Release() // the workers have theirs now
	if p := ws.launch.cfg.Loading; p != nil {
		return ws.load(ctx, p)
	}
	for !s.stopping {
		r, ok, later := ws.schedule.take()
		switch {
		case ok:
			if err := ws.replication(ctx, r); err != nil {
				return err
			}
		case later == nil:
			return nil
		default:
			s.stage = stage{PhasePrepare, ws.schedule.taken()}
			s.step("idle")
			if err := s.waitIdle(ctx, later); err != nil {
				return err
			}
		}
	}
	return nil
}

// replication runs one. A worker may fail when all have delivered their results: then these
// count, and the error says so if there are no more to come.
func (ws *workerSet) replication(ctx context.Context, r int) error {
	s := ws.supervisor
	if ws.launch.cfg.Replay.leaves(r) {
		return ws.left(r)
	}
	s.stage = stage{PhasePrepare, r}
	ws.clock.enter(&ws.clock.Wire)
	if !ws.begun {
		s.report("making %d nodes", ws.launch.structure.NumNodes())
	}
	p := &worker.Prepare{Replication: r}
	if err := ws.restore(ctx, r, p); err != nil {
		return err
	}
	until, err := ws.until(r, p.Epoch)
	if err != nil {
		return err
	}
	p.Until, p.Room = until, ws.launch.memory.ahead(ws)
	if _, err := s.request(ctx, toAll(&worker.Message{Type: worker.TypePrepare, Prepare: p}),
		worker.TypeReady); err != nil {
		return err
	}
	if s.askedToStop() { // since they were asked to get ready
		s.stop, s.stopping = nil, true
		return errNotBegun
	}
	s.stage.phase, s.last = PhaseRun, ws.launch.sets == 1 && ws.schedule.exhausted()
	if !ws.begun {
		ws.begun = true
		s.report("")
		if ready := ws.launch.cfg.Ready; ready != nil {
			ready()
		}
	}
	s.end = math.Inf(1)
	s.parts = newCollection(ws.launch.structure, ws.gatherer(r))
	ws.replicationBegan = time.Now()
	ws.schedule.begin(ws.index, r)
	ws.launch.soFar.active(ws.index, true)
	ws.clock.enter(&ws.clock.First)
	answers, failed := ws.simulate(ctx, r)
	ws.schedule.end(ws.index)
	ws.launch.soFar.active(ws.index, false)
	if errors.Is(failed, errLeft) {
		return ws.left(r)
	}
	if answers == nil {
		return failed
	}
	ws.clock.simulated(answers)
	res, err := ws.result(r, answers, time.Since(ws.replicationBegan))
	if err == nil {
		err = cmp.Or(ws.compareEnd(ctx, res), ws.endCheckpoints(ctx, res))
	}
	if err != nil {
		return err
	}
	ws.launch.soFar.add(res)
	if report := ws.launch.cfg.Phases; report != nil {
		r := res.Replication
		report(PhaseSpan{"replication", ws.replicationBegan, time.Now(), &r})
	}
	ws.schedule.add(res)
	if w := (*WorkerError)(nil); errors.As(failed, &w) {
		w.Delivered = s.stopping || ws.schedule.exhausted()
	}
	return failed
}

// gatherer is where the reports of replication r go as they come; nil: they are kept until all are there.
func (ws *workerSet) gatherer(r int) func(*worker.Results) {
	if ws.schedule.gatherer == nil {
		return nil
	}
	return func(p *worker.Results) { ws.schedule.gather(r, ws.supervisor.end, p) }
}

// toAll is the same message for every worker.
func toAll(m *worker.Message) func(int) *worker.Message {
	return func(int) *worker.Message { return m }
}

// setup is the first message to the set's worker index.
func (ws *workerSet) setup(index int) *worker.Message {
	l := ws.launch
	setup := &worker.Setup{
		Worker:     index,
		Workers:    l.placement.Workers,
		First:      ws.plan.First,
		Horizon:    l.cfg.Horizon,
		Series:     l.cfg.Series,
		Records:    l.keepsRows() && l.cfg.Replay == nil,
		Seed:       l.cfg.Seed,
		Tuning:     l.tuning(),
		Journal:    l.journal,
		Calls:      l.keepsCalls(),
		Spans:      l.cfg.Perfetto != "",
		Whole:      l.cfg.Replay != nil,
		GroupNodes: l.groupNodes(),
		Run:        l.run().String(),
		// Workers that share a process yield to each other, and have one CPU time.
		OneProcess: l.cfg.Transport == TransportInproc,
		Crowded:    l.crowded(&ws.plan, ws.plan.Machine[index]),
		Delay:      l.delay(&ws.plan),
		HeapBytes:  l.heapBytes(index),
	}
	if ws.rebalancing != nil {
		setup.Shards = ws.rebalancing.of
		if l.cfg.Rebalance.Every == 0 {
			setup.ShardsHalf = recentSeconds
		}
	}
	if l.traced() {
		setup.Trace = l.recordPath()
	}
	ws.plan.List(setup)
	return &worker.Message{Type: worker.TypeSetup, Setup: setup}
}

// tuning is that of each worker.
func (l *Launch) tuning() worker.Tuning {
	t := l.cfg.Tuning
	if t.Resident > 0 {
		t.Resident = max(1, t.Resident/int64(l.sets)) // each set has all nodes
	}
	return t
}

// heapBytes is what the process of a set's worker is expected to take of its heap. Workers of one process have one.
func (l *Launch) heapBytes(index int) int64 {
	if l.cfg.Tuning.Resident > 0 {
		return 0 // memory is short
	}
	all := l.footprint.heaps(l.placement.Nodes)
	if l.cfg.Transport != TransportInproc {
		return int64(all[index])
	}
	if index > 0 {
		return 0
	}
	sum := 0.0
	for _, bytes := range all {
		sum += bytes
	}
	return int64(sum)
}

// updateProgress records how far the set is.
func (ws *workerSet) updateProgress() {
	now, events := ws.supervisor.boards.progress()
	ws.schedule.update(ws.index, now, events, ws.supervisor.boards.waits())
}

// result puts together what the set's workers report about replication r.
func (ws *workerSet) result(r int, answers []*worker.Message, wall time.Duration) (*result, error) {
	l, collected := ws.launch, ws.supervisor.parts
	ws.supervisor.parts = nil
	res := &result{
		Replication: Replication{Index: r, Reached: math.Inf(1), WallSeconds: wall.Seconds()},
		parts:       collected.reports,
	}
	for w, a := range answers {
		d := a.Done
		res.Interrupted = res.Interrupted || d.Interrupted
		res.Reached = min(res.Reached, d.Reached)
		res.Events += d.Events
		res.Activations += d.Activations
		ws.stats[w].add(d)
		l.memory.done(d)
	}
	if !res.Interrupted {
		res.Reached = l.scenario.Horizon()
	}
	// Reports were taken as those of a replication that ends there.
	if want := min(ws.supervisor.end, l.scenario.Horizon()); collected.pass != nil && res.Reached != want {
		return nil, fmt.Errorf("launch: the workers have simulated up to %v s, want %v s: a defect of disco",
			res.Reached, want)
	}
	if base := ws.checkpointing.base; base != nil {
		res.Events, res.Activations = res.Events+base.Events, res.Activations+base.Activations
	}
	var err error
	if res.hash, err = collected.traceHash(); err != nil {
		return nil, err
	}
	res.TraceHash = runHash([][]byte{res.hash})
	if l.cfg.Checkpoint != nil {
		res.hashes = collected.hashes
	}
	mark, err := ws.trace.Mark()
	if err != nil {
		return nil, err
	}
	res.trace = tracefile.Replication{Index: r, Section: ws.trace.Section(ws.traceBegan, mark), Reached: res.Reached,
		Before: ws.checkpointing.traceBefore, RowsBefore: ws.checkpointing.rowsBefore}
	ws.traceBegan = mark
	return res, nil
}

// add sums up what a worker reports after each replication.
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
	s.OutsideSeconds += d.Stats.OutsideSeconds
	s.Externals += d.Stats.Externals
	s.ExternalsRecorded += d.Stats.ExternalsRecorded
	s.Left += d.Stats.Left
	s.Came += d.Stats.Came
	s.WrittenBytes += d.Stats.WrittenBytes
	s.ReadBytes += d.Stats.ReadBytes
	s.FileBytes = max(s.FileBytes, d.Stats.FileBytes)
	s.MostInMemory = max(s.MostInMemory, d.Stats.MostInMemory)
}
