// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/table"
)

// Role is the role of members that simulate pieces: they have an executor.
const Role = "fleet"

// The terms of a machine's score, in percent of its servers that are promised. The machine with the least score is
// taken. A machine that has hosted the experiment has its scenario, and one that has made the newest checkpoint of the
// piece may have it in memory: the two together are worth a machine that is half as busy.
const (
	bonusWarm       = 20
	bonusCheckpoint = 30
	malusSlow       = 200 // behind all that aren't slow
)

// place gives servers to pieces that wait.
func (s *State) place() {
	s.placeable = false
	s.pass++
	s.explainBare()
	if s.open == 0 {
		return
	}
	s.explain()
	s.placeHead()
	s.refile()
	s.placeLine(&s.line)
	s.placeAhead()
}

// explain tells whether a pass looks at all that wait, also where no machine that is well has a free server, to tell
// people why: as often as that is written.
func (s *State) explain() {
	if s.explains = s.now >= s.explained+ailsEvery; s.explains {
		s.explained, s.explaining = s.now, false
	}
}

// isBare is what people are told where no machine has a server at all, free or not.
const isBare = "no machine has servers for it: start an agent with --slots 1 or more on one"

// explainBare tells people why nothing is placed while no machine has a server: no pass looks at what waits then.
func (s *State) explainBare() {
	if bare := s.present == 0; bare != s.bare || bare {
		s.bare = bare
		for _, e := range s.order {
			switch {
			case bare && (e.reason == "" || e.reason == e.ailing) && s.wants(e):
				e.reason = isBare
				s.touch(e)
			case !bare && e.reason == isBare:
				e.reason = ""
				s.touch(e)
			}
		}
	}
}

// full tells whether no machine has a free server that may be given to anything. Those that weren't looked at for that
// are told so later.
func (s *State) full() bool {
	if s.explains {
		return false
	}
	for _, d := range s.demands {
		if len(s.fresh(d).free) > 0 {
			return false
		}
	}
	if !s.explaining {
		s.explaining = true
		s.at(s.explained+ailsEvery, deadline{})
	}
	return true
}

// wants tells whether something of an experiment may be placed.
func (s *State) wants(e *underway) bool {
	if e.gone || e.blocked || e.wish.Want != WantRun || e.frozen() || e.givenUp() {
		return false
	}
	s.tidy(e)
	if e.again.Len() > 0 {
		return true
	}
	return len(e.nexts()) > 0
}

// tidy takes what isn't waiting any more out of the queue of those that are tried again.
func (s *State) tidy(e *underway) {
	for e.again.Len() > 0 && (!e.again.First().Value.queued || e.again.First().Value.surplus()) {
		e.again.Pop()
	}
}

// nexts are the steps of which a piece may begin, in the order in which they are to.
func (e *underway) nexts() (steps []*step) {
	var prospects []prospect
	for _, t := range e.steps {
		if !t.hasMore() {
			continue
		}
		if prospects == nil {
			prospects = e.prospects()
		}
		if prospects[t.order] == open {
			steps = append(steps, t)
		}
	}
	return inTurn(steps)
}

// first is the piece of a step that begins next.
func (t *step) first() PieceID {
	for {
		at := PieceID{t.number, t.point + t.next/t.Replications, t.next % t.Replications}
		if t.experiment.pieces[at] == nil {
			return at
		}
		t.next++
	}
}

// placeHead tries the piece first that has reserved what becomes free, and ends a reservation that is over.
func (s *State) placeHead() {
	if s.head == nil {
		return
	}
	e, until := s.head.step.experiment, s.head.since+s.rules.Head
	wanted := s.wants(e)
	s.head = nil // it doesn't hinder itself
	switch {
	case !wanted:
	case s.now >= until && s.lifts(e) < 2:
		e.passed = s.now + s.rules.Head
		s.at(e.passed, deadline{})
	default:
		s.placeSince(e, until-s.rules.Head)
	}
}

// placeOne gives servers to one piece of an experiment, and says whether it did.
func (s *State) placeOne(e *underway) bool { return s.placeSince(e, s.now) }

// placeSince is placeOne; since is from when what finds no gang reserves what becomes free.
func (s *State) placeSince(e *underway, since time.Duration) bool {
	s.tidy(e)
	var lacks *step
	var fault []string
	if e.again.Len() > 0 {
		p := e.again.First().Value
		if gang := s.seek(p.step, &p.Piece); gang != nil {
			e.again.Pop()
			s.dispatch(p, gang)
			return true
		}
		lacks, fault = p.step, p.Fault
		if s.unfit(p.step) {
			e.again.Pop()
			s.fail(p)
			return true
		}
	}
	for _, t := range e.nexts() {
		if gang := s.seek(t, nil); gang != nil {
			s.dispatch(s.begin(e, t.first()), gang)
			return true
		}
		if s.ahead {
			continue // it reserves nothing
		}
		if lacks == nil {
			lacks = t
		}
		if s.unfit(t) {
			s.fail(s.begin(e, t.first()))
			return true
		}
	}
	if lacks != nil {
		s.illness(lacks)
	}
	if s.head == nil && lacks != nil && lacks.small == never && s.now >= e.passed && s.capacity(lacks) > 0 {
		s.head = &claim{lacks, fault, since}
		if s.lifts(e) < 2 {
			s.at(since+s.rules.Head, deadline{})
		}
	}
	return false
}

// dispatch promises servers to a piece.
func (s *State) dispatch(p *piece, gang []Server) {
	e := p.step.experiment
	e.waits = s.now
	if e.reason != "" {
		e.reason = ""
	}
	if p.Attempt == 0 {
		s.retries.fit(s.rules.Retries, s.present)
		s.retries.budget.First(s.now)
	}
	to := p.Piece
	to.State, to.Attempt, to.Gang, to.Wait = Dispatched, p.Attempt+1, gang, 0
	to.Began, to.Ended, to.Kept, to.Inputs, to.Counts = nil, nil, nil, p.step.inputs(), p.step.closesOf()
	s.move(p, to, nil)
}

// unfit tells whether machines have been too few for a step's gang for so long that it has failed.
func (s *State) unfit(t *step) bool {
	servers := s.capacity(t)
	if servers >= t.gang() {
		t.small = never
		return false
	}
	t.experiment.reason = s.lacks(t)
	s.touch(t.experiment)
	if servers == 0 {
		t.small = never // machines may come yet
		return false
	}
	if t.small == never {
		t.small = s.now
		s.at(s.now+s.rules.TooFew, deadline{})
	}
	return s.now-t.small >= s.rules.TooFew
}

// lacks says what a step wants, and what there is.
func (s *State) lacks(t *step) string {
	e := t.experiment
	text := fmt.Sprintf("a gang of step %d wants %s", t.number, table.Plural(t.gang(), "server"))
	if len(e.Labels) > 0 {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(e.Labels)) {
			labels = append(labels, key+"="+e.Labels[key])
		}
		text += " with the labels " + strings.Join(labels, ",")
	}
	if e.Version != "" {
		text += " and disco " + e.Version
	}
	x := s.sumsBut(t, nil)
	return bounded(fmt.Sprintf("%s; such a machine has %d at most, and those whose agents take runs over several "+
		"machines (--listen) have %d together", text, x.alone, x.joined()), MaxReason)
}

// fail ends a piece for which no machine will ever do.
func (s *State) fail(p *piece) {
	to := p.Piece
	to.State, to.Error = Failed, &Error{Type: ErrorFit, Decided: s.leader, Message: s.lacks(p.step)}
	s.move(p, to, nil)
}

// gang is how many servers a piece of a step needs.
func (t *step) gang() int { return max(t.Workers, 1) }

func (s *State) isDrained(name string) bool { return contains(s.drained, name) }

// seek is find, as long as something is placed: what has been in vain for others isn't tried again.
func (s *State) seek(t *step, was *Piece) []Server {
	s.fresh(t.experiment.demand)
	if s.isShort(t) {
		return nil
	}
	gang, short := s.find(t, was)
	if short {
		s.noteShort(t)
	}
	return gang
}

// find chooses the servers of a gang: of as few machines as possible, of those with the least score, by name. nil:
// there are none now; short: nor are there for others of as many servers. A machine at fault with the piece is taken
// only where the others would never do.
func (s *State) find(t *step, was *Piece) (gang []Server, short bool) {
	var fault []string
	if was != nil && len(was.Fault) > 0 && s.capacityBut(t, was.Fault) >= t.gang() {
		fault = was.Fault
	}
	if best := s.bestFree(t, was, fault); best != nil {
		return s.pick(nil, best, t.gang()), false
	}
	short = true
	if t.gang() > 1 {
		gang, short = s.findMany(t, was, fault)
	}
	return gang, short && fault == nil
}

// may tells whether a machine may be taken for a step now.
func (s *State) may(m *machine, t *step, fault []string) bool {
	x := &s.fresh(t.experiment.demand).portions[m.number]
	return !slices.Contains(fault, m.Name) && x.fits && x.well && !s.reserved(m, t)
}

// freeOf is how many servers of a machine may be taken.
func (s *State) freeOf(m *machine) int {
	free := m.free
	if len(s.drained) > 0 {
		free = len(s.pick(nil, m, len(m.servers)))
	}
	if m.vitals != nil { // machines behind it are away
		free = min(free, max(0, len(m.servers)-m.promised-m.vitals.Lacks))
	}
	return free
}

// pick adds a machine's free servers to a gang, by name, until it is whole.
func (s *State) pick(gang []Server, m *machine, want int) []Server {
	for _, sv := range m.servers {
		if len(gang) < want && sv.free && !s.isDrained(sv.Name) {
			gang = append(gang, Server{Name: sv.Name, Member: m.Name, Incarnation: sv.Incarnation})
		}
	}
	return gang
}

// reserved tells whether what becomes free of a machine is for the first in the queue, and not for this step.
func (s *State) reserved(m *machine, t *step) bool {
	return s.head != nil && s.head.step != t && !slices.Contains(s.head.fault, m.Name) &&
		s.fresh(s.head.step.experiment.demand).portions[m.number].fits
}

// score is a machine's, for a piece.
func score(m *machine, e *underway, was *Piece) int {
	load, warm, checkpoint, slow := terms(m, e, was)
	return load - warm - checkpoint + slow
}

func terms(m *machine, e *underway, was *Piece) (load, warm, checkpoint, slow int) {
	load = m.load()
	if e.warm[m] {
		warm = bonusWarm
	}
	if was != nil && len(was.Gang) > 0 && was.Gang[0].Member == m.Name {
		checkpoint = bonusCheckpoint
	}
	return load, warm, checkpoint, malusSlow * m.slow()
}

// load is how many percent of a machine's servers are promised.
func (m *machine) load() int { return 100 * m.promised / max(len(m.servers), 1) }

// Has tells whether an experiment has a piece.
func (s *Spec) Has(p PieceID) bool {
	if p.Step < 0 || p.Step >= len(s.Steps) {
		return false
	}
	t := &s.Steps[p.Step]
	return p.Point >= 0 && p.Point < len(t.Points) && p.Replication >= 0 && p.Replication < t.Replications ||
		s.IsClosing(p)
}

// Why says which machines a piece could be given now, and which not and for what reason, with the terms of their
// scores: the text of show --why.
func (s *State) Why(id string, at PieceID) string {
	e := s.experiments[id]
	if e == nil || !e.Has(at) {
		return fmt.Sprintf("there is no piece %v of an experiment %q\n", at, id)
	}
	t := e.stepOf(at)
	var was *Piece
	var text strings.Builder
	if p := e.pieces[at]; p != nil {
		was = &p.Piece
		text.WriteString(s.history(p))
	}
	fmt.Fprintf(&text, "piece %v of %s wants %s; the least score is taken: load - warm - checkpoint + slow\n",
		at, id, table.Plural(t.gang(), "server"))
	if s.capacity(t) < t.gang() {
		fmt.Fprintln(&text, s.lacks(t))
	}
	if s.head != nil {
		fmt.Fprintf(&text, "step %d of %s has reserved what becomes free\n", s.head.step.number,
			s.head.step.experiment.ID)
	}
	for _, m := range s.byName {
		name := m.Name
		why := cmp.Or(s.fits(m, e.demand), m.unwell())
		switch {
		case why != "":
			fmt.Fprintf(&text, "%-20s no: %s\n", name, why)
			continue
		case was != nil && slices.Contains(was.Fault, name):
			why = "; at fault: taken where no other will do"
		case s.reserved(m, t):
			why = "; reserved"
		}
		if m.condition.Reason != "" {
			why += "; " + m.condition.Reason
		}
		if m.vitals != nil && m.vitals.Lacks > 0 {
			why += fmt.Sprintf("; %d of its servers can't be used", m.vitals.Lacks)
		}
		load, warm, checkpoint, slow := terms(m, e, was)
		fmt.Fprintf(&text, "%-20s %d of %d servers free, score %d = %d - %d - %d + %d%s\n", name, m.free,
			len(m.servers), load-warm-checkpoint+slow, load, warm, checkpoint, slow, why)
	}
	text.WriteString(s.whyGang(t, was))
	return text.String()
}
