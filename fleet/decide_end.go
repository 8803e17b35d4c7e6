// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"
)

// errorsMost is how many errors a standing lists; countEvery how often its counts are written, and ailsEvery other
// names and numbers of machines that aren't well: all that wait are told of them, and with each change all of these
// would be written.
const (
	errorsMost = 20
	countEvery = time.Second
	ailsEvery  = 10 * time.Second
)

// total is how many pieces a step has.
func (t *step) total() int { return len(t.Points) * max(t.Replications, 0) }

// frozen tells whether an experiment has ended, and nobody has asked for a retry.
func (e *underway) frozen() bool { return e.standing.Ended && e.wish.Retry <= e.standing.Retry }

// stand writes how far an experiment is, where that has changed: counts alone once a second.
func (s *State) stand(e *underway) {
	if e.gone {
		return
	}
	if e.frozen() {
		s.queue(e, 0)
		s.over(e)
		return
	}
	now := s.standing(e)
	s.queue(e, now.Pieces[Waiting])
	was, ails, every := &e.standing, now.Reason != "" && now.Reason == e.ailing, countEvery
	known := was.Reason == now.Reason
	if !known && ails && e.ails {
		every = ailsEvery
	}
	same := e.written && was.Status == now.Status && was.Ended == now.Ended && was.Wish == now.Wish &&
		(known || every == ailsEvery) && was.Failed == now.Failed && slices.Equal(was.Left, now.Left) &&
		sameSteps(was.Steps, now.Steps) && slices.Equal(was.Enough, now.Enough)
	switch {
	case same && known && sameCounts(was, &now):
		return
	case same && e.counted != never && s.now < e.counted+every:
		s.at(e.counted+every, deadline{experiment: e})
		return
	}
	e.standing, e.written, e.counted, e.ails = now, true, s.now, ails
	s.unfile(e)
	s.rest = append(s.rest, Action{Do: DoStand, ID: e.ID, Standing: now})
	if now.Ended {
		s.over(e)
	}
}

// standing is how far an experiment is.
func (s *State) standing(e *underway) (now Standing) {
	now = Standing{Pieces: map[PieceState]int{}, Wish: e.standing.Wish, Retry: e.standing.Retry, Leader: s.leader,
		Began: e.standing.Began, Reason: e.reason}
	prospects, parts := e.prospects(), map[Status]int{}
	now.Steps = e.stepStandings(prospects)
	for i, t := range e.steps {
		rest, left := t.add(now.Pieces, prospects[i])
		t.parts(parts, rest, left)
	}
	busy := now.Pieces[Waiting]
	for state, count := range now.Pieces {
		if state.Holds() {
			busy += count
		}
	}
	now.Ended, now.Status, now.Failed = busy == 0, All(parts), parts[StatusFailed]
	now.Enough = e.sufficient()
	now.Left = e.left()
	if now.Failed > 0 {
		now.Errors = e.errors(now.Failed)
	}
	moving := now.Pieces[Dispatched] + now.Pieces[Running]
	if e.wish.Want == WantRun || now.Ended || e.wish.Want == WantPause && moving == 0 {
		now.Wish = e.wish.Number
	}
	switch {
	case e.wish.Want == WantCancel:
		now.Reason = e.wish.reason("cancelled")
	case e.wish.Want == WantPause && !now.Ended:
		now.Reason = e.wish.reason("paused")
	case now.Ended:
		now.Reason = ""
	}
	return now
}

// reason says who has had an experiment paused or cancelled, and why where that was given.
func (w *Wish) reason(done string) string {
	text := done + " by " + w.By
	if w.Why != "" {
		text += ": " + w.Why
	}
	return bounded(text, MaxReason)
}

// errors are the first errors by piece. They are the same as long as as many pieces have failed.
func (e *underway) errors(failed int) []PieceError {
	if e.standing.Failed == failed && e.written {
		return e.standing.Errors
	}
	var all []PieceError
	for _, p := range e.pieces {
		if p.State == Failed && p.Error != nil && !p.isBehind() {
			short := *p.Error
			short.Trace = "" // it is the piece's, and may be long
			all = append(all, PieceError{p.id, p.Attempt, short})
		}
	}
	slices.SortFunc(all, func(a, b PieceError) int { return a.Piece.compare(b.Piece) })
	return all[:min(len(all), errorsMost)]
}

// over notes that an experiment has ended.
func (s *State) over(e *underway) {
	if e.ended == never {
		e.ended = s.now
		s.ended++
	}
	if until := e.ended + keepLeast; s.now < until {
		s.at(until, deadline{experiment: e})
	}
}

// keep removes the experiments that have ended and were submitted first, where there are too many.
func (s *State) keep() {
	for i := 0; s.ended > s.rules.Keep && i < len(s.order); {
		e := s.order[i]
		if e.ended == never || s.now < e.ended+keepLeast {
			i++
			continue
		}
		e.gone = true
		s.ended--
		s.order = slices.Delete(s.order, i, i+1)
		delete(s.experiments, e.ID)
		s.forgo(e.demand)
		s.ruled = slices.DeleteFunc(s.ruled, func(x *underway) bool { return x == e })
		s.rest = append(s.rest, Action{Do: DoRemove, ID: e.ID})
	}
}
