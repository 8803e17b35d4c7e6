// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/disco-sim/disco/internal/worker"
)

// times are what a supervisor allows. A run that fails is over, with nothing left of
// it, within settle + end and what the system takes to end processes.
type times struct {
	// settle is how long news is still gathered after the first bad one, so that a
	// death is blamed rather than a peer's complaint about it.
	settle time.Duration

	// lost is how long beyond that a process may take to end that has reported an error
	// or closed its control stream: it is exiting, and how belongs to the news.
	lost time.Duration

	// end is how long workers may take to end by themselves after a failure, once
	// their control streams are closed. It lets them finish their profiles.
	end time.Duration

	// stop is how long workers may take to answer Stop, when the handler that is under
	// way has to return, and then how long they may take without handling anything on
	// their way to the common end, where every simproc reports.
	stop time.Duration

	// limit is how long they may take altogether.
	limit time.Duration

	// exit is how long workers may take to end after Exit, when all results are in.
	exit time.Duration

	// gone is how long killed processes, and goroutines that can't be killed, are
	// waited for.
	gone time.Duration

	// progress is the time between two calls of Config.Progress.
	progress time.Duration
}

// reportTime is what a simproc's report may take from the model to the launcher, on
// average.
const reportTime = 20 * time.Microsecond

// defaultTimes keeps the end of a run that was interrupted within two seconds, unless
// its results are large.
func defaultTimes(simprocs int) times {
	return times{
		settle:   100 * time.Millisecond,
		lost:     700 * time.Millisecond,
		end:      300 * time.Millisecond,
		stop:     1200*time.Millisecond + time.Duration(simprocs)*reportTime,
		limit:    30 * time.Second,
		exit:     10 * time.Second,
		gone:     5 * time.Second,
		progress: 200 * time.Millisecond,
	}
}

// state is what has been heard of one member.
type state struct {
	answer  *worker.Message // to the last question
	halted  *worker.Stopped // its answer to Stop
	reason  string          // the error that it reported, or what it did that it must not
	report  reportKind      // what reason is: a report, or
	strange bool            // … what we think of it
	lost    bool            // its control stream has ended
	killed  bool            // by us, after its last result
	order   int             // of the first sign of trouble among those of all members
	ended   *exitStatus
}

// fact is what counts when it is asked who ended the run.
func (st *state) fact(due bool) fact {
	f := fact{report: st.report, lost: st.lost, strange: st.strange, due: due, order: st.order}
	switch {
	case st.ended == nil:
	case st.ended.signal != 0:
		f.exit = exitSignal
	case st.ended.ok:
		f.exit = exitedOK
	default:
		f.exit = exitedBad
	}
	return f
}

// phase is what a crew is at when one of its members fails.
type phase struct {
	name        Phase
	replication int
}

// supervisor leads a crew through the protocol of worker/control.go and ends it,
// whatever happens. One goroutine uses it.
type supervisor struct {
	crew     *crew
	times    times
	states   []state
	stop     <-chan struct{}    // closed or nil: see Config.Stop
	stopping bool               // Stop was asked for
	phase    phase              // what the members were asked for last
	want     worker.MessageType // of the answers that are waited for; 0: none
	troubles int                // signs of trouble so far
	unsent   error              // why a message could not be sent
	events   func() uint64      // that all members have handled so far
	reached  func(index int) (epoch float64, ok bool)
	called   func(index int) (simproc string, epoch float64) // the last handler; nil: nobody knows
	at       func(s *supervisor, point string)               // for tests: called at every step of the protocol
	tick     func()                                          // takes in how far the members are; nil for none
	note     func(string)                                    // tells what isn't an error
	watch    stallWatch
}

func newSupervisor(c *crew, l *Launch) *supervisor {
	s := &supervisor{crew: c, times: l.times, states: make([]state, len(c.members)), stop: l.cfg.Stop, note: l.note, at: l.at}
	s.watch = stallWatch{crew: c, limit: l.cfg.Stall, end: l.cfg.EndStalled, note: l.note, now: time.Now, state: stateOf, reached: func(i int) (float64, bool) { return s.reached(i) }}
	return s
}

// errNotBegun ends a question to workers that only get ready, when the run is to stop:
// there is nothing to wait for.
var errNotBegun = errors.New("launch: stopped before it began")

// point is a step of the protocol.
func (s *supervisor) point(name string) {
	if s.at != nil {
		s.at(s, name)
	}
}

// ask sends a message to every member and waits for everybody's answer of type want.
// An error is final: the crew must be ended. Answers come with it when a member has
// failed after all of them were there.
func (s *supervisor) ask(ctx context.Context, msg func(index int) *worker.Message, want worker.MessageType) ([]*worker.Message, error) {
	s.want = want
	for i, m := range s.crew.members {
		s.states[i].answer = nil
		if err := m.say(msg(i)); err != nil {
			return nil, err
		}
	}
	s.point("asked for " + want.String())
	var ticks <-chan time.Time
	if s.tick != nil && want == worker.TypeDone {
		ticker := time.NewTicker(s.times.progress)
		defer ticker.Stop()
		ticks = ticker.C
	}
	s.watch.begin(s.phase, func(index int) bool { return s.states[index].answer == nil })
	watch := time.NewTicker(s.watch.ticks())
	defer watch.Stop()
	var end halt
	defer end.close()
	for !s.answered() {
		select {
		case <-ctx.Done():
			return nil, ErrEnded
		case <-s.stop:
			s.stop, s.stopping = nil, true
			if want != worker.TypeDone {
				return nil, errNotBegun
			}
			if err := s.sayStop(&end); err != nil {
				return nil, err
			}
		case <-end.ticks():
			if err := s.patience(&end); err != nil {
				return nil, err
			}
		case <-ticks:
			s.tick()
		case <-watch.C:
			if err := s.watch.tick(); err != nil {
				return nil, err
			}
		case h := <-s.crew.news:
			if !s.hear(h) {
				err := s.settle(ctx)
				return s.answers(), err
			}
			if err := s.sayLimit(&end); err != nil {
				return nil, err
			}
		}
	}
	s.point("got " + want.String())
	return s.answers(), nil
}

// rest waits for a moment at which there is something to ask the members, or for Stop.
func (s *supervisor) rest(ctx context.Context, over <-chan struct{}) error {
	s.want = 0
	for {
		select {
		case <-ctx.Done():
			return ErrEnded
		case <-s.stop:
			s.stop, s.stopping = nil, true
			return nil
		case <-over:
			return nil
		case h := <-s.crew.news:
			if !s.hear(h) {
				return s.settle(ctx)
			}
		}
	}
}

// answers are those of all members, nil while one is missing.
func (s *supervisor) answers() []*worker.Message {
	if !s.answered() {
		return nil
	}
	answers := make([]*worker.Message, len(s.states))
	for i := range s.states {
		answers[i] = s.states[i].answer
	}
	return answers
}

func (s *supervisor) answered() bool {
	for i := range s.states {
		if s.states[i].answer == nil {
			return false
		}
	}
	return true
}

// hear files one piece of news. It returns false for bad news: anything but an answer
// that may come now.
func (s *supervisor) hear(h heard) bool {
	if h.unsent != nil {
		s.unsent = fmt.Errorf("launch: worker %d can't be told what to do: %w", s.crew.members[h.from].number, h.unsent)
		return false
	}
	st := &s.states[h.from]
	if h.message != nil && s.expected(st, h.message) {
		return true
	}
	if h.message != nil && h.message.Type == worker.TypeStatus && h.message.Status.Peer < len(s.states) {
		s.watch.heard(h.from, h.message.Status)
		return true
	}
	if s.troubles++; st.order == 0 {
		st.order = s.troubles
	}
	switch {
	case h.ended != nil:
		st.ended = h.ended
	case h.lost != nil:
		st.lost = true
		if st.reason == "" && !streamEnd(h.lost) {
			st.reason, st.strange = "its control stream broke: "+h.lost.Error(), true
		}
	case st.reason != "":
	case h.message.Type == worker.TypeFailed:
		st.reason, st.report = h.message.Failed.Error, ownReport
		if h.message.Failed.Peer {
			st.report = peerReport
		}
	default:
		st.reason, st.strange = fmt.Sprintf("it sent %q where %q was due", h.message.Type, s.want), true
	}
	return false
}

// expected files a message that may come now.
func (s *supervisor) expected(st *state, m *worker.Message) bool {
	switch {
	case m.Type == s.want && st.answer == nil:
		st.answer = m
		return true
	case m.Type == worker.TypeStopped && s.stopping && st.halted == nil:
		st.halted = m.Stopped
		return true
	}
	return false
}

// streamEnd tells whether a stream has ended in one of the ways that the other
// side's death gives it.
func streamEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || isReset(err)
}

// early looks, without waiting, whether a member of a crew that is only being started has
// failed, and returns the run's error then.
func (s *supervisor) early() error {
	for {
		select {
		case h := <-s.crew.news:
			if !s.hear(h) {
				return s.settle(context.Background())
			}
		default:
			return nil
		}
	}
}

// settle gathers news for a moment after bad news and makes the run's error of it. A
// member that has reported an error, or whose stream has ended without a word, is about
// to end: how it does is worth waiting for. Answers that were under way are no news.
func (s *supervisor) settle(ctx context.Context) error {
	over, late := time.After(s.times.settle), time.After(s.times.settle+s.times.lost)
	for {
		select {
		case <-over:
			if over = nil; !s.ending() {
				return s.failure(false)
			}
		case <-late:
			return s.failure(false)
		case <-ctx.Done():
			return s.failure(false)
		case h := <-s.crew.news:
			s.hear(h)
			if over == nil && !s.ending() {
				return s.failure(false)
			}
		}
	}
}

// ending tells whether a member that may be the cause is about to end, but hasn't yet.
func (s *supervisor) ending() bool {
	for i := range s.states {
		if st := &s.states[i]; st.ended == nil && st.report != peerReport && (st.lost || st.reason != "") {
			return true
		}
	}
	return false
}

// failure is the run's error after something has gone wrong with its members; due says
// that they were told to end. nil: nothing has.
func (s *supervisor) failure(due bool) error {
	facts := make([]fact, len(s.states))
	for i := range s.states {
		if !s.states[i].killed {
			facts[i] = s.states[i].fact(due)
		}
	}
	cause := rootCause(facts)
	if cause < 0 {
		return s.unsent
	}
	e := s.errorOf(cause)
	for i, f := range facts {
		if i == cause || f.weight() <= (fact{report: peerReport}).weight() {
			continue
		}
		other := s.errorOf(i)
		e.Others = append(e.Others, other.short())
		if t := s.crew.members[i].tail; t != nil {
			t.flush() // the text of its crash, if any: the error has only the cause's
		}
	}
	return e
}

// errorOf is what went wrong with one member.
func (s *supervisor) errorOf(i int) *WorkerError {
	st := &s.states[i]
	e := &WorkerError{Worker: s.crew.members[i].number, Reason: st.reason, Phase: s.phase.name, Replication: s.phase.replication}
	switch {
	case st.ended != nil:
		e.Died, e.Status, e.Tail = st.reason == "", st.ended.text, st.ended.lines
		e.Early = e.Died && st.ended.ok
	case st.reason == "":
		e.Reason = "it closed its control stream without a word"
	}
	if e.Phase == PhaseRun {
		e.Reached, e.ReachedKnown = s.reached(i)
		if s.called != nil {
			e.Handler, e.HandlerEpoch = s.called(i)
		}
	}
	if t := s.crew.members[i].tail; t != nil {
		e.Tail = t.lines()
	}
	return e
}

// dismiss ends a crew that has done its work. A member that doesn't end is killed
// and noted; one that ends badly is an error even now, though all results are there.
func (s *supervisor) dismiss(ctx context.Context) error {
	defer s.crew.leave()
	s.phase.name, s.want = PhaseExit, 0
	for _, m := range s.crew.members {
		_ = m.say(&worker.Message{Type: worker.TypeExit}) // unread: killed below
	}
	s.point("told to exit")
	patient, cancel := context.WithTimeout(ctx, s.times.exit)
	defer cancel()
	if !s.awaitEnds(patient) {
		s.killLate(ctx)
	}
	if ctx.Err() != nil {
		return ErrEnded
	}
	err := s.failure(true)
	for i, m := range s.crew.members {
		if w := (*WorkerError)(nil); m.tail != nil && !(errors.As(err, &w) && w.Worker == s.crew.members[i].number) {
			m.tail.flush()
		}
	}
	return err
}

// killLate ends the members that don't end by themselves.
func (s *supervisor) killLate(ctx context.Context) {
	for i, m := range s.crew.members {
		if s.states[i].ended != nil {
			continue
		}
		s.states[i].killed = true
		if m.kill != nil {
			m.kill()
		}
		if ctx.Err() == nil {
			s.note(fmt.Sprintf("worker %d didn't end within %v of its last result and was killed", m.number, s.times.exit))
		}
	}
	s.awaitGone()
}

// end ends a crew after a failure: gently if there is time for it, then at once.
func (s *supervisor) end(gentle bool) {
	defer s.crew.leave()
	if gentle {
		for _, m := range s.crew.members {
			m.control.Close() // a worker that loses its launcher ends
		}
		patient, cancel := context.WithTimeout(context.Background(), s.times.end)
		defer cancel()
		if s.awaitEnds(patient) {
			return
		}
	}
	for _, m := range s.crew.members {
		if m.kill != nil {
			m.kill()
		} else {
			m.control.Close()
		}
	}
	s.awaitGone()
}

// awaitEnds waits until all members have ended; false when ctx ends first.
func (s *supervisor) awaitEnds(ctx context.Context) bool {
	for !s.allEnded() {
		select {
		case <-ctx.Done():
			return false
		case h := <-s.crew.news:
			s.hear(h)
		}
	}
	return true
}

// awaitGone waits for killed members.
func (s *supervisor) awaitGone() {
	ctx, cancel := context.WithTimeout(context.Background(), s.times.gone)
	defer cancel()
	s.awaitEnds(ctx)
}

func (s *supervisor) allEnded() bool {
	for i := range s.states {
		if s.states[i].ended == nil {
			return false
		}
	}
	return true
}
