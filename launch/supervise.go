package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/disco-sim/disco/worker"
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
		lost:     time.Second,
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
	answer *worker.Message // to the last question
	halted *worker.Stopped // its answer to Stop
	reason string          // the error that it reported
	peer   bool            // … which is about a peer that closed its lanes
	lost   bool            // its control stream has ended
	killed bool            // by us, after its last result
	ended  *exitStatus
}

// supervisor leads a crew through the protocol of worker/control.go and ends it,
// whatever happens. One goroutine uses it.
type supervisor struct {
	crew     *crew
	times    times
	states   []state
	stop     <-chan struct{} // closed or nil: see Config.Stop
	stopping bool            // Stop was asked for
	events   func() uint64   // that all members have handled so far
	tick     func()          // takes in how far the members are; nil for none
	note     func(string)    // tells what isn't an error
}

func newSupervisor(c *crew, l *Launch) *supervisor {
	return &supervisor{crew: c, times: l.times, states: make([]state, len(c.members)), stop: l.cfg.Stop, note: l.note}
}

// errNotBegun ends a question to workers that only get ready, when the run is to stop:
// there is nothing to wait for.
var errNotBegun = errors.New("launch: stopped before it began")

// ask sends a message to every member and waits for everybody's answer of type want.
// An error is final: the crew must be ended.
func (s *supervisor) ask(ctx context.Context, msg func(index int) *worker.Message, want string) ([]*worker.Message, error) {
	for i, m := range s.crew.members {
		s.states[i].answer = nil
		if err := m.say(msg(i)); err != nil {
			return nil, err
		}
	}
	var ticks <-chan time.Time
	if s.tick != nil && want == worker.TypeDone {
		ticker := time.NewTicker(s.times.progress)
		defer ticker.Stop()
		ticks = ticker.C
	}
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
		case h := <-s.crew.news:
			if !s.hear(h, want) {
				return nil, s.settle(ctx)
			}
			if err := s.sayLimit(&end); err != nil {
				return nil, err
			}
		}
	}
	answers := make([]*worker.Message, len(s.states))
	for i := range s.states {
		answers[i] = s.states[i].answer
	}
	return answers, nil
}

func (s *supervisor) answered() bool {
	for i := range s.states {
		if s.states[i].answer == nil {
			return false
		}
	}
	return true
}

// hear files one piece of news. It returns false for bad news: anything but the
// answer that is waited for.
func (s *supervisor) hear(h heard, want string) bool {
	st := &s.states[h.from]
	switch {
	case h.ended != nil:
		st.ended = h.ended
		return false
	case h.lost != nil:
		st.lost = true
		if st.reason == "" && !streamEnd(h.lost) {
			st.reason = "its control stream broke: " + h.lost.Error()
		}
		return false
	case h.message.Type == worker.TypeFailed && h.message.Failed != nil:
		if st.reason == "" {
			st.reason, st.peer = h.message.Failed.Error, h.message.Failed.Peer
		}
		return false
	case h.message.Type == want && (want != worker.TypeDone || h.message.Done != nil):
		st.answer = h.message
		return true
	case h.message.Type == worker.TypeStopped && h.message.Stopped != nil && s.stopping && st.halted == nil:
		st.halted = h.message.Stopped
		return true
	}
	st.reason = fmt.Sprintf("it sent %q where %q was due", h.message.Type, want)
	return false
}

// streamEnd tells whether a stream has ended in one of the ways that the other
// side's death gives it.
func streamEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || isReset(err)
}

// settle gathers news for a moment after bad news and makes the run's error of it. A
// member that has reported an error, or whose stream has ended without a word, is about
// to end: how it does is worth waiting for.
func (s *supervisor) settle(ctx context.Context) error {
	over, late := time.After(s.times.settle), time.After(s.times.settle+s.times.lost)
	for {
		select {
		case <-over:
			if over = nil; !s.ending() {
				return s.blame()
			}
		case <-late:
			return s.blame()
		case <-ctx.Done():
			return s.blame()
		case h := <-s.crew.news:
			s.hear(h, "")
			if over == nil && !s.ending() {
				return s.blame()
			}
		}
	}
}

// ending tells whether a member that may be to blame is about to end, but hasn't yet.
func (s *supervisor) ending() bool {
	for i := range s.states {
		if st := &s.states[i]; st.ended == nil && !st.peer && (st.lost || st.reason != "") {
			return true
		}
	}
	return false
}

// blame picks the worker that ended the run: one that died without a word before
// one that reported an error, because the report may be about the death; and one with
// an error of its own before one that found a peer's lane closed.
func (s *supervisor) blame() error {
	culprit, rank := -1, 0
	for i := range s.states {
		st := &s.states[i]
		r := 0
		switch {
		case st.ended != nil && st.reason == "":
			r = 4
		case st.reason != "" && !st.peer:
			r = 3
		case st.lost && st.reason == "":
			r = 2
		case st.reason != "":
			r = 1
		}
		if r > rank {
			culprit, rank = i, r
		}
	}
	e := s.errorOf(culprit)
	for i := range s.states {
		if other := s.errorOf(i); i != culprit && other != nil && !s.states[i].peer {
			other.Tail = nil
			e.Others = append(e.Others, other.short())
		}
	}
	return e
}

// errorOf is what went wrong with one member; nil for nothing.
func (s *supervisor) errorOf(i int) *WorkerError {
	st := &s.states[i]
	e := &WorkerError{Worker: s.crew.members[i].number, Reason: st.reason}
	switch {
	case st.ended != nil:
		e.Died, e.Status, e.Tail = st.reason == "", st.ended.text, st.ended.lines
	case st.reason != "":
	case st.lost:
		e.Reason = "it closed its control stream without a word"
	default:
		return nil
	}
	if t := s.crew.members[i].tail; t != nil {
		e.Tail = t.lines()
	}
	return e
}

// dismiss ends a crew that has done its work. A member that doesn't end is killed
// and noted; one that ends badly is an error even now.
func (s *supervisor) dismiss(ctx context.Context) error {
	defer s.crew.leave()
	for _, m := range s.crew.members {
		_ = m.say(&worker.Message{Type: worker.TypeExit}) // unread: killed below
	}
	patient, cancel := context.WithTimeout(ctx, s.times.exit)
	defer cancel()
	if !s.awaitEnds(patient) {
		s.killLate(ctx)
	}
	if ctx.Err() != nil {
		return ErrEnded
	}
	for i := range s.states {
		if st := &s.states[i]; !st.killed && (st.reason != "" || (st.ended != nil && !st.ended.ok)) {
			return s.blame()
		}
	}
	for _, m := range s.crew.members {
		if m.tail != nil {
			m.tail.flush()
		}
	}
	return nil
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
			if h.lost == nil {
				s.hear(h, "")
			}
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
