// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/disco-sim/disco/cluster"
)

// Do is what an Action does.
type Do uint8

// What actions do.
const (
	DoMove   Do = iota + 1 // writes To into a piece, and removes Report, which it takes
	DoStand                // writes Standing
	DoAsk                  // asks Server for State with Assignment
	DoDrop                 // removes Report, which is of an attempt that doesn't count
	DoRemove               // removes an experiment with all that belongs to it
	DoHealth               // writes Health
	DoLoad                 // writes Load
)

// Action is something that a leader does: a commit, or a request to a server.
type Action struct {
	Do         Do
	ID         string // of the experiment
	Piece      PieceID
	Begins     bool // the piece has no key before
	From       PieceState
	To         Piece
	Report     *ReportAt
	Standing   Standing
	Server     string
	State      cluster.State
	Assignment cluster.Assignment
	Health     HealthReport
	Load       Load
}

// Defaults of Limits.
const (
	attemptsDefault   = 3
	startDefault      = 150 * time.Second
	noProgressDefault = 120 * time.Second
)

// Between tries of a piece: a random part of backoff × 2^tries, at most backoffMax.
const (
	backoff    = time.Second
	backoffMax = time.Minute
)

// A gang whose simulated time stands still while events happen is given extension / 2^n more, extensionsMax times.
const (
	extension     = 30 * time.Second
	extensionsMax = 5
)

// keepLeast is how long an experiment is kept behind its end, and its idempotency key with it: a retry of its
// submission may come.
const keepLeast = 300 * time.Second

// Decide decides what a leader does at a time, by its own clock that never goes back: first the moves of pieces, which
// are to be committed in this order, then the rest. It takes all of it for done: where something can't be done the
// state is to be read anew. It depends on s and now alone. What it returns holds until the next Decide of s, which
// takes the memory.
func Decide(s *State, now time.Duration) []Action {
	if s.now = now; s.began == never {
		s.began = now
	}
	clear(s.moves)
	clear(s.rest)
	s.moves, s.rest = s.moves[:0], s.rest[:0]
	s.trim()
	for s.due.Len() > 0 && time.Duration(s.due.First().Key) <= now {
		_, d := s.due.Pop()
		switch {
		case d.piece != nil:
			s.mark(d.piece)
		case d.experiment != nil:
			s.touch(d.experiment)
		case d.server == nil:
			s.placeable = true
		case !d.server.dirty:
			d.server.dirty = true
			s.strays = append(s.strays, d.server)
		}
	}
	s.judge()
	s.serve()
	s.dropReports()
	for _, e := range s.touched {
		s.weigh(e)
	}
	// What changes meanwhile is looked at by the next Decide: a piece moves once in each.
	pieces, touched, strays := s.pieces, s.touched, s.strays
	s.pieces, s.touched, s.strays = nil, nil, nil
	slices.SortFunc(pieces, func(a, b *piece) int {
		return cmp.Or(cmp.Compare(a.step.experiment.order, b.step.experiment.order), a.id.compare(b.id))
	})
	slices.SortFunc(touched, func(a, b *underway) int { return cmp.Compare(a.order, b.order) })
	slices.SortFunc(strays, func(a, b *server) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range pieces {
		p.dirty = false
		if e := p.step.experiment; e.pieces[p.id] == p && !e.gone {
			s.decide(p)
		}
	}
	for _, sv := range strays {
		sv.dirty = false
		s.stray(sv)
	}
	retried := false // then what is to be tried again comes before what hasn't begun: in the next Decide
	for _, e := range touched {
		e.dirty = false
		retried = s.retry(e) || retried
		s.openGates(e)
	}
	for _, e := range slices.Concat(touched, s.touched) { // by what has ended a moment ago
		s.weigh(e)
	}
	if s.placeable && !retried {
		s.place()
	}
	for _, e := range touched {
		s.stand(e)
	}
	s.keep()
	s.noteLoad()
	s.moves = append(s.moves, s.rest...)
	return s.moves
}

// move gives a piece its next value, with the report that it takes.
func (s *State) move(p *piece, to Piece, takes *ReportAt) {
	e := p.step.experiment
	to.Token = s.token
	p.record(&to)
	if to.State.Ended() {
		s.endedNow++
	}
	s.moves = append(s.moves, Action{Do: DoMove, ID: e.ID, Piece: p.id, Begins: p.State == 0,
		From: max(p.State, Waiting), To: to, Report: takes})
	if p.report != nil && takes == nil && (to.State.Ended() || to.State == Waiting) {
		s.stale = append(s.stale, *p.report)
	}
	if takes != nil {
		p.report = nil
	}
	s.become(p, to)
}

// dropReports removes reports of attempts that don't count.
func (s *State) dropReports() {
	for i := range s.stale {
		s.rest = append(s.rest, Action{Do: DoDrop, ID: s.stale[i].ID, Piece: s.stale[i].Piece, Report: &s.stale[i]})
	}
	s.stale = nil
}

// decide moves a piece, once at most, or asks its servers.
func (s *State) decide(p *piece) {
	if p.since == never {
		if p.since = s.now - p.Age; p.since == never {
			p.since--
		}
		p.noted = s.now
	}
	s.unsettle(p)
	s.noteReport(p)
	defer s.age(p)
	canceled, why := s.unwanted(p)
	switch p.State {
	case Waiting:
		s.waiting(p, canceled, why)
	case Dispatched, Running, Paused:
		switch {
		case s.ends(p):
		case canceled:
			s.cancel(p)
		default:
			s.gang(p)
		}
	case Held:
		switch {
		case s.ends(p):
		case canceled:
			s.cancel(p)
		case s.isGone(p):
			s.again(p)
		}
	case Canceling:
		if !s.ends(p) && s.isGone(p) {
			to := p.Piece
			to.State = Canceled
			s.move(p, to, p.report)
		}
	}
}

// waiting puts a piece that may be tried again into its experiment's queue.
func (s *State) waiting(p *piece, canceled bool, why *Error) {
	ready := p.since + p.Wait
	switch {
	case canceled:
		to := p.Piece
		to.State = Canceled
		if why != nil {
			to.Error = why
		}
		s.move(p, to, nil)
	case !p.step.mayBegin(): // it is looked at again when that has changed
		p.queued = false
	case p.queued:
	case ready > s.now:
		s.at(ready, deadline{piece: p})
	case p.retried() && !s.pay(p): // it is looked at again when it may
	default:
		p.queued, s.placeable = true, true
		p.step.experiment.again.Push(0, p)
		s.unfile(p.step.experiment)
	}
}

// cancel has a piece's servers told to give it up.
func (s *State) cancel(p *piece) {
	to := p.Piece
	to.State, to.Error = Canceling, p.why(s.leader)
	s.move(p, to, nil)
}

// ends takes the end that the report of the attempt tells, and says whether it was one.
func (s *State) ends(p *piece) bool {
	if p.report == nil {
		return false
	}
	r, to := &p.report.Report, p.Piece
	switch {
	case p.lacksFigures(r) && (p.State == Held || p.State == Canceling):
		return false
	case p.lacksFigures(r):
		s.hold(p, Error{Where: p.report.Member, Type: ErrorMachine, Message: unknownFigures},
			[]string{p.Gang[0].Member}, p.report)
		return true
	case r.State == Finished && r.Kept != nil && p.step.exported(r):
		to.State, to.Kept, to.Outputs, to.Texts, to.Error = Finished, r.Kept, r.Outputs, r.Texts, nil
	case p.State == Canceling:
		return false
	case r.State == Failed && r.Error != nil && r.Error.Final():
		to.State, to.Error = Failed, r.Error
	case r.State != Finished && r.State != Failed && r.State != Held && r.State != Canceled:
		return false
	case p.State == Held:
		return false // it is being ended, and tried again, anyway
	default:
		err := r.Error
		if err == nil && r.State == Canceled {
			err = &Error{Where: p.report.Member, Type: ErrorLeft, Message: "its agent was told to leave, and has " +
				"ended the attempt, at a checkpoint where one could be made: it is tried elsewhere, or there again"}
		}
		if err == nil {
			err = &Error{Where: p.report.Member, Type: ErrorMachine,
				Message: fmt.Sprintf("the attempt was %v there, and nobody had asked for that", r.State)}
		}
		s.hold(p, *err, []string{s.faulty(p, err.Where)}, p.report)
		return true
	}
	if p.Began == nil && !r.Began.IsZero() {
		began := r.Began
		to.Began = &began
	}
	s.move(p, to, p.report)
	return true
}

// faulty is the machine of a place that an error names: a server of the gang, or a machine. It is that of partition 0
// where it is neither; "" where nobody knows which one of several it was.
func (s *State) faulty(p *piece, where string) string {
	if where == "" && slices.ContainsFunc(p.Gang, func(g Server) bool { return g.Member != p.Gang[0].Member }) {
		return ""
	}
	for _, g := range p.Gang {
		if g.Name == where || g.Member == where {
			if s.isCut(g.Member, p.Gang) {
				return ""
			}
			return g.Member
		}
	}
	return p.Gang[0].Member
}

// hold ends an attempt, which machines are at fault with. One that a machine refused is spared, since nothing was
// tried, and so is one of which an agent has left in order. So is one for which the machine has too little memory, as
// long as others are there that haven't been tried.
func (s *State) hold(p *piece, err Error, machines []string, takes *ReportAt) {
	to := p.Piece
	to.State, to.Error, to.Fault = Held, &err, slices.Clone(p.Fault)
	if err.Type == ErrorMachine && s.haveLeft(p, machines) {
		err.Type = ErrorLeft
	}
	if err.isSpared() {
		to.Spared++
		machines = nil
	}
	known := len(to.Fault)
	for _, m := range machines {
		if m != "" && !slices.Contains(to.Fault, m) && len(to.Fault) < faultsMax {
			to.Fault = append(to.Fault, m)
		}
	}
	if err.Scarce && len(to.Fault) > known && s.capacityBut(p.step, to.Fault) >= p.step.gang() {
		to.Spared++
	}
	s.move(p, to, takes)
}

// haveLeft tells whether all of some machines leave in order, or have done so in an attempt: it ends by that, and they
// aren't at fault.
func (s *State) haveLeft(p *piece, machines []string) bool {
	return len(machines) > 0 && !slices.ContainsFunc(machines, func(name string) bool {
		m := s.machines[name]
		here := m != nil && m.left || p.left.attempt == p.Attempt && slices.Contains(p.left.machines, name)
		return !here
	})
}

// faultsMax bounds the machines that a piece isn't tried at.
const faultsMax = 20

// again has a piece tried again that nothing of the attempt is left of, or gives it up.
func (s *State) again(p *piece) {
	to, limit := p.Piece, p.step.experiment.Limits.Attempts
	if limit == 0 {
		limit = attemptsDefault
	}
	tried := p.Attempt - p.Spared
	if tried >= limit {
		to.State = Failed
		if to.Error != nil {
			err := *to.Error
			err.Decided = fmt.Sprintf("given up by %s after %d of %d attempts", s.leader, tried, limit)
			to.Error = &err
		}
	} else {
		to.State = Waiting
		to.Wait = jitter(p, min(backoffMax, backoff<<min(max(tried, 0), 10)))
	}
	s.move(p, to, nil)
}

// jitter is a part of a time, which depends on the piece and its attempt alone.
func jitter(p *piece, most time.Duration) time.Duration {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %v %d", p.step.experiment.ID, p.id, p.Attempt)
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd // FNV's upper bits of similar texts are alike
	return time.Duration(float64(most) * float64(x>>11) / (1 << 53))
}

// hosts tells whether a server has a part of the attempt of a piece that counts.
func (p *piece) hosts(sv *server, part int) bool {
	return sv.there && sv.hosts() && *sv.Info.Assignment == p.assignment(part)
}

// assignment is that of a part of a piece's attempt.
func (p *piece) assignment(part int) cluster.Assignment {
	if p.name == "" {
		p.name = AttemptID{p.id, p.Attempt}.String()
	}
	return cluster.Assignment{Experiment: p.step.experiment.ID, Replication: p.name, Partition: part}
}

// ask asks a server for a state, unless it was asked a moment ago; it is asked again where it doesn't move.
func (s *State) ask(sv *server, state cluster.State, a cluster.Assignment, again deadline) {
	now := asked{state, a, sv.Incarnation, s.now}
	was := sv.asked
	was.at = s.now
	if was == now && s.now-sv.asked.at < s.rules.AskAgain {
		s.at(sv.asked.at+s.rules.AskAgain, again) // somebody else may have asked: the piece that had the server
		return
	}
	if sv.State == cluster.Terminated && state == cluster.Terminated { // it does
		return
	}
	sv.asked = now
	s.rest = append(s.rest, Action{Do: DoAsk, ID: a.Experiment, Server: sv.Name, State: state, Assignment: a})
	s.at(s.now+s.rules.AskAgain, again)
}

// stray tells a server to give up an attempt that doesn't count any more.
func (s *State) stray(sv *server) {
	if !sv.there || !sv.hosts() {
		return
	}
	a := *sv.Info.Assignment
	if p := sv.promised; p != nil && p.hosts(sv, sv.part) {
		return
	}
	if _, err := ParseAttemptID(a.Replication); err != nil {
		return // somebody else's: a run that took the group's servers
	}
	s.ask(sv, cluster.Terminated, a, deadline{server: sv})
}
