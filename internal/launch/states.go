// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// state is what is known of one worker.
type state struct {
	answer        *worker.Message  // to the last request
	stopped       *worker.Stopped  // its latest answer to Stop since the last request
	owed          int              // answers to Stop that it has still to give
	reason        string           // the error that it reported, or what it did that the protocol doesn't allow
	reported      errorKind        // what reason is, if it reported it
	wrong         bool             // … about what was asked for
	file          bool             // … about a temporary file that can't be written
	outOfProtocol bool             // … if the protocol doesn't allow it
	streamEnded   bool             // its control stream
	exit          *workerproc.Exit // nil: it runs
	killed        bool             // by the supervisor, after its last result
	order         int              // of its first failure among those of all workers, 1 first; 0: none
}

// states is what is known of the workers of a set, by index. It is derived from their reports.
type states struct {
	workers  []state
	failures int   // so far
	sendErr  error // why a message could not be sent
}

// answerTypes are types of messages: those of which one answers a request.
type answerTypes uint32

func answersOf(types []worker.MessageType) (a answerTypes) {
	for _, t := range types {
		a |= 1 << t
	}
	return a
}

func (a answerTypes) has(t worker.MessageType) bool { return a>>t&1 != 0 }

// String is the types in messages for people.
func (a answerTypes) String() string {
	var names []string
	for t := worker.MessageType(0); t < 32; t++ {
		if a.has(t) {
			names = append(names, t.String())
		}
	}
	return cmp.Or(strings.Join(names, " or "), "nothing")
}

// ask begins a request.
func (ss *states) ask(worker int) {
	st := &ss.workers[worker]
	st.answer, st.stopped, st.owed = nil, nil, 0
}

// answered reports whether all workers have answered the last request.
func (ss *states) answered() bool {
	for i := range ss.workers {
		if ss.workers[i].answer == nil {
			return false
		}
	}
	return true
}

// answers are those of all workers to the last request, nil while one is missing.
func (ss *states) answers() []*worker.Message {
	if !ss.answered() {
		return nil
	}
	answers := make([]*worker.Message, len(ss.workers))
	for i := range ss.workers {
		answers[i] = ss.workers[i].answer
	}
	return answers
}

// stopAnswered reports whether all workers have answered Stop, or are done.
func (ss *states) stopAnswered() bool {
	for i := range ss.workers {
		if st := &ss.workers[i]; st.owed > 0 && st.answer == nil {
			return false
		}
	}
	return true
}

// ended reports whether all workers have ended.
func (ss *states) ended() bool {
	for i := range ss.workers {
		if ss.workers[i].exit == nil {
			return false
		}
	}
	return true
}

// exitPending reports whether a worker that may be the root cause is about to end, but hasn't
// yet.
func (ss *states) exitPending() bool {
	for i := range ss.workers {
		st := &ss.workers[i]
		if st.exit == nil && st.reported != peerError && (st.streamEnded || st.reason != "") {
			return true
		}
	}
	return false
}

// accept records a message that the protocol allows now: an answer of a type in want, or one to Stop.
func (ss *states) accept(from int, m *worker.Message, want answerTypes) bool {
	st := &ss.workers[from]
	switch {
	case want.has(m.Type) && st.answer == nil:
		st.answer = m
	case m.Type == worker.TypeStopped && st.owed > 0:
		st.stopped = m.Stopped
		st.owed--
	default:
		return false
	}
	return true
}

// fail records a report that accept has no place for: a failure, or what follows from one.
func (ss *states) fail(r report, want answerTypes) {
	st := &ss.workers[r.from]
	if ss.failures++; st.order == 0 {
		st.order = ss.failures
	}
	switch {
	case r.exit != nil:
		st.exit = r.exit
	case r.streamErr != nil:
		st.streamEnded = true
		if st.reason == "" && !isStreamEnd(r.streamErr) {
			st.reason, st.outOfProtocol = "its control stream broke: "+r.streamErr.Error(), true
		}
	case st.reason != "":
	case r.refused != nil:
		st.reason, st.outOfProtocol = r.refused.Error(), true
	case r.message.Type == worker.TypeFailed:
		st.reason, st.reported, st.wrong = r.message.Failed.Error, ownError, r.message.Failed.Wrong
		st.file = r.message.Failed.File
		if r.message.Failed.Peer {
			st.reported = peerError
		}
	default:
		st.reason, st.outOfProtocol = fmt.Sprintf("it sent %q where %q was due", r.message.Type, want), true
	}
}

// evidenceOf is what counts of each worker. Those that the supervisor has killed after their
// last result did nothing wrong.
func (ss *states) evidenceOf(askedToExit bool) []evidence {
	all := make([]evidence, len(ss.workers))
	for i := range ss.workers {
		st := &ss.workers[i]
		if st.killed {
			continue
		}
		e := evidence{
			reported: st.reported, streamEnded: st.streamEnded, outOfProtocol: st.outOfProtocol,
			askedToExit: askedToExit, order: st.order,
		}
		switch {
		case st.exit == nil:
		case st.exit.Lost:
			e.exit = exitLost
		case st.exit.Ended:
			e.exit = exitEnded
		case st.exit.Signal != 0:
			e.exit = exitSignal
		case st.exit.OK:
			e.exit = exitedOK
		default:
			e.exit = exitedBad
		}
		all[i] = e
	}
	return all
}
