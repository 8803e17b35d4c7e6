// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// stopRequest is a stop that is under way; worker/stop.go has the protocol. The zero value is
// none.
type stopRequest struct {
	ticker     *time.Ticker // nil: no stop is under way
	leg        bool         // it is to end this leg, not the run
	began      time.Time
	progressed time.Time // when workers last handled events, or answered Stop
	events     uint64    // handled by then
	limited    bool      // the common end was sent to the workers
	epoch      float64   // … this one; MaxFloat64: none, they go on
	noted      bool      // that it takes long
	looked     time.Time // when it was looked at last
	again      time.Time // when the end of the leg, which was given up, is tried again; zero: not
}

// stopPeriod is the time between two looks at workers that are to stop.
const stopPeriod = 50 * time.Millisecond

// stopNoteAfter is how long a stop may take before a remark says what it waits for.
const stopNoteAfter = 2 * time.Second

func (r *stopRequest) ticks() <-chan time.Time {
	if r.ticker == nil {
		return nil
	}
	return r.ticker.C
}

func (r *stopRequest) close() {
	if r.ticker != nil {
		r.ticker.Stop()
	}
}

// sendStop asks running workers how far they have come, to end the run there together.
func (s *supervisor) sendStop(r *stopRequest) error {
	if s.saves { // at an end of a leg, behind which Stop is sent again
		s.report("bringing all workers to one simulated time, for a checkpoint")
		if r.leg && !r.again.IsZero() {
			r.again = time.Now() // that was given up: try it at once
		}
		return s.stopLeg(r)
	}
	s.report("waiting for calls of handlers to end")
	s.gathered = false
	s.reportGathering(r)
	if r.leg && !r.limited { // they were asked for the end of the leg: the answer serves
		r.leg, r.began, r.progressed = false, time.Now(), time.Now()
		return s.sendLimit(r)
	}
	return s.ask(r)
}

// stopLeg asks running workers how far they have come, to end the leg there. While that is under way, or the run is to
// end, there is nothing to be done.
func (s *supervisor) stopLeg(r *stopRequest) error {
	if r.ticker != nil {
		return nil
	}
	r.leg = true
	return s.ask(r)
}

// ask sends Stop. Workers that have answered the request stand still.
func (s *supervisor) ask(r *stopRequest) error {
	r.close()
	*r = stopRequest{ticker: time.NewTicker(stopPeriod), leg: r.leg && (!s.stopping || s.saves), began: time.Now()}
	r.progressed = r.began
	for i, c := range s.conns.workers {
		st := &s.states.workers[i]
		if st.answer != nil {
			continue
		}
		st.owed++
		if err := c.send(&worker.Message{Type: worker.TypeStop}); err != nil {
			return err
		}
	}
	return s.sendLimit(r)
}

// sendLimit sends the workers the common end as soon as all have answered Stop, or are
// done. Where nothing behind epoch 0 was handled, it ends the replication without results: workers
// would have to call all simprocs for the first time, and the results were only about that.
func (s *supervisor) sendLimit(r *stopRequest) error {
	if r.ticker == nil || r.limited || !s.states.stopAnswered() {
		return nil
	}
	if r.leg {
		// Nothing at all may have been handled in this leg, which ends later than it began.
		return s.limit(r, max(s.states.commonEnd(), math.Nextafter(s.legBegan, math.Inf(1))))
	}
	s.end = s.states.commonEnd()
	if s.end <= math.SmallestNonzeroFloat64 {
		return errNotBegun
	}
	if !s.gathered {
		s.report("bringing all workers to %.6g simulated seconds, where the furthest one is", s.end)
	}
	return s.limit(r, s.end)
}

// limit sends the common end to the workers that haven't come to one.
func (s *supervisor) limit(r *stopRequest, end float64) error {
	r.limited, r.progressed, r.epoch = true, time.Now(), end
	limit := &worker.Message{Type: worker.TypeLimit, Limit: &worker.Limit{Epoch: end, Leg: r.leg}}
	for i, c := range s.conns.workers {
		if s.states.workers[i].answer != nil {
			continue
		}
		if err := c.send(limit); err != nil {
			return err
		}
	}
	return nil
}

// commonEnd is the least time at or after which no worker has handled anything. Where
// one is done by itself, all are about to be: that is the horizon's end, and no limit.
func (ss *states) commonEnd() float64 {
	end := 0.0
	for i := range ss.workers {
		st := &ss.workers[i]
		if st.answer != nil {
			return math.MaxFloat64
		}
		if st.stopped.Handled {
			end = max(end, math.Nextafter(st.stopped.Epoch, math.Inf(1)))
		}
	}
	return end
}

// checkStop ends a stop that makes no progress: a worker that doesn't answer Stop, or doesn't
// come nearer to the common end, and one that takes too long altogether.
func (s *supervisor) checkStop(r *stopRequest) error {
	if r.leg {
		return s.checkStopOfLeg(r)
	}
	s.reportGathering(r)
	now := time.Now()
	s.waitForMachines(r, now)
	if _, events := s.boards.progress(); r.limited && events != r.events {
		r.events, r.progressed = events, now
	}
	const slow = "a call of a model's handler takes longer than that, or hangs"
	limit := s.stopTime()
	switch {
	case now.Sub(r.progressed) > limit && !r.limited:
		unanswered := func(st *state) bool { return st.owed > 0 }
		return s.unresponsive(unanswered, fmt.Sprintf("didn't answer stop within %v", limit), slow)
	case now.Sub(r.progressed) > limit:
		return s.unresponsive(anyState, fmt.Sprintf("didn't get on for %v towards the common end at %v s", limit,
			r.epoch), slow)
	case now.Sub(r.began) > s.timeouts.stopTotal:
		what := fmt.Sprintf("didn't come to the common end at %v s within %v", r.epoch, s.timeouts.stopTotal)
		return s.unresponsive(anyState, what, "some were far ahead of the others")
	case r.limited && !r.noted && now.Sub(r.began) > stopNoteAfter:
		r.noted = true
		s.note(fmt.Sprintf("handling what is before %v s: a worker had come so far, and all are to end at one "+
			"simulated time", r.epoch))
	}
	return nil
}

// waitForMachines doesn't count the time in which this process is stopped, or machines are cut off or silent: their
// workers can't answer, and others may wait for them. They come back, or their loss ends the run.
func (s *supervisor) waitForMachines(r *stopRequest, now time.Time) {
	r.began, r.progressed = workerproc.SinceResumed(r.began), workerproc.SinceResumed(r.progressed)
	if s.away() && !r.looked.IsZero() {
		r.began, r.progressed = r.began.Add(now.Sub(r.looked)), now
	}
	r.looked = now
}

// stopTime is how long workers may take to answer Stop, or without getting on.
func (s *supervisor) stopTime() time.Duration {
	limit := s.timeouts.stop
	if s.boards.outside() && !s.waited {
		limit = max(limit, s.timeouts.outside)
	}
	return limit + s.timeouts.silence
}

// checkStopOfLeg gives up the end of a leg that a long call of a handler keeps from being found: all workers go on.
// It is tried again after twice the time, when every worker has answered. An end that was found is kept.
func (s *supervisor) checkStopOfLeg(r *stopRequest) error {
	now := time.Now()
	s.waitForMachines(r, now)
	if _, events := s.boards.progress(); r.limited && events != r.events {
		r.events, r.progressed = events, now
	}
	found := r.limited && r.epoch < math.MaxFloat64
	late := (found || !r.limited) && now.Sub(r.progressed) > s.stopTime()
	switch {
	case late && s.stopping: // there is no time to try again
		s.saves = false
		defer func() { s.waited = true }()
		s.note(fmt.Sprintf("the run ends without a last checkpoint, because a call of a handler takes longer than "+
			"%v: %s", s.stopTime(), s.busy(found)))
		return s.sendStop(r)
	case late && found && !r.noted:
		r.noted = true
		s.note(fmt.Sprintf("all workers are to come to %v s, and others wait there, because a call of a handler takes "+
			"longer than %v: %s", r.epoch, s.stopTime(), s.busy(found)))
	case late && !found:
		s.legWait = 2 * max(s.legWait, s.stopTime())
		r.again = now.Add(s.legWait)
		s.note(fmt.Sprintf("the workers can't be brought to one simulated time now, because a call of a handler takes "+
			"longer than %v: %s; the next attempt is in %v", s.stopTime(), s.busy(found), s.legWait))
		return s.limit(r, math.MaxFloat64)
	case !r.again.IsZero() && now.After(r.again) && s.states.stopAnswered():
		return s.ask(r)
	}
	return nil
}

// busy names the workers that a leg's end waits for, and their handlers: those that haven't come to it, where it was
// found, and else those that haven't said how far they have come.
func (s *supervisor) busy(found bool) string {
	var busy []string
	for i, c := range s.conns.workers {
		if st := &s.states.workers[i]; st.answer != nil || !found && st.owed == 0 {
			continue
		}
		name := c.name()
		if simproc, epoch := s.boards.lastCall(i); simproc != "" {
			name += fmt.Sprintf(" in the handler of %s at epoch %.6g", simproc, epoch)
		}
		busy = append(busy, name)
	}
	return strings.Join(busy, " and ")
}

func anyState(*state) bool { return true }

// unresponsive is the error for workers that have not answered and that late selects.
func (s *supervisor) unresponsive(late func(*state) bool, what, why string) error {
	var names, stopped []string
	for i, c := range s.conns.workers {
		if st := &s.states.workers[i]; st.answer != nil || !late(st) {
			continue
		}
		names = append(names, c.name())
		if c.pid != 0 && s.watchdog.processState(c.pid) == procfs.Stopped {
			stopped = append(stopped, fmt.Sprintf("worker %d (process %d)", c.number, c.pid))
		}
	}
	if len(stopped) > 0 {
		why = strings.Join(stopped, " and ") + " was stopped, by a signal or a debugger, and others may wait for it"
	}
	return fmt.Errorf("%w: %s %s and had to be killed: %s", ErrUnresponsive, strings.Join(names, ", "), what, why)
}
