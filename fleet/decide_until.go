// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"

	"github.com/disco-sim/disco/internal/until"
)

// ending is what a leader knows of a step that ends by its rule: when the replications in their order are enough.
type ending struct {
	rule   *until.Rule
	known  int  // the first so many have finished, and the rule has seen them
	enough int  // with so many there are enough; 0: not yet
	blind  bool // one says nothing of its figures: all are simulated, and who puts them together ends by the rule
	lost   bool // one that counts won't finish, as when this was looked at last
	beyond int  // pieces from here on don't count
	ahead  int  // so many may begin beyond those that it will take by all that is known
}

// endingOf is that of a step; nil: it has no rule.
func (s *State) endingOf(t *Step) *ending {
	rule, err := until.New(t.Until)
	if len(t.Until) == 0 || err != nil {
		return nil // checked when it was read
	}
	rule.Least = s.rules.FirstSample
	return &ending{rule: rule, beyond: t.Replications}
}

// weigh finds out which pieces of an experiment's steps count: by a rule the first ones with which there are enough,
// and none behind one that has failed. What runs or waits and doesn't count is looked at.
func (s *State) weigh(e *underway) {
	for _, t := range e.steps {
		if t.until == nil || e.gone || e.frozen() {
			continue
		}
		s.unfile(e)
		before, enough, lost := t.until.beyond, t.until.enough, t.until.lost
		t.weigh()
		t.until.lost = t.failed()
		if (t.until.enough != enough || t.until.lost != lost) && len(e.steps) > 1 { // for what waits for it
			e.gates, s.placeable = true, true
			s.touch(e)
		}
		if t.until.beyond >= before {
			continue
		}
		for id, p := range e.pieces {
			if id.Step == t.number && p.surplus() && !p.State.Ended() {
				s.mark(p)
			}
		}
	}
}

func (t *step) weigh() {
	u := t.until
	if t.counts[Finished] < u.known { // it was begun anew
		u.known, u.enough, u.blind = 0, 0, false
	}
	for u.enough == 0 && !u.blind && u.known < t.total() {
		p := t.at(u.known)
		if p == nil || p.State != Finished {
			break
		}
		if u.blind = p.Kept.Figures == nil; u.blind {
			break
		}
		u.rule.Look(u.known, p.Kept.of)
		u.known++
		if u.rule.Enough() {
			u.enough = u.known
		}
	}
	u.beyond = t.total()
	if u.enough > 0 {
		u.beyond = u.enough
		return
	}
	if t.counts[Failed] == 0 || u.blind {
		return
	}
	for id, p := range t.experiment.pieces {
		if id.Step == t.number && p.State == Failed {
			u.beyond = min(u.beyond, id.Replication+1)
		}
	}
}

// at is a replication of a step with a rule, which has one point; nil: it hasn't begun.
func (t *step) at(replication int) *piece {
	return t.experiment.pieces[PieceID{Step: t.number, Replication: replication}]
}

// surplus tells whether a piece doesn't count.
func (p *piece) surplus() bool {
	u := p.step.until
	return u != nil && p.id.Replication >= u.beyond
}

// why says why a piece that doesn't count is given up; nil: it isn't for that.
func (p *piece) why(leader string) *Error {
	switch u := p.step.until; {
	case !p.surplus():
		return p.Error
	case u.enough > 0:
		return &Error{Type: ErrorEnough, Decided: leader, Message: fmt.Sprintf("%d replications are enough", u.enough)}
	default:
		return &Error{Type: ErrorCanceled, Decided: leader,
			Message: fmt.Sprintf("replication %d has failed, and what comes behind it doesn't count", u.beyond-1)}
	}
}

// lacksFigures tells whether an end that is reported says nothing of figures that its step must know.
func (p *piece) lacksFigures(r *Report) bool {
	return p.step.until != nil && r.State == Finished && r.Kept != nil && r.Kept.Figures == nil
}

// sure is how many pieces of a step it will take by all that is known.
func (t *step) sure() int {
	u := t.until
	if u == nil || u.blind {
		return t.total()
	}
	return min(u.beyond, u.rule.Predicted(t.total()))
}

// hasMore tells whether a step has a piece that hasn't begun, and is to.
func (t *step) hasMore() bool {
	if t.begun >= t.total() || t.unfit > 0 {
		return false
	}
	return t.until == nil || t.first().Replication < min(t.until.beyond, t.sure()+t.until.ahead)
}

// placeAhead gives servers that nothing else wants to pieces that may turn out to count: as many of a step as there are
// free servers, those that have begun so counted.
func (s *State) placeAhead() {
	free := s.free
	if free == 0 {
		return
	}
	var all turns
	for _, e := range s.ruled {
		ahead := false
		for _, t := range e.steps {
			if u := t.until; u != nil && u.enough == 0 && t.begun < t.total() {
				u.ahead = t.begunAhead() + free/t.gang()
				ahead = true
			}
		}
		if ahead && s.wants(e) {
			all.add(s.class(e), e)
		}
	}
	s.ahead = true
	s.placeLine(&all)
	s.ahead = false
	for _, e := range s.ruled {
		for _, t := range e.steps {
			if t.until != nil {
				t.until.ahead = 0
			}
		}
	}
}

// begunAhead is how many pieces have servers beyond those that it will take.
func (t *step) begunAhead() (count int) {
	for i := t.sure(); i < t.first().Replication; i++ {
		if p := t.at(i); p != nil && p.State.Holds() {
			count++
		}
	}
	return count
}

// unsure tells whether a step of an experiment ends by its rule, and may take more than has begun.
func (e *underway) unsure() bool {
	for _, t := range e.steps {
		if t.until != nil && t.until.enough == 0 && t.begun < t.total() {
			return true
		}
	}
	return false
}

// isDone tells whether nothing more of a step is to be simulated, and all that counts has ended well.
func (t *step) isDone() bool {
	return t.until != nil && t.until.enough > 0 || t.counts[Finished] == t.total()
}

// lost is how many pieces of a step have failed, and how many were cancelled, that count. By a rule it is known of the
// first that hasn't finished alone: of those behind it isn't known yet whether they count, or they don't.
func (t *step) lost() (failed, canceled int) {
	u := t.until
	switch {
	case u == nil || u.blind:
		return t.counts[Failed], t.counts[Canceled]
	case u.enough > 0 || u.known == t.total():
		return 0, 0
	}
	if p := t.at(u.known); p != nil {
		return b2i(p.State == Failed), b2i(p.State == Canceled)
	}
	return 0, 0
}

// isCut tells whether pieces of a step that haven't begun don't count.
func (t *step) isCut() bool { return t.until != nil && t.until.beyond < t.total() }

// isBehind tells whether a piece is behind those with which there are enough.
func (p *piece) isBehind() bool { return p.step.until != nil && p.step.until.enough > 0 && p.surplus() }

// parts adds to how many pieces of each status there are what a step has, of which left haven't begun and are in the
// state rest. What doesn't count is passed over.
func (t *step) parts(all map[Status]int, rest PieceState, left int) {
	u := t.until
	ruled := u != nil && !u.blind
	for at, count := range t.counts {
		state := PieceState(at)
		if count > 0 && !(ruled && (state == Failed || state == Canceled)) {
			all[state.Status()] += count
		}
	}
	if left > 0 && (!ruled || rest == Waiting) {
		all[rest.Status()] += left
	}
	if !ruled {
		return
	}
	if rest == Canceled && u.enough == 0 && u.known < t.total() && t.at(u.known) == nil {
		all[StatusCanceled]++
	}
	failed, canceled := t.lost()
	all[StatusFailed] += failed
	all[StatusCanceled] += canceled
}

// sufficient says of which steps there are enough replications.
func (e *underway) sufficient() (all []Enough) {
	for _, t := range e.steps {
		if t.until != nil && t.until.enough > 0 {
			all = append(all, Enough{t.number, t.until.enough})
		}
	}
	return all
}
