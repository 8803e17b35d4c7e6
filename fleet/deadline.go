// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
)

// What a deadline is counted from is in the store, so that another leader goes on with it where the one before has
// stopped: what the agent says of its run, by its own clock; how long a piece has been in its state, which leaders note
// in it from time to time; and the extensions that it has been granted. docs/fleet.md, "Deadlines", has the rules.

// Extended is what a piece was granted beyond a deadline, in the piece. It holds as long as simulated time stands at
// Now, or, of one that is being ended, until nothing of it is left.
type Extended struct {
	Count  int     `json:"count"` // of extensions, each half as long as the one before
	Now    float64 `json:"now"`   // simulated seconds
	Events uint64  `json:"events"`
	Saved  int     `json:"saved,omitempty"` // checkpoints, when it was granted
	By     string  `json:"by,omitempty"`    // the leader that has granted the last one
}

// Past is how an earlier attempt at a piece has ended.
type Past struct {
	Attempt int    `json:"attempt"`
	Where   string `json:"where,omitempty"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Decided string `json:"decided,omitempty"`
}

// Left is a server that an attempt had, and that hadn't given it up when that was waited for no longer. It is given to
// no piece until it has; what it does is fenced.
type Left struct {
	Server  string `json:"server"`
	Member  string `json:"member"`
	Attempt int    `json:"attempt"`
	Is      string `json:"is"` // its state then
}

// Bounds of these in a record.
const (
	pastMost    = 10
	pastMessage = 300 // bytes
	leftMost    = 20  // of an experiment's standing
)

// granted is how much longer something may take that was granted so many extensions.
func granted(count int) (more time.Duration) {
	for i := range min(count, extensionsMax) {
		more += extension >> i
	}
	return more
}

// known is since when a leader has known what it knows of a run.
type known struct {
	version metastore.Version // of the report
	at      time.Duration     // when that was seen first
	moved   time.Duration     // when simulated time was seen to move last
	now     float64
	events  uint64 // that had been handled then
}

// noteReport notes when a report was seen first.
func (s *State) noteReport(p *piece) {
	if p.report == nil || p.report.Version == p.known.version {
		return
	}
	x := &p.report.Report.Progress
	first := p.known.version == metastore.Version{}
	p.known.version, p.known.at = p.report.Version, s.now
	if first || x.Now > p.known.now || x.Anew(p.known.now, p.known.events) {
		p.known.moved, p.known.now, p.known.events = s.now, x.Now, x.Events
		if x.Ran > 0 { // else the agent is one that doesn't say it
			p.known.events = min(x.Events, x.MovedEvents)
		}
	}
}

// unseen is how long nothing was told of a piece in its state.
func (s *State) unseen(p *piece) time.Duration {
	if p.report == nil {
		return s.now - p.since
	}
	return s.now - max(p.known.at, p.since)
}

// progressOf is how far a piece is, as far as that is known.
func progressOf(p *piece) Progress {
	if p.report == nil {
		return Progress{}
	}
	return p.report.Report.Progress
}

// Looked tells that reports were read which are as new as that time, of the clock that Decide gets. A deadline ends
// nothing before reports were read behind it: what moves isn't ended since nobody has looked.
func (s *State) Looked(at time.Duration) { s.looked, s.wantsLook = at, false }

// WantsLook tells whether reports are to be read now, and then is to be decided again.
func (s *State) WantsLook() bool { return s.wantsLook }

// isOver tells whether a deadline is over, by what was read behind it.
func (s *State) isOver(p *piece, until time.Duration) bool {
	switch {
	case s.now < until:
		return false
	case s.looked < until:
		s.wantsLook = true
		s.at(s.now+lookEvery, deadline{piece: p})
		return false
	}
	return true
}

// stands is for how long a piece's simulated time has stood.
func (s *State) stands(p *piece) time.Duration { return s.now - p.stillSince() }

// stillSince is since when it has, as far as is known. An agent that says how long doesn't count while the run is
// paused, which a leader may not have seen: what only waits to go on hasn't stood.
func (p *piece) stillSince() time.Duration {
	told := p.since
	if p.report != nil {
		x := &p.report.Report.Progress
		if told = max(p.known.at, p.since) - x.Still; x.Ran > 0 {
			return told
		}
	}
	return min(told, max(p.known.moved, p.since))
}

// watch holds a gang that simulates to its limits: of the attempt as a whole, and without progress.
func (s *State) watch(p *piece) {
	limits, at, unseen := p.step.experiment.Limits, progressOf(p), s.unseen(p)
	quiet := limits.NoProgress
	if quiet == 0 {
		quiet = noProgressDefault
	}
	if p.step.closes != nil { // nothing is simulated
		quiet = max(quiet, closingMost)
	}
	stands := s.stands(p)
	x := Extended{Now: at.Now, Events: p.known.events}
	if was := p.Extended; was != nil && was.Now == at.Now {
		x = *was
	}
	p.meter.measure(p.Attempt, s.now, at.Now)
	end := s.now - stands + quiet + granted(x.Count)
	next := end
	if limits.Total > 0 {
		ran := max(at.Ran+unseen, s.now-p.since)
		total := s.now - ran + limits.Total
		if next = min(next, total); s.isOver(p, total) {
			s.hold(p, Error{Type: ErrorDeadline, Decided: s.leader, Message: fmt.Sprintf(
				"the attempt has simulated for %v, and took longer than %v", ran.Round(time.Second),
				limits.Total)}, nil, nil)
			return
		}
	}
	switch over := s.isOver(p, end); {
	case over && at.Events > x.Events && x.Count < extensionsMax:
		s.extend(p, x, at)
		return
	case over && s.waitsFor(p):
		return
	case over:
		s.hold(p, Error{Type: ErrorDeadline, Decided: s.leader, Message: fmt.Sprintf("simulated time has stood at "+
			"%g s for %v, with %d extensions; %d events were handled meanwhile", at.Now, stands.Round(time.Second),
			x.Count, at.Events-min(at.Events, p.known.events))}, []string{s.faulty(p, "")}, nil)
		return
	}
	if next > s.now {
		s.at(next, deadline{piece: p})
	}
}

// extend grants a piece more time, since it moves.
func (s *State) extend(p *piece, x Extended, at Progress) {
	x.Count, x.Now, x.Events, x.Saved, x.By = x.Count+1, at.Now, at.Events, at.Checkpoints, s.leader
	to := p.Piece
	to.Extended = &x
	s.note(p, to)
}

// note writes something into a piece that stays in its state.
func (s *State) note(p *piece, to Piece) {
	to.Token, to.Age = s.token, max(to.Age, s.now-p.since)
	p.noted = s.now
	s.moves = append(s.moves, Action{Do: DoMove, ID: p.step.experiment.ID, Piece: p.id, From: p.State, To: to})
	p.Piece = to
	s.mark(p)
}

// counts tells whether something ends that is counted from when a piece came into its state.
func (p *piece) counts() bool {
	switch p.State {
	case Dispatched, Paused, Held, Canceling:
		return true
	case Running:
		return p.report == nil
	case Waiting:
		return p.Wait > 0 && !p.queued
	}
	return false
}

// age notes how long a piece has been in its state, so that another leader goes on from there.
func (s *State) age(p *piece) {
	if !p.counts() || p.since == never {
		return
	}
	if s.now-p.noted >= s.rules.Note {
		s.note(p, p.Piece)
	}
	s.at(p.noted+s.rules.Note, deadline{piece: p})
}

// stopping is how long a piece's servers may take to give it up before they are told to exit: longer for a run that
// gets on with its end.
func (s *State) stopping(p *piece) time.Duration {
	at := progressOf(p)
	x := Extended{}
	if p.Extended != nil {
		x = *p.Extended
	}
	stop := s.rules.Stop + granted(x.Count)
	moves := at.Now > x.Now || at.Events > x.Events || at.Checkpoints > x.Saved
	if s.now-p.since >= stop && at.Stopping && moves && x.Count < extensionsMax {
		s.extend(p, x, at)
		stop = s.rules.Stop + granted(x.Count+1)
	}
	return stop
}

// isGone tells whether nothing of an attempt is left, and tells what is left to go. What doesn't is told to exit, and
// is passed over at last: it is fenced, as its reports are those of an older attempt from then on, and no piece is
// given its server. What a new leader sees of servers may be older than what it has read of pieces, so for a moment it
// takes only those for gone that show it.
func (s *State) isGone(p *piece) bool {
	p.overdue = nil
	var parts []int
	shown := true
	for i, g := range p.Gang {
		sv := s.servers[g.Name]
		if sv != nil && sv.promised == p && p.hosts(sv, i) {
			parts = append(parts, i)
		}
		shown = shown && sv != nil && p.letGo(sv, i)
	}
	if until := s.began + s.rules.Settle; len(parts) == 0 && !shown && s.now < until {
		s.at(until, deadline{piece: p})
		return false
	}
	if len(parts) == 0 {
		return true
	}
	waits, stop := s.now-p.since, s.stopping(p)
	if waits >= stop+s.rules.Stop {
		for _, i := range parts {
			g := p.Gang[i]
			p.overdue = append(p.overdue, Left{g.Name, g.Member, p.Attempt, s.servers[g.Name].State.String()})
		}
		return true
	}
	state, next := cluster.Terminated, stop
	if waits >= stop {
		state, next = cluster.Exited, stop+s.rules.Stop
	}
	for _, i := range parts {
		s.ask(s.servers[p.Gang[i].Name], state, p.assignment(i), deadline{piece: p})
	}
	s.at(p.since+next, deadline{piece: p})
	return false
}

// letGo tells whether a server shows that it has ended its part of an attempt, or is another one by now.
func (p *piece) letGo(sv *server, part int) bool {
	ended := sv.Last != nil && sv.Last.Assignment == p.assignment(part)
	return sv.there && (ended && !sv.hosts() || sv.Incarnation != p.Gang[part].Incarnation)
}

// record completes a piece's next value with what is kept of the ones before.
func (p *piece) record(to *Piece) {
	to.Age = 0
	if (p.State == Held || p.State == Canceling) && to.State != Canceling {
		to.Left = p.overdue
	}
	switch {
	case to.State == Dispatched, to.State == Waiting:
		to.Extended = nil
	case to.State == Held || to.State == Canceling:
		at := progressOf(p)
		to.Extended = &Extended{Now: at.Now, Events: at.Events, Saved: at.Checkpoints}
	}
	if to.State == Held && to.Error != nil {
		e := to.Error
		to.Past = append(slices.Clone(p.Past), Past{to.Attempt, e.Where, e.Type, bounded(e.Message, pastMessage),
			e.Decided})
		to.Past = to.Past[max(0, len(to.Past)-pastMost):]
	}
}

// left are the servers that wouldn't stop, of the first pieces that have some.
func (e *underway) left() (all []string) {
	if e.lefts == 0 {
		return nil
	}
	for _, id := range inOrder(e.pieces) {
		for _, l := range e.pieces[id].Left {
			if len(all) == leftMost {
				return all
			}
			all = append(all, fmt.Sprintf("%s of %s, with attempt %v, %s", l.Server, l.Member,
				AttemptID{id, l.Attempt}, l.Is))
		}
	}
	return all
}

// history says how a piece is, how its attempts have ended and who has decided that, for State.Why.
func (s *State) history(p *piece) string {
	var text strings.Builder
	fmt.Fprintf(&text, "it is %v, attempt %d", p.State, p.Attempt)
	if p.Age > 0 {
		fmt.Fprintf(&text, ", for %v or more", p.Age.Round(time.Second))
	}
	text.WriteByte('\n')
	if at := progressOf(p); p.report != nil && p.State == Running {
		fmt.Fprintf(&text, "it has simulated %g s of %g s in %v, and stands there for %v\n", at.Now, at.Horizon,
			at.Ran.Round(time.Second), at.Still.Round(time.Second))
	}
	if x := p.Extended; x != nil && x.Count > 0 {
		fmt.Fprintf(&text, "it was granted %d of %d extensions, %v, the last one by %s: it had handled %d events\n",
			x.Count, extensionsMax, granted(x.Count), x.By, x.Events)
	}
	for _, past := range p.Past {
		fmt.Fprintf(&text, "attempt %d ended: %s", past.Attempt, past.Type)
		if past.Where != "" {
			fmt.Fprintf(&text, " at %s", past.Where)
		}
		fmt.Fprintf(&text, ": %s", past.Message)
		if past.Decided != "" {
			fmt.Fprintf(&text, " (decided by %s)", past.Decided)
		}
		text.WriteByte('\n')
	}
	for _, l := range p.Left {
		fmt.Fprintf(&text, "%s of %s wouldn't give attempt %d up: it was %s\n", l.Server, l.Member, l.Attempt, l.Is)
	}
	return text.String()
}
