// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strconv"
	"strings"
)

// Assignment is the partition of a replication of an experiment that a server hosts.
type Assignment struct {
	Experiment  string `json:"expid"`
	Replication string `json:"repid"`
	Partition   int    `json:"partition"`
}

// check refuses an assignment of which a part is missing.
func (a *Assignment) check() error {
	if a.Experiment == "" || a.Replication == "" || a.Partition < 0 {
		return fmt.Errorf("the assignment %v isn't whole: it needs expid, repid and a partition of at least 0", a)
	}
	return nil
}

// String is the assignment as experiment/replication/partition.
func (a *Assignment) String() string {
	if a == nil {
		return "none"
	}
	return fmt.Sprintf("%s/%s/%d", a.Experiment, a.Replication, a.Partition)
}

// Request asks a server for a state.
type Request struct {
	ID          string      `json:"id"`          // of this request, unique; a View's is of requestID
	Incarnation string      `json:"incarnation"` // of the server that it is for
	State       State       `json:"state"`
	Assignment  *Assignment `json:"assignment,omitempty"` // the server's own, or the new one with Reserved
	Replaces    string      `json:"replaces,omitempty"`   // the request before it, if that had no last ack yet
	By          string      `json:"by,omitempty"`         // who asks, for people
}

// requestID is the id of the number-th request for a life of a server; mark tells it from those that others make at the
// same time.
func requestID(incarnation string, number uint64, mark string) string {
	return fmt.Sprintf("%s.%d.%s", incarnation, number, mark)
}

// requestNumber is the number in an id for a life of a server, or 0.
func requestNumber(id, incarnation string) uint64 {
	rest, mine := strings.CutPrefix(id, incarnation+".")
	text, _, _ := strings.Cut(rest, ".")
	number, err := strconv.ParseUint(text, 10, 63)
	if !mine || err != nil {
		return 0
	}
	return number
}

// Phase is how far a request has got.
type Phase string

// The phases. After Accepted comes one of the next three; Refused comes alone.
const (
	Accepted   Phase = "accepted"
	Applied    Phase = "applied"
	Failed     Phase = "failed"
	Superseded Phase = "superseded" // by a later request, whose ack names this one
	Refused    Phase = "refused"
)

// Result is how a partition ended.
type Result string

// The results of partitions.
const (
	PartitionFinished Result = "FINISHED"
	PartitionFailed   Result = "FAILED"
	PartitionCanceled Result = "CANCELED" // given up on request, past Ready
)

// Ack is a server's answer to a request. Answers of one server follow each other in one key, so a reader may see the
// last phase only.
type Ack struct {
	Request    string `json:"request"`
	Phase      Phase  `json:"phase"`
	State      State  `json:"state"` // the server's, at this time
	Supersedes string `json:"supersedes,omitempty"`
	Pending    string `json:"pending,omitempty"` // with Refused: the request that is still being carried out
	Seen       uint64 `json:"seen,omitempty"`    // the greatest number of a request in this life that was looked at
	Result     Result `json:"result,omitempty"`  // of the partition that the request ended
	Error      string `json:"error,omitempty"`
}

// Outcome is how the partition ended that a server hosted last.
type Outcome struct {
	Assignment
	Result Result `json:"result"`
	Error  string `json:"error,omitempty"`
}

// Slot is the state machine of one server. It decides; what it decides is carried out, written and acked by its owner,
// the one goroutine that may call its methods.
type Slot struct {
	incarnation string
	state       State
	reason      string // Broken
	assignment  *Assignment
	last        *Outcome
	pending     *pending
	seen        string // the request looked at last
	number      uint64 // the greatest of requests for this incarnation
	tasks       int    // begun so far
}

// pending is a request whose task lasts.
type pending struct {
	Request
	transition
	before     State
	supersedes string
	number     int   // of the task
	abandoned  error // why, where nobody has asked for it
}

// Step is what follows from a request or an event: the state is to be written, then the ack, then the task begun,
// which
// ends with [Slot.Done]. A task that still runs is cancelled and waited for first.
type Step struct {
	Ack    *Ack
	Task   Task
	Number int // of the task
}

// NewSlot is the state machine of a server that was just registered: Created.
func NewSlot(incarnation string) *Slot { return &Slot{incarnation: incarnation, state: Created} }

// State returns the state.
func (s *Slot) State() State { return s.state }

// Reason says why a server is Broken.
func (s *Slot) Reason() string { return s.reason }

// Assignment returns what the server hosts, or nil.
func (s *Slot) Assignment() *Assignment { return s.assignment }

// Last returns how the partition before ended, or nil.
func (s *Slot) Last() *Outcome { return s.last }

// pendingState is what the pending request asks for, or 0.
func (s *Slot) pendingState() State {
	if s.pending == nil {
		return 0
	}
	return s.pending.State
}

// pendingID is the id of the pending request, or "".
func (s *Slot) pendingID() string {
	if s.pending == nil {
		return ""
	}
	return s.pending.ID
}

// Renew gives the server the incarnation of a new registration; requests for the one before are refused from then on.
func (s *Slot) Renew(incarnation string) { s.incarnation, s.seen, s.number = incarnation, "", 0 }

// Abandon gives the partition up without a request, as failed for a reason. A request that is being carried out ends
// with it. Nothing happens where there is no partition, or it is being given up already.
func (s *Slot) Abandon(reason error) Step {
	if s.assignment == nil || s.pending != nil && (s.pending.task == Terminate || s.pending.task == Exit) {
		return Step{}
	}
	p := &pending{transition: *find(s.state, Terminated), before: s.state, abandoned: reason}
	if s.pending != nil {
		p.Request, p.before = s.pending.Request, s.pending.before
	}
	s.state = Terminated
	s.tasks++
	p.number, s.pending = s.tasks, p
	return Step{Task: Terminate, Number: p.number}
}

// Open makes a created server Available.
func (s *Slot) Open() {
	if s.state == Created {
		s.state = Available
	}
}

// Ask looks at a request. One that was looked at already gives an empty step.
func (s *Slot) Ask(r Request) Step {
	if r.ID == s.seen {
		return Step{}
	}
	if r.Replaces == s.seen { // it was looked at in time: answered, or still carried out
		r.Replaces = ""
	}
	s.seen, s.number = r.ID, max(s.number, requestNumber(r.ID, s.incarnation))
	t, why := s.judge(&r)
	if why != "" {
		return Step{Ack: &Ack{Request: r.ID, Phase: Refused, State: s.state, Supersedes: r.Replaces,
			Pending: s.pendingID(), Seen: s.number, Error: why}}
	}
	p := &pending{Request: r, transition: *t, before: s.state, supersedes: r.Replaces}
	if s.pending != nil {
		p.supersedes, p.before = s.pending.ID, s.pending.before
	}
	if r.State == Reserved {
		own := *r.Assignment
		s.assignment, s.last = &own, nil
	}
	if t.task == Nothing {
		s.state = t.to
		return Step{Ack: s.ack(p, Applied, "", nil)}
	}
	if t.during != 0 {
		s.state = t.during
	}
	s.tasks++
	p.number, s.pending = s.tasks, p
	return Step{Ack: s.ack(p, Accepted, "", nil), Task: t.task, Number: p.number}
}

// judge finds what a request leads to, or why it is refused.
func (s *Slot) judge(r *Request) (*transition, string) {
	if r.Incarnation != s.incarnation {
		return nil, fmt.Sprintf("it is for the incarnation %q of this server, which is %q now: read it again",
			r.Incarnation, s.incarnation)
	}
	t := find(s.state, r.State)
	switch {
	case t == nil:
		return nil, fmt.Sprintf("a server that is %v can't become %v; it may be asked for: %s", s.state, r.State,
			allowed(s.state))
	case s.pending != nil && r.State != Exited && (r.State != Terminated || s.pending.State == Exited):
		return nil, fmt.Sprintf("the request %s for %v is still being carried out; Terminated or Exited may end it",
			s.pending.ID, s.pending.State)
	case r.State == Reserved && r.Assignment == nil:
		return nil, "Reserved needs an assignment"
	case r.State == Reserved:
		if err := r.Assignment.check(); err != nil {
			return nil, err.Error()
		}
	case r.State == Exited && r.Assignment == nil:
	case r.Assignment == nil || s.assignment == nil || *r.Assignment != *s.assignment:
		return nil, fmt.Sprintf("it is for %v, and this server has %v", r.Assignment, s.assignment)
	}
	return t, ""
}

// ack makes an answer to a pending request, if there is one.
func (s *Slot) ack(p *pending, phase Phase, result Result, err error) *Ack {
	if p.ID == "" {
		return nil
	}
	a := &Ack{Request: p.ID, Phase: phase, State: s.state, Supersedes: p.supersedes, Seen: s.number,
		Result: result}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// Done says that a task has ended, with an error of the partition or nil. Tasks that were superseded give an empty
// step.
func (s *Slot) Done(number int, err error) Step {
	p := s.pending
	if p == nil || p.number != number {
		return Step{}
	}
	s.pending = nil
	switch {
	case p.task == Terminate && err != nil:
		return s.fail(p, fmt.Errorf("the partition %v could not be given up: %w", s.assignment, err))
	case p.task == Exit:
		s.release(PartitionCanceled, nil)
		s.state = Exited
		return Step{Ack: s.ack(p, Applied, "", err)}
	case p.abandoned != nil:
		s.release(PartitionFailed, p.abandoned)
		s.state = Available
		return Step{Ack: s.ack(p, Failed, PartitionFailed, p.abandoned)}
	case p.task == Terminate:
		result := Result("")
		if past(p.before) {
			result = PartitionCanceled
		}
		s.release(result, nil)
		s.state = Available
		return Step{Ack: s.ack(p, Applied, result, nil)}
	case err != nil:
		s.release(PartitionFailed, err)
		s.state = Available
		return Step{Ack: s.ack(p, Failed, PartitionFailed, err)}
	}
	s.state = p.to
	return Step{Ack: s.ack(p, Applied, "", nil)}
}

// past tells whether a partition has got so far that giving it up counts as cancelled.
func past(s State) bool { return s == Ready || s == Active || s == Paused }

// fail breaks the server while a request is pending.
func (s *Slot) fail(p *pending, err error) Step {
	s.state, s.reason = Broken, err.Error()
	s.release(PartitionFailed, err)
	return Step{Ack: s.ack(p, Failed, PartitionFailed, err)}
}

// release forgets the assignment and keeps how it ended, where it is worth keeping.
func (s *Slot) release(result Result, err error) {
	if s.assignment != nil && result != "" {
		s.last = &Outcome{Assignment: *s.assignment, Result: result}
		if err != nil {
			s.last.Error = err.Error()
		}
	}
	s.assignment = nil
}

// Ended says that the partition has ended by itself: all done, or with an error. The server is Available again. A
// request that was being carried out meanwhile has failed, unless it gives the partition up anyway.
func (s *Slot) Ended(err error) Step {
	if s.state != Active && s.state != Paused {
		return Step{}
	}
	p, result := s.pending, PartitionFinished
	if err != nil {
		result = PartitionFailed
	}
	s.release(result, err)
	s.state = Available
	if p == nil || p.task == Exit {
		return Step{}
	}
	s.pending = nil
	return Step{Ack: s.ack(p, Failed, result, fmt.Errorf("the partition had ended before: %s", result))}
}

// Break says that the server itself can't be used any more. It can only be asked to exit.
func (s *Slot) Break(reason string) Step {
	if s.state == Exited || s.state == Broken {
		return Step{}
	}
	p := s.pending
	s.pending = nil
	err := fmt.Errorf("the server is broken: %s", reason)
	s.state, s.reason = Broken, reason
	s.release(PartitionFailed, err)
	if p == nil {
		return Step{}
	}
	return Step{Ack: s.ack(p, Failed, PartitionFailed, err)}
}
