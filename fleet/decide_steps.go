// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// newSteps makes what a leader knows of an experiment's steps: each behind all that it waits for, and behind each that
// has one its closing piece, as a step of one piece that waits for it. What waits for a step waits for that.
func newSteps(e *underway) (all []*step) {
	graph, err := NewGraph(e.Steps)
	if err != nil {
		panic(fmt.Sprintf("fleet: %s was read with steps that can't be: %v", e.ID, err))
	}
	first, last := make([]*step, len(e.Steps)), make([]*step, len(e.Steps))
	for _, i := range graph.Order() {
		spec := &e.Steps[i]
		t := &step{Step: spec, experiment: e, number: i, order: len(all), depth: graph.Depth(i), small: never}
		for _, b := range graph.Before(i) {
			t.before = append(t.before, last[b])
		}
		first[i], last[i], all = t, t, append(all, t)
		if spec.Closes() {
			closing := &Step{Name: spec.Name, Points: [][]string{nil}, Replications: 1, Workers: 1,
				Export: spec.Export, Priority: spec.Priority}
			last[i] = &step{Step: closing, experiment: e, number: i, order: len(all), depth: t.depth, small: never,
				point: len(spec.Points), closes: t, before: []*step{t}}
			all = append(all, last[i])
		}
		for _, b := range all {
			imports := func(m Import) bool { return m.Step == b.Name }
			if b.closes != nil && b.closes != t && (slices.Contains(t.before, b) ||
				slices.ContainsFunc(Imports(spec.Args...), imports)) {
				t.sources = append(t.sources, b)
			}
		}
	}
	return all
}

// stepOf is the step that a piece of an experiment belongs to.
func (e *underway) stepOf(at PieceID) *step {
	i := slices.IndexFunc(e.steps, func(t *step) bool {
		return t.number == at.Step && (t.closes != nil) == e.IsClosing(at)
	})
	return e.steps[i]
}

// turn orders what may begin at one time: closing pieces first, which others wait for, then by priority, then by depth.
func (t *step) turn(b *step) int {
	if t == b {
		return 0
	}
	closing := func(t *step) int { return 1 - b2i(t.closes != nil) }
	return cmp.Or(cmp.Compare(closing(t), closing(b)), cmp.Compare(t.Priority.class(), b.Priority.class()),
		cmp.Compare(t.depth, b.depth), cmp.Compare(t.number, b.number))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// inTurn sorts steps by turn.
func inTurn(steps []*step) []*step {
	if len(steps) > 1 {
		slices.SortFunc(steps, (*step).turn)
	}
	return steps
}

// class is a number for a priority, the least first.
func (p Priority) class() int {
	switch p {
	case High:
		return 0
	case Low:
		return 2
	}
	return 1
}

// prospect is what may become of a step's pieces that haven't begun.
type prospect uint8

const (
	open   prospect = iota // they may begin
	waits                  // for steps before
	doomed                 // a step before won't be finished
)

// prospects are those of an experiment's steps. A step waits for all pieces of those that it names to be FINISHED.
func (e *underway) prospects() []prospect {
	all := make([]prospect, len(e.steps))
	for i, t := range e.steps { // each comes behind those that it waits for
		for _, b := range t.before {
			switch {
			case all[b.order] == doomed, b.failed():
				all[i] = doomed
			case !b.isDone() && all[i] == open:
				all[i] = waits
			}
		}
	}
	return all
}

// failed tells whether a step won't be finished.
func (t *step) failed() bool {
	failed, canceled := t.lost()
	return failed+canceled > 0
}

// mayBegin tells whether all that a step waits for is there.
func (t *step) mayBegin() bool {
	return len(t.before) == 0 || t.experiment.prospects()[t.order] == open
}

// inputs are the outputs that a piece of a step is simulated with, if it begins now.
func (t *step) inputs() Inputs {
	if len(t.sources) == 0 {
		return nil
	}
	in := Inputs{}
	for _, b := range t.sources {
		in[b.Name] = t.experiment.pieces[PieceID{Step: b.number, Point: b.point}].Attempt
	}
	return in
}

// closesOf is how many replications a closing piece puts together; 0: all, or it is no closing piece.
func (t *step) closesOf() int {
	if t.closes == nil || t.closes.until == nil {
		return 0
	}
	return t.closes.until.enough
}

// exported tells whether the outputs that an end is reported with are those that a piece of a step ends with.
func (t *step) exported(r *Report) bool {
	want := 0
	if t.closes != nil {
		want = len(t.Export)
	}
	if len(r.Outputs)+len(r.Texts) != want {
		return false
	}
	for name := range t.Export {
		if _, there := Value(name, r.Outputs, r.Texts); !there && want > 0 {
			return false
		}
	}
	return true
}

// failedFast tells whether a failure of a piece has ended all of an experiment.
func (e *underway) failedFast() bool {
	return e.FailFast && slices.ContainsFunc(e.steps, func(t *step) bool {
		failed, _ := t.lost()
		return failed > 0
	})
}

// reopening are the steps that a retry begins anew, which was asked for and isn't carried out: the one that it names
// and all that wait for it. nil: there is none, or it is of all that has failed.
func (e *underway) reopening() (of map[*step]bool) {
	if e.wish.From == "" || e.wish.Retry <= e.standing.Retry {
		return nil
	}
	for _, t := range e.steps { // each comes behind those that it waits for
		if t.Name == e.wish.From || slices.ContainsFunc(t.before, func(b *step) bool { return of[b] }) {
			if of == nil {
				of = map[*step]bool{}
			}
			of[t] = true
		}
	}
	return of
}

// givenUp tells whether nothing of an experiment begins, whatever waits.
func (e *underway) givenUp() bool { return e.failedFast() || e.reopening() != nil }

// unwanted tells whether a piece that hasn't ended is to be given up; why is an error for one that waits.
func (s *State) unwanted(p *piece) (is bool, why *Error) {
	e := p.step.experiment
	switch {
	case e.wish.Want == WantCancel:
		return true, nil
	case e.failedFast():
		return true, &Error{Type: ErrorDependency, Decided: s.leader, Message: "another piece has failed (fail_fast)"}
	case p.State.Holds() && e.reopening()[p.step]:
		return true, nil
	case p.surplus():
		return true, p.why(s.leader)
	case p.State == Waiting && len(p.step.before) > 0 && e.prospects()[p.step.order] == doomed:
		return true, &Error{Type: ErrorDependency, Decided: s.leader, Message: p.step.dependency()}
	}
	return false, nil
}

// dependency says which steps before have failed.
func (t *step) dependency() string {
	all := t.experiment.steps
	before := map[*step]bool{t: true}
	var names []string
	for i := t.order; i >= 0; i-- { // each comes behind those that it waits for
		if b := all[i]; before[b] {
			for _, x := range b.before {
				before[x] = true
			}
			if b != t && b.failed() && !slices.Contains(names, b.Name) {
				names = append(names, b.Name)
			}
		}
	}
	slices.Sort(names)
	return bounded("dependency: it waits for "+strings.Join(names, ", ")+", which won't be finished", MaxReason)
}

// openGates has pieces looked at that wait for other steps, where something has changed for them.
func (s *State) openGates(e *underway) {
	if !e.gates {
		return
	}
	e.gates, s.placeable = false, true
	fast := e.failedFast()
	for _, p := range e.pieces {
		if p.State == Waiting && !p.queued || fast && !p.State.Ended() {
			s.mark(p)
		}
	}
}

// retry opens what has failed or was cancelled, when people have asked for that, and all of the step that they name and
// of those that wait for it, in an order in which each step comes behind those that it waits for. It begins when
// nothing is being cancelled any more; the standing is written behind the moves, so that another leader goes on with
// them.
func (s *State) retry(e *underway) (done bool) {
	if e.gone || e.wish.Retry <= e.standing.Retry {
		return false
	}
	if e.wish.Want != WantCancel {
		of := e.reopening()
		var closed []*piece
		held, moved := false, false
		for _, p := range e.pieces {
			held = held || p.State == Canceling || of[p.step] && p.State.Holds()
			moved = moved || p.State.Ended() && p.since == never
		}
		if held { // what it becomes touches the experiment again
			return false
		}
		if moved { // in this Decide
			s.touch(e)
			return false
		}
		for _, p := range e.pieces {
			switch {
			case !of[p.step] && p.isBehind():
			case p.State == Failed || p.State == Canceled || of[p.step] && p.State == Finished:
				closed = append(closed, p)
			case of[p.step] && p.queued: // steps before it are opened, too
				p.queued = false
				s.mark(p)
			}
		}
		slices.SortFunc(closed, func(a, b *piece) int {
			return cmp.Or(cmp.Compare(a.step.order, b.step.order), a.id.compare(b.id))
		})
		for _, p := range closed {
			s.move(p, Piece{State: Waiting, Attempt: p.Attempt, Spared: p.Attempt, Gang: p.Gang, Began: p.Began,
				Past: p.Past}, nil)
		}
	}
	if e.standing.Ended && e.ended != never {
		s.ended--
	}
	e.standing.Retry, e.standing.Ended, e.standing.EndedAt = e.wish.Retry, false, nil
	e.ended, e.waits, e.written, s.placeable = never, never, false, true
	s.unfile(e)
	for _, t := range e.steps {
		t.small = never
	}
	return true
}

// add counts a step's pieces; those that haven't begun, which are left, as what will become of them: rest.
func (t *step) add(pieces map[PieceState]int, now prospect) (rest PieceState, left int) {
	for state, count := range t.counts {
		if count > 0 {
			pieces[PieceState(state)] += count
		}
	}
	rest = Waiting
	switch {
	case t.experiment.wish.Want == WantCancel, now == doomed, t.isCut():
		rest = Canceled
	case t.unfit > 0:
		rest = Failed
	case t.experiment.failedFast():
		rest = Canceled
	}
	if left = t.total() - t.begun; left > 0 {
		pieces[rest] += left
	}
	return rest, left
}

// stepStandings is how far the steps of a pipeline are, in the specification's order.
func (e *underway) stepStandings(prospects []prospect) []StepStanding {
	if !e.Pipeline() {
		return nil
	}
	all, parts := make([]StepStanding, len(e.Steps)), make([]map[Status]int, len(e.Steps))
	for i, t := range e.steps {
		now := &all[t.number]
		if now.Name = t.Name; now.Pieces == nil {
			now.Pieces, parts[t.number] = map[PieceState]int{}, map[Status]int{}
		}
		rest, left := t.add(now.Pieces, prospects[i])
		t.parts(parts[t.number], rest, left)
		switch {
		case t.closes != nil:
		case prospects[i] == doomed:
			now.Reason = t.dependency()
		case prospects[i] == waits:
			now.Reason = bounded("it waits for "+strings.Join(t.After, ", "), MaxReason)
		}
	}
	for i := range all {
		all[i].Status = All(parts[i])
	}
	return all
}

// sameSteps tells whether standings of steps are the same, but for counts.
func sameSteps(a, b []StepStanding) bool {
	return slices.EqualFunc(a, b, func(a, b StepStanding) bool {
		return a.Name == b.Name && a.Status == b.Status && a.Reason == b.Reason
	})
}

// sameCounts tells whether two standings count the same.
func sameCounts(a, b *Standing) bool {
	return maps.Equal(a.Pieces, b.Pieces) && slices.EqualFunc(a.Steps, b.Steps, func(a, b StepStanding) bool {
		return maps.Equal(a.Pieces, b.Pieces)
	})
}
