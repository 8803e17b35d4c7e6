// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/cputime"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/spans"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// Attach gives a worker the segments that its Setup speaks of, and its files. What it returns stays the giver's to
// close.
type Attach func(*Setup) (Segments, Files, error)

// Serve runs the protocol of control.go on ctl until Exit, the stream's end, or an
// error, which it also reports to the launcher. It may be called once in a process or
// several times in different goroutines.
func Serve(ctl io.ReadWriteCloser, reg scenario.Registry, attach Attach) error {
	defer ctl.Close()
	s := &server{ctl: ctl, inbox: make(chan *Message, 4), ask: make(chan struct{}, 1), answered: make(chan struct{})}
	err := s.serve(reg, attach)
	if err != nil && !errors.Is(err, ErrLauncherGone) {
		// Reported before the lanes close, so that the launcher learns the root cause before it
		// learns of peers that found a lane closed. If the launcher is gone too, the error
		// reaches it through our exit.
		_ = s.write(&Message{Type: TypeFailed, Failed: &Failed{Error: err.Error(), Peer: errors.Is(err,
			lane.ErrClosed), Wrong: errors.Is(err, errWrong), File: isFileError(err)}})
	}
	if s.run != nil {
		ctl.Close()
		for range s.inbox { // until the reader has ended: it rings bells
		}
		<-s.answered // likewise
		err = errors.Join(err, s.run.close())
	}
	return err
}

type server struct {
	ctl      io.ReadWriteCloser
	inbox    chan *Message // closed at the stream's end
	run      *replications // immutable once the reader has started
	ask      chan struct{} // closed at the stream's end: the launcher asks for a Status
	answered chan struct{} // closed when answerAsks has ended
	mu       sync.Mutex    // guards writing: a Status may come beside an answer
	frame    []byte        // guarded by mu: memory for what is written
}

func (s *server) write(m *Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.frame, err = writeMessage(s.ctl, m, s.frame); cap(s.frame) > 2*resultsBytes {
		s.frame = nil // one large report
	}
	return err
}

// answerAsks answers Ask, one after the other, until the stream ends.
func (s *server) answerAsks() {
	defer close(s.answered)
	for range s.ask {
		status := s.run.status()
		_ = s.write(&Message{Type: TypeStatus, Status: &status}) // a launcher that is gone ends the reader
	}
}

// hasThread says that the cycle has a thread of its own, because it sleeps in the kernel and
// may be bound to a CPU. Goroutines that share one process yield to each other much faster
// without.
func hasThread(setup *Setup) bool { return !setup.OneProcess || setup.Tuning.Pin }

func (s *server) serve(reg scenario.Registry, attach Attach) error {
	first, err := ReadMessage(s.ctl)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLauncherGone, err)
	}
	if first.Type != TypeSetup {
		return fmt.Errorf("worker: first message is %q, want %q", first.Type, TypeSetup)
	}
	if hasThread(first.Setup) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	// A model that writes into memory which it got for reading is to be named, like one
	// that panics by itself.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	shm.ReserveHeap(first.Setup.HeapBytes)
	run, err := newReplications(first.Setup, reg, attach)
	if err != nil {
		return err
	}
	s.run = run
	if m, ok := run.scenario.(scenario.Ender); ok && first.Setup.OneProcess {
		defer m.End()
	}
	s.connect(run)
	go s.read()
	go s.answerAsks()
	if err := s.send(&Message{Type: TypeReady}); err != nil {
		return err
	}
	for m := range s.inbox {
		answer, err := s.handle(m)
		if err != nil {
			return err
		}
		if answer == nil {
			return nil // Exit
		}
		if err := s.send(answer); err != nil {
			return err
		}
	}
	return ErrLauncherGone
}

// send is write, whose error says that there is no launcher any more.
func (s *server) send(m *Message) error {
	if err := s.write(m); err != nil {
		return fmt.Errorf("%w: %w", ErrLauncherGone, err)
	}
	return nil
}

// connect has all parts of the worker that send messages by themselves send them here.
func (s *server) connect(run *replications) {
	run.cycle.stop.answer = func(a Stopped) error { return s.send(&Message{Type: TypeStopped, Stopped: &a}) }
	run.sendResults = func(p *Results) error { return s.send(&Message{Type: TypeResults, Results: p}) }
	run.sendSpans = func(p *spans.Report) error { return s.send(&Message{Type: TypeSpans, Spans: p}) }
	if run.moves != nil {
		run.moves.send = func(p *Moved) error { return s.send(&Message{Type: TypeMoved, Moved: p}) }
	}
	if run.saver != nil {
		run.saver.send = func(p *Stored) error { return s.send(&Message{Type: TypeStored, Stored: p}) }
	}
	if o := run.cycle.outside; o != nil {
		o.send = func(m *External) error { return s.send(&Message{Type: TypeExternal, External: m}) }
	}
}

// read receives messages beside the cycle, so that Stop, Limit and the stream's end
// reach it while it works.
func (s *server) read() {
	defer close(s.inbox)
	defer close(s.ask)
	for {
		m, err := ReadMessage(s.ctl)
		if err != nil {
			s.run.cycle.gone.Store(true)
			s.run.wake()
			if o := s.run.cycle.outside; o != nil {
				o.end()
			}
			return
		}
		switch m.Type {
		case TypeStop:
			s.run.cycle.stop.asked.Add(1)
			s.run.wake()
			continue
		case TypeAsk:
			select {
			case s.ask <- struct{}{}:
			default: // the last one isn't answered yet
			}
			continue
		case TypeRecorded:
			s.run.cycle.outside.take(m.Recorded)
			continue
		case TypeLimit:
			s.run.cycle.stop.limit.Store(m.Limit)
			s.run.wake()
			continue
		}
		s.inbox <- m
		if m.Type == TypeExit {
			return
		}
	}
}

func (s *server) handle(m *Message) (*Message, error) {
	switch m.Type {
	case TypePrepare:
		return &Message{Type: TypeReady}, s.run.prepare(m.Prepare)
	case TypeSave:
		return &Message{Type: TypeReady}, s.run.save(m.Save)
	case TypeLeg:
		return &Message{Type: TypeReady}, s.run.leg(m.Leg)
	case TypeMove:
		return &Message{Type: TypeReady}, s.run.handOver(m.Move)
	case TypeLoad:
		return &Message{Type: TypeReady}, s.run.take(m.Load)
	case TypeReport:
		answer, err := s.run.reportSoFar()
		return &Message{Type: TypeReported, Reported: answer}, err
	case TypeGo:
		return s.run.simulate()
	case TypeExit:
		return nil, nil
	}
	return nil, fmt.Errorf("worker: message %q out of place, want %q, %q, %q or %q", m.Type, TypePrepare, TypeLeg,
		TypeGo, TypeExit)
}

// traceFile is the temporary file that a worker writes its part of a trace to. Its errors
// name the trace, because the file has no name.
type traceFile struct {
	file *os.File
	name string
}

// Write implements io.Writer.
func (t *traceFile) Write(b []byte) (int, error) {
	n, err := t.file.Write(b)
	if err != nil {
		err = &fileError{t.name, err}
	}
	return n, err
}

// replications is a worker between Setup and Exit: what serves all replications.
type replications struct {
	setup       *Setup
	scenario    scenario.Scenario
	plan        *node.Plan
	cycle       *cycle
	sendResults func(*Results) error // sends results; doesn't keep them
	sendSpans   func(*spans.Report) error
	trace       tracer
	rows        *trace.RowWriter // nil: what handlers record isn't kept
	calls       *callWriter      // nil: no journal of activations is kept
	saver       *saver           // nil: no checkpoints are made
	moves       *moves           // nil: nodes stay where they are
	restore     *os.File         // what a replication begins with; nil: it has no such file
	replication int              // that was prepared
	variant     bool             // Prepare.Variant of it
	cpu         float64          // cpuSeconds when the replication began to be simulated
	scratch     *scratch         // nil: all nodes are in memory
	guard       *shm.Guard       // checked build; nil in the plain one
}

// tracer is what a trace is written with.
type tracer interface {
	node.Tracer
	Flush() error
}

func newReplications(setup *Setup, reg scenario.Registry, attach Attach) (*replications, error) {
	if err := setup.check(); err != nil {
		return nil, err
	}
	segs, files, err := attach(setup)
	if err != nil {
		return nil, err
	}
	if segs.Input == nil || segs.Input.Placed == nil {
		return nil, errors.New("worker: the input or its graph is missing")
	}
	sc, err := segs.Input.load(reg, scenario.Options{Horizon: setup.Horizon, Series: setup.Series})
	if err != nil {
		return nil, err
	}
	plan, err := newPlan(segs.Input.Placed, setup)
	if err != nil {
		return nil, err
	}
	r := &replications{setup: setup, scenario: sc, plan: plan, restore: files.Restore}
	if r.moves, err = newMoves(plan, setup); err != nil {
		return nil, err
	}
	if files.Spool != nil {
		r.saver = newSaver(plan, setup.GroupNodes, files.Spool, nil, time.Now)
		r.saver.knows(sc)
	}
	if files.Trace != nil && setup.Trace != "" {
		if to := (&traceFile{files.Trace, setup.Trace}); setup.Journal.On {
			r.trace = trace.NewJournal(to, setup.Journal.Selection)
		} else {
			r.trace = trace.NewWriter(to)
		}
	}
	if files.Trace != nil && setup.Records {
		r.rows = trace.NewRowWriter(&traceFile{files.Trace, "records"})
	}
	if r.scratch, err = openScratch(setup); err != nil {
		return nil, err
	}
	if r.cycle, err = newCycle(plan, setup, segs); err != nil {
		return nil, errors.Join(err, r.scratch.close())
	}
	if a, ok := sc.(scenario.Asker); ok && len(a.Externals()) > 0 {
		if r.cycle.outside, err = newOutside(r.cycle, a.Externals(), setup.Run, r.wake); err != nil {
			return nil, errors.Join(err, r.cycle.lanes.close(), r.scratch.close())
		}
	}
	r.cycle.samples, r.cycle.saver = newSamples(r.moves, setup), r.saver
	r.record()
	if invariants.Enabled {
		if r.guard, err = shm.NewGuard(); err != nil {
			return nil, errors.Join(fmt.Errorf("worker: %w", err), r.cycle.lanes.close(), r.scratch.close())
		}
	}
	if err = r.pin(); err == nil && files.Trace != nil && setup.Calls {
		r.calls = newCallWriter(files.Trace, setup.Whole)
	}
	return r, err
}

// check refuses what no launcher asks for.
func (s *Setup) check() error {
	if err := s.Tuning.Validate(); err != nil {
		return err
	}
	if s.Workers < 1 || s.Workers > WorkersMax || s.Worker < 0 || s.Worker >= s.Workers {
		return fmt.Errorf("worker: set up as worker %d of %d, want at most %d", s.Worker, s.Workers, WorkersMax)
	}
	if err := s.checkMachines(); err != nil {
		return err
	}
	if s.First < 0 {
		return fmt.Errorf("worker: set up behind %d workers of the same launcher, want 0 or more", s.First)
	}
	if s.GroupNodes < 0 {
		return fmt.Errorf("worker: set up with groups of %d nodes, want 0 or more", s.GroupNodes)
	}
	return nil
}

// newPlan works out the plan of one worker.
func newPlan(placed *node.Placed, setup *Setup) (*node.Plan, error) {
	if placed.Workers() != setup.Workers {
		return nil, fmt.Errorf("worker: the nodes are placed on %d workers, want %d", placed.Workers(), setup.Workers)
	}
	plan, err := placed.Plan(setup.Worker, nil)
	if err == nil && setup.Tuning.Sync == SyncLink {
		err = plan.PromiseByLink()
	}
	return plan, err
}

// pin binds the worker's thread to a CPU when that was asked for.
func (r *replications) pin() error {
	if !r.setup.Tuning.Pin {
		return nil
	}
	cpus, err := shm.CPUs()
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if err := shm.SetAffinity(cpus[(r.setup.First+r.setup.Worker)%len(cpus)]); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// wake makes the cycle look at the flags that the control goroutine has set.
func (r *replications) wake() {
	r.cycle.lanes.bell.Ring()
	r.cycle.lanes.feed.bell().Ring()
}

// prepare makes the Engine of one replication and resets what this worker writes into
// its lanes. All workers are prepared before any of them runs.
func (r *replications) prepare(p *Prepare) error {
	c := r.cycle
	defer c.spans.during(c, spans.Prepare)()
	if r.saver != nil {
		r.saver.reset(r.setup.roomOf(p))
	}
	if err := r.cycle.lanes.reset(); err != nil {
		return err
	}
	if c.outside != nil {
		c.outside.prepare(p)
	}
	r.variant = p.Variant
	r.calls.flush()
	cfg := r.config(p.Replication)
	if p.Restore {
		cfg.Resume = resume(p, r.restore, r.plan.NumNodes())
	}
	if err := r.scratch.empty(); err != nil {
		return err
	}
	cfg.Resident = r.scratch.resident(r.setup.Tuning.Resident, r.plan)
	e, err := node.NewEngine(r.plan, cfg)
	if err == nil && (r.saver != nil || r.moves != nil) {
		err = e.CheckState()
	}
	if err != nil {
		return r.wrongUse(err, p.Restore)
	}
	if err := r.calls.replication(r.plan, p.Epoch); err != nil {
		return err
	}
	r.replication = p.Replication
	c.start(e, r.scenario.Horizon())
	c.counters.At(showReplications).Set(uint64(p.Replication) + 1)
	return c.endLeg(untilOf(p.Until))
}

// config is that of an Engine for a replication.
func (r *replications) config(replication int) node.Config {
	c := r.cycle
	cfg := node.Config{
		Model: r.scenario, Seed: r.setup.Seed, Replication: replication, SharedFirst: r.variant,
		Horizon: r.scenario.Horizon(), Port: c, Release: c.lanes.feed.release,
		Runtime: goRuntime{locked: hasThread(r.setup)},
	}
	if r.guard != nil {
		cfg.Guard = r.guard
	}
	if r.trace != nil {
		cfg.Trace, cfg.Fleeting = r.trace, r.setup.Journal.Fleeting
	}
	if r.rows != nil {
		cfg.Records = &r.rows.Log
	}
	if r.calls != nil {
		cfg.Calls = &r.calls.log
	}
	if !r.setup.OneProcess { // the launcher examines processes only
		cfg.CallOf, cfg.CallAt = c.counters.At(showCallOf).Word(), c.counters.At(showCallAt).Word()
		*cfg.CallOf, *cfg.CallAt = 0, 0
	}
	if c.outside != nil {
		cfg.Outside = c.outside
	}
	return cfg
}

// save makes this worker's part of a checkpoint, between two legs.
func (r *replications) save(m *Save) error {
	if r.saver == nil || r.cycle.engine == nil {
		return errors.New("worker: save without prepare, or without a spool")
	}
	defer r.cycle.spans.during(r.cycle, spans.Save)()
	return r.saver.save(r.cycle.engine, m, r.calls.failed())
}

// simulate runs a leg of the prepared replication. Its answer is Saved, or that of the last leg, Done.
func (r *replications) simulate() (*Message, error) {
	c := r.cycle
	if c.engine == nil {
		return nil, errors.New("worker: go without prepare")
	}
	if c.went.IsZero() {
		r.cpu = r.cpuSeconds()
		c.ledger.start(c.now)
		c.went = c.ledger.since
		c.spans.run(r.replication, c.went)
	}
	c.spans.goOn(c)
	c.lanes.feed.listen(true)
	err := c.run()
	c.lanes.feed.listen(false)
	if err != nil {
		return nil, err
	}
	r.calls.flush()
	if err := r.calls.incomplete(); err != nil {
		return nil, err
	}
	if c.held() {
		return r.saved(), errors.Join(r.flush(), r.passSpans()) // the launcher may take it up to here
	}
	done, err := r.done()
	if err == nil {
		c.spans.endRun(c)
		err = r.passSpans()
	}
	return &Message{Type: TypeDone, Done: done}, err
}

// flush writes what there is of the trace, and of what handlers have recorded.
func (r *replications) flush() (err error) {
	if r.trace != nil {
		err = r.trace.Flush()
	}
	if r.rows != nil {
		err = errors.Join(err, r.rows.Flush())
	}
	return err
}

// done gathers the results of the replication.
func (r *replications) done() (*Done, error) {
	c := r.cycle
	d := &Done{Interrupted: c.horizon < r.scenario.Horizon(), Reached: c.horizon, First: c.first,
		Stats: c.stats}
	if err := r.report(d.Reached, c.engine.EachReport); err != nil {
		return nil, err
	}
	if d.Interrupted {
		for _, w := range c.engine.Largest(LargestMax) {
			d.Largest, d.Pending = append(d.Largest, uint32(w.Simproc)), append(d.Pending, w.Pending)
		}
	}
	s := c.engine.Stats()
	d.Events, d.Activations = s.Events, s.Activations
	d.Stats.CPUSeconds = r.cpuSeconds() - r.cpu
	d.Stats.Sent, d.Stats.Received = c.before.Sent+s.Sent, c.before.Received+s.Received
	blocks, parts := c.lanes.largePayloads()
	d.Stats.InBlocks, d.Stats.InParts = blocks-c.blocksBefore, parts-c.partsBefore
	d.Stats.Parks = c.waiter.Stats().Parked - c.parksBefore
	if err := r.flush(); err != nil {
		return nil, err
	}
	p := c.engine.Passive()
	d.Stats.Passive = Passive{p.Left, p.Came, p.Written, p.Read, p.FileBytes, p.Most}
	c.charge(&d.Stats)
	return d, nil
}

// eachReport is Engine.EachReport or EachReportSoFar.
type eachReport func(reached float64, yield func(id node.SimprocID, hash uint64, report []byte) error) error

// report sends the results of all simprocs in parts.
func (r *replications) report(reached float64, each eachReport) error {
	var p Results
	err := each(reached, func(id node.SimprocID, hash uint64, report []byte) error {
		if p.bytes()+len(report) > resultsBytes && len(p.Simprocs) > 0 {
			if err := r.sendResults(&p); err != nil {
				return err
			}
			p.clear()
		}
		p.add(id, hash, report)
		return nil
	})
	if err != nil {
		return err
	}
	return r.sendResults(&p)
}

func (r *replications) close() error {
	if r.saver != nil {
		r.saver.close()
	}
	if r.cycle.outside != nil {
		r.cycle.outside.close()
	}
	r.calls.close()
	err := errors.Join(r.cycle.lanes.close(), r.scratch.close())
	if r.guard != nil {
		err = errors.Join(err, r.guard.Close())
	}
	return err
}

// cpuSeconds is the processor time that this worker's process has used. Workers that
// share a process have one processor time: the first of them reports it.
func (r *replications) cpuSeconds() float64 {
	if r.setup.OneProcess && r.setup.Worker > 0 {
		return 0
	}
	return cputime.Self()
}

// start makes the cycle ready for one replication.
func (c *cycle) start(e *node.Engine, horizon float64) {
	c.withdraw()
	c.engine, c.horizon, c.until = e, horizon, math.Inf(1)
	c.ask.engine.Store(e)
	c.jumped, c.ended = node.Bound{Epoch: math.Inf(-1)}, false
	c.stop.renew()
	clear(c.published)
	c.stats, c.before, c.first, c.went = Stats{}, node.Stats{}, 0, time.Time{}
	c.parksBefore = c.waiter.Stats().Parked
	c.blocksBefore, c.partsBefore = c.lanes.largePayloads()
	c.stuckSince = time.Time{}
	c.ledger.start(c.now)
	if c.samples != nil {
		c.samples.worked = 0
		c.samples.reset()
	}
	c.counters.At(showRoomAt).SetFloat(math.Inf(1))
	c.shows.start(c.now())
	c.startLead()
	c.show()
}
