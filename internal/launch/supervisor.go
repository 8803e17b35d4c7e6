// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/disco-sim/disco/internal/spans"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// timeouts are what a supervisor allows. A run that fails is over, with nothing left of
// it, within collect + lastExit + end and what the system takes to end processes.
type timeouts struct {
	// collect is how long reports are still collected after the first failure, so that a
	// death is found to be the cause, and not a peer's error that follows from it.
	collect time.Duration

	// lastExit is how long beyond that a process may take to end that has reported an error
	// or closed its control stream: it is exiting, and how it does is part of the cause.
	lastExit time.Duration

	// end is how long workers may take to end by themselves after a failure, once
	// their control streams are closed. It lets them finish their profiles.
	end time.Duration

	// stop is how long workers may take to answer Stop, when the handler that is being
	// called has to return, and then how long they may take without handling anything on
	// their way to the common end, where every simproc reports.
	stop time.Duration

	// outside is how long instead, where a handler waits for an answer of the outside world.
	outside time.Duration

	// silence is how much longer, over several machines: nothing may have come from one of them for so long until
	// that is known (supervisor.away).
	silence time.Duration

	// stopTotal is how long they may take altogether.
	stopTotal time.Duration

	// exit is how long workers may take to end after Exit, when all results are in.
	exit time.Duration

	// slowStore is after how long it is said that a checkpoint isn't written.
	slowStore time.Duration

	// killed is how long killed processes, and goroutines that can't be killed, are
	// waited for.
	killed time.Duration

	// asked is the same where the run was asked to end: somebody waits for that. Killed processes end by
	// themselves, even without this one; a goroutine ends with what it is doing, or with this process.
	asked time.Duration

	// progress is the time between two calls of Config.Progress.
	progress time.Duration
}

// reportTime is what a simproc's report may take from the model to the launcher, on
// average.
const reportTime = 20 * time.Microsecond

// defaultTimeouts keeps the end of a run that was interrupted within two seconds, unless
// its results are large.
func defaultTimeouts(simprocs int) timeouts {
	return timeouts{
		collect:   100 * time.Millisecond,
		lastExit:  700 * time.Millisecond,
		end:       300 * time.Millisecond,
		stop:      1200*time.Millisecond + time.Duration(simprocs)*reportTime,
		outside:   10 * time.Second,
		stopTotal: 30 * time.Second,
		exit:      10 * time.Second,
		slowStore: slowCheckpoint,
		killed:    5 * time.Second,
		asked:     50 * time.Millisecond,
		progress:  200 * time.Millisecond,
	}
}

// timeouts are those of a run with so many simprocs.
func (cfg *Config) timeouts(simprocs int) timeouts {
	t := defaultTimeouts(simprocs)
	if cfg.Machines != nil {
		t.silence = cfg.Machines.Network().Silence
	}
	return t
}

// stage is what a worker set is at.
type stage struct {
	phase       Phase
	replication int
}

// boardReader is what the boards of a worker set show. Everything that it returns was written
// by a worker and may be out of date, or wrong.
type boardReader interface {
	// reached is how far a worker has come in this replication; false: it has just begun, or
	// its board can't be read.
	reached(index int) (epoch float64, ok bool)

	// lastCall is the handler that a worker called last; empty: none, or that isn't known.
	lastCall(index int) (simproc string, epoch float64)

	// loads are what waits on each worker, and what the run takes of its machine.
	loads() []load

	// progress is how far all workers are, and how many events they have handled.
	progress() (epoch float64, events uint64)

	// waits is what all workers do at the moment.
	waits() Waits

	// gathering reports whether all workers gather their results.
	gathering() bool

	// outside reports whether a handler of one waits for an answer of the outside world.
	outside() bool
}

// supervisor leads the workers of one set through the protocol of worker/control.go and ends
// them, whatever happens. One goroutine uses it.
type supervisor struct {
	conns    *connections
	states   states
	boards   boardReader
	watchdog watchdog
	timeouts timeouts

	stage       stage           // what the workers were asked for last
	want        answerTypes     // that are waited for; 0: none
	stop        <-chan struct{} // closed or nil: see Launch.stop
	configStop  <-chan struct{} // Config.Stop, which closes stop a little later
	enough      <-chan struct{} // closed: no result of this replication is wanted; nil: it never is
	stopping    bool            // Stop was asked for
	waited      bool            // … and the outside was waited for, in vain
	last        bool            // no replication follows, here or in another set
	gathered    bool            // it was reported that results are collected
	parts       *collection     // of the replication under way; nil: nobody reports
	soFar       *collection     // of what is reported before the end; nil: nothing is
	end         float64         // of that replication, once anybody reports; +Inf: its horizon
	legs        *Legs           // nil: a replication is one leg
	saves       bool            // a run that is to end is saved before
	saving      *saving         // workers may describe their parts of it; nil: of none
	onStored    func()          // called when one has
	lines       []*spans.Lines  // by worker: what it was at; nil: that isn't recorded
	recorder    *recorder       // of what the outside world answers; nil: nothing is kept
	rebalancing *rebalancing    // workers may hand nodes over while its incoming isn't nil; nil: never
	legBegan    float64         // epoch at which the leg under way began
	legWait     time.Duration   // after which the last attempt to end one now was tried again; 0: it did end
	progress    *time.Ticker    // nil: no replication has run

	note       func(string)                     // prints a remark that isn't an error
	doing      func(format string, args ...any) // see Config.Doing; nil for a set that says nothing
	away       func() bool                      // machines are cut off, or silent: what comes from them comes later
	onProgress func()                           // called now and then while a replication runs; nil for none
	onStep     func(s *supervisor, step string) // for tests: called at every step of the protocol; nil for none
}

func newSupervisor(cs *connections, boards boardReader, l *Launch) *supervisor {
	return &supervisor{
		conns: cs, boards: boards, timeouts: l.timeouts,
		stop: l.stop(), configStop: l.cfg.Stop, note: l.note, onStep: l.onStep,
		legs: l.cfg.Legs, saves: l.cfg.saves(),
		watchdog: newWatchdog(cs, boards, l), away: l.away,
	}
}

// add takes on a worker that was started. wait returns when it has ended.
func (s *supervisor) add(c *connection, wait func() workerproc.Exit) {
	s.states.workers = append(s.states.workers, state{})
	s.conns.add(c, wait)
}

// errNotBegun ends a request to workers that only get ready, or have come no further than epoch 0, when the run is to
// stop: there is nothing to wait for.
var errNotBegun = errors.New("launch: stopped before it began")

// errEnough ends a request to workers whose replication is behind the last that is wanted (Config.Enough).
var errEnough = errors.New("launch: there are enough replications")

// report calls doing.
func (s *supervisor) report(format string, args ...any) {
	if s.doing != nil {
		s.doing(format, args...)
	}
}

// reportGathering says that results are collected, as soon as that is all that is left to be done; of a run that was
// stopped also how far it has come.
func (s *supervisor) reportGathering(r *stopRequest) {
	if !s.stopping && !s.last || s.gathered || !s.boards.gathering() {
		return
	}
	s.gathered = true
	if r.limited && !r.leg && r.epoch < math.MaxFloat64 {
		_, events := s.boards.progress()
		s.report("collecting the results of %d events up to %.6g simulated seconds", events, r.epoch)
		return
	}
	s.report("collecting the workers' results")
}

// step calls the test's function at a step of the protocol.
func (s *supervisor) step(name string) {
	if s.onStep != nil {
		s.onStep(s, name)
	}
}

// request sends a message to every worker and waits for everybody's answer, of a type in want.
// An error is final: the workers must be ended. Answers come with it when a worker has
// failed after all of them were there.
func (s *supervisor) request(
	ctx context.Context, msg func(index int) *worker.Message, want ...worker.MessageType,
) ([]*worker.Message, error) {
	s.want = answersOf(want)
	for i, c := range s.conns.workers {
		s.states.ask(i)
		if err := c.send(msg(i)); err != nil {
			return nil, err
		}
	}
	s.step("sent, waiting for " + s.want.String())
	runs := s.want.has(worker.TypeDone)
	end, endLeg, progress := s.signals(runs)
	s.watchdog.begin(s.stage, func(index int) bool { return s.states.workers[index].answer == nil })
	watch := time.NewTicker(s.watchdog.period())
	defer watch.Stop()
	var stop stopRequest
	defer stop.close()
	if runs && s.stopping { // asked for when the last leg had ended on a worker
		if err := s.sendStop(&stop); err != nil {
			return nil, err
		}
	}
	for !s.states.answered() {
		select {
		case <-ctx.Done():
			return nil, ErrEnded
		case <-s.enough:
			return nil, errEnough
		case <-end:
			s.stop, end, s.stopping = nil, nil, true
			if !runs {
				return nil, errNotBegun
			}
			if err := s.sendStop(&stop); err != nil {
				return nil, err
			}
		case <-endLeg:
			endLeg = s.legs.asked()
			if err := s.stopLeg(&stop); err != nil {
				return nil, err
			}
		case <-stop.ticks():
			if err := s.checkStop(&stop); err != nil {
				return nil, err
			}
		case <-progress:
			if s.onProgress != nil {
				s.onProgress()
			}
			s.reportGathering(&stop)
		case <-watch.C:
			if err := s.watchdog.check(); err != nil {
				return nil, err
			}
		case r := <-s.conns.reports:
			if !s.handleReport(r) {
				err := s.collectFailures(ctx)
				return s.states.answers(), err
			}
			if err := s.sendLimit(&stop); err != nil {
				return nil, err
			}
		}
	}
	s.step("received " + s.want.String())
	return s.states.answers(), nil
}

// signals are what a request heeds beside the workers: what asks for the end of the run and of the leg, and the times
// to show progress. Between two legs nothing of that is looked at: the next one begins at once.
func (s *supervisor) signals(runs bool) (end, endLeg <-chan struct{}, progress <-chan time.Time) {
	if !runs {
		if s.stage.phase != PhaseRun {
			end = s.stop
		}
		return end, nil, nil
	}
	if s.legs != nil {
		endLeg = s.legs.asked()
	}
	if s.progress == nil { // not for each leg, which may be shorter than its period
		s.progress = time.NewTicker(s.timeouts.progress)
	}
	return s.stop, endLeg, s.progress.C
}

// waitIdle waits while there is nothing to ask of the workers: until ready is closed, or Stop.
func (s *supervisor) waitIdle(ctx context.Context, ready <-chan struct{}) error {
	s.want = 0
	for {
		select {
		case <-ctx.Done():
			return ErrEnded
		case <-s.stop:
			s.stop, s.stopping = nil, true
			return nil
		case <-ready:
			return nil
		case r := <-s.conns.reports:
			if !s.handleReport(r) {
				return s.collectFailures(ctx)
			}
		}
	}
}

// handleReport records a report. It returns false for a failure: anything but a message that
// the protocol allows now.
func (s *supervisor) handleReport(r report) bool {
	if r.sendErr != nil {
		name := s.conns.workers[r.from].name()
		s.states.sendErr = fmt.Errorf("launch: a message can't be sent to %s: %w", name, r.sendErr)
		return false
	}
	if r.reply != nil {
		if r.sendErr = s.conns.workers[r.from].send(r.reply); r.sendErr == nil {
			return true
		}
		return s.handleReport(report{from: r.from, sendErr: r.sendErr})
	}
	if m := r.message; m != nil {
		if s.states.accept(r.from, m, s.want) {
			return true
		}
		if parts := s.collects(); m.Type == worker.TypeResults && s.states.workers[r.from].answer == nil &&
			parts != nil {
			if r.refused = parts.add(m.Results); r.refused == nil {
				return true
			}
		}
		if m.Type == worker.TypeStored && s.saving != nil {
			if r.refused = s.saving.add(r.from, m.Stored); r.refused == nil {
				s.onStored()
				return true
			}
		}
		if m.Type == worker.TypeSpans && s.lines != nil {
			if r.refused = s.lines[r.from].Add(m.Spans); r.refused == nil {
				return true
			}
		}
		if m.Type == worker.TypeExternal {
			if r.refused = s.recorder.take(r.from, s.stage, m.External); r.refused == nil {
				return true
			}
		}
		if b := s.rebalancing; m.Type == worker.TypeMoved && b != nil && b.incoming != nil {
			if r.refused = b.add(m.Moved); r.refused == nil {
				return true
			}
		}
		if m.Type == worker.TypeStatus && m.Status.Peer < len(s.conns.workers) {
			s.watchdog.handleStatus(r.from, m.Status)
			return true
		}
	}
	s.states.fail(r, s.want)
	return false
}

// collects is what the results of simprocs are for that come now; nil: none may.
func (s *supervisor) collects() *collection {
	switch {
	case s.want.has(worker.TypeDone):
		return s.parts
	case s.want.has(worker.TypeReported):
		return s.soFar
	}
	return nil
}

// checkStarted finds, without waiting, whether a worker of a set that is only being started
// has failed, and returns the run's error then.
func (s *supervisor) checkStarted() error {
	for {
		select {
		case r := <-s.conns.reports:
			if !s.handleReport(r) {
				return s.collectFailures(context.Background())
			}
		default:
			return nil
		}
	}
}

// collectFailures waits a moment for further reports after a failure and selects the run's
// error. A worker that has reported an error, or whose stream has ended, is about to end: how
// it does is worth waiting for. Answers that come meanwhile change nothing.
func (s *supervisor) collectFailures(ctx context.Context) error {
	over, late := time.After(s.timeouts.collect), time.After(s.timeouts.collect+s.timeouts.lastExit)
	for {
		select {
		case <-over:
			if over = nil; !s.states.exitPending() {
				return s.rootCause(false)
			}
		case <-late:
			return s.rootCause(false)
		case <-ctx.Done():
			return s.rootCause(false)
		case r := <-s.conns.reports:
			s.handleReport(r)
			if over == nil && !s.states.exitPending() {
				return s.rootCause(false)
			}
		}
	}
}

// rootCause is the run's error after a failure; askedToExit says that the workers were asked
// to end. nil: there was no failure.
func (s *supervisor) rootCause(askedToExit bool) error {
	all := s.states.evidenceOf(askedToExit)
	cause := selectRootCause(all)
	if cause < 0 {
		return s.states.sendErr
	}
	e := s.errorOf(cause)
	for i, other := range all {
		if i == cause || other.weight() <= peerErrorWeight || other.exit == exitLost && all[cause].exit == exitLost {
			continue // or it was lost with the cause
		}
		e.Others = append(e.Others, s.errorOf(i).short())
		if o := s.conns.workers[i].output; o != nil {
			o.Flush() // the text of its crash, if any: the error has only the cause's
		}
	}
	return e
}

// errorOf is what went wrong with one worker.
func (s *supervisor) errorOf(i int) *WorkerError {
	c, st := s.conns.workers[i], &s.states.workers[i]
	e := &WorkerError{Worker: c.number, Machine: c.machine, Reason: st.reason, Wrong: st.wrong, File: st.file,
		Phase: s.stage.phase, Replication: s.stage.replication}
	switch {
	case st.exit != nil:
		e.Lost, e.Status, e.Signal, e.Tail = st.exit.Lost, st.exit.Text, st.exit.Signal, st.exit.Lines
		e.Died = st.reason == "" && !e.Lost
		e.Early = e.Died && st.exit.OK
	case st.reason == "":
		e.Reason = "it closed its control stream without a message"
	}
	if e.Phase == PhaseRun {
		e.Reached, e.ReachedKnown = s.boards.reached(i)
		e.Handler, e.HandlerEpoch = s.boards.lastCall(i)
	}
	if c.output != nil {
		e.Tail = c.output.Lines()
	}
	return e
}

// shutDown ends workers that have delivered all their results. One that doesn't end is killed
// and noted; one that ends badly is an error even now.
func (s *supervisor) shutDown(ctx context.Context) error {
	defer s.conns.close()
	s.stage.phase, s.want = PhaseExit, 0
	for _, c := range s.conns.workers {
		_ = c.send(&worker.Message{Type: worker.TypeExit}) // one that doesn't read it is killed below
	}
	s.step("sent exit")
	patient, cancel := context.WithTimeout(ctx, s.timeouts.exit)
	defer cancel()
	if !s.awaitExits(patient) {
		s.killRemaining(ctx)
	}
	if ctx.Err() != nil {
		return ErrEnded
	}
	err := s.rootCause(true)
	for _, c := range s.conns.workers {
		if w := (*WorkerError)(nil); c.output != nil && !(errors.As(err, &w) && w.Worker == c.number) {
			c.output.Flush()
		}
	}
	return err
}

// killRemaining kills the workers that haven't ended after Exit.
func (s *supervisor) killRemaining(ctx context.Context) {
	for i, c := range s.conns.workers {
		st := &s.states.workers[i]
		if st.exit != nil {
			continue
		}
		st.killed = true
		if c.kill != nil {
			c.kill()
		}
		if ctx.Err() == nil {
			s.note(fmt.Sprintf("%s didn't end within %v of its last result and was killed", c.name(), s.timeouts.exit))
		}
	}
	s.awaitKilled()
}

// terminate ends the workers after a failure: gently if there is time for it, then at once.
func (s *supervisor) terminate(gently bool) {
	defer s.conns.close()
	if gently {
		for _, c := range s.conns.workers {
			c.control.Close() // a worker that loses its launcher ends
		}
		patient, cancel := context.WithTimeout(context.Background(), s.timeouts.end)
		defer cancel()
		if s.awaitExits(patient) {
			return
		}
	}
	for _, c := range s.conns.workers {
		if c.kill != nil {
			c.kill()
		} else {
			c.control.Close()
		}
	}
	s.awaitKilled()
}

// awaitExits waits until all workers have ended; false when ctx ends first.
func (s *supervisor) awaitExits(ctx context.Context) bool {
	for !s.states.ended() {
		select {
		case <-ctx.Done():
			return false
		case r := <-s.conns.reports:
			s.handleReport(r)
		}
	}
	return true
}

// awaitKilled waits for killed workers.
func (s *supervisor) awaitKilled() {
	limit := s.timeouts.killed
	if s.askedToStop() {
		limit = s.timeouts.asked
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s.awaitExits(ctx)
}

// askedToStop reports whether the run is to end.
func (s *supervisor) askedToStop() bool {
	select {
	case <-s.stop:
		return true
	case <-s.configStop:
		return true
	default:
		return s.stopping
	}
}
