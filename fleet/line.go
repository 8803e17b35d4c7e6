// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/disco-sim/disco/internal/heap"
)

// turn is a class of a user: the experiments that are placed in the order of their submission.
type turn struct {
	class int
	user  string
	queue []*underway
}

// turns are the experiments of which something may be placed, by class and user. A turn without any isn't in it.
type turns []*turn

// find is where the experiments of a class and user are.
func (l turns) find(class int, user string) int {
	return slices.IndexFunc(l, func(t *turn) bool { return t.class == class && t.user == user })
}

func byOrder(a, b *underway) int { return cmp.Compare(a.order, b.order) }

// add puts an experiment into its place.
func (l *turns) add(class int, e *underway) {
	i := l.find(class, e.User)
	if i < 0 {
		*l = append(*l, &turn{class, e.User, []*underway{e}})
		return
	}
	t := (*l)[i]
	at, _ := slices.BinarySearchFunc(t.queue, e, byOrder)
	t.queue = slices.Insert(t.queue, at, e)
}

// remove takes one out of it.
func (l *turns) remove(class int, e *underway) {
	i := l.find(class, e.User)
	t := (*l)[i]
	at, _ := slices.BinarySearchFunc(t.queue, e, byOrder)
	if t.queue = slices.Delete(t.queue, at, at+1); len(t.queue) == 0 {
		*l = slices.Delete(*l, i, i+1)
	}
}

// lines are the experiments that stand in line for servers. Those are filed anew of which something has changed that
// matters for that (State.unfile), and those whose time has come to be lifted.
type lines struct {
	line    turns
	unfiled []*underway
	lifting heap.Heap[*underway]
	ruled   []*underway // that have a step with a rule, as they were submitted
}

// filed is where an experiment stands in line.
type filed struct {
	lined   bool
	class   int
	unfiled bool          // it isn't as it would be filed
	lifted  time.Duration // in lines.lifting; 0: it isn't there
}

// unfile has an experiment be filed anew before something is placed.
func (s *State) unfile(e *underway) {
	if !e.filed.unfiled {
		e.filed.unfiled = true
		s.lines.unfiled = append(s.lines.unfiled, e)
	}
}

// refile brings the line up to date.
func (s *State) refile() {
	x := &s.lines
	for x.lifting.Len() > 0 && time.Duration(x.lifting.First().Key) <= s.now {
		if key, e := x.lifting.Pop(); time.Duration(key) == e.filed.lifted { // else there was an earlier one
			e.filed.lifted = 0
			s.unfile(e)
		}
	}
	all := x.unfiled
	x.unfiled = nil
	for _, e := range all {
		s.file(e)
	}
}

// file puts an experiment where it belongs.
func (s *State) file(e *underway) {
	e.filed.unfiled = false
	wants := s.wants(e)
	if wants && e.waits == never {
		e.waits = s.now
	} else if !wants && e.unsure() {
		e.waits = never // it waits for nothing, until it is known that it takes more
	}
	class := s.class(e)
	if e.lined && (!wants || e.filed.class != class) {
		e.lined = false
		s.line.remove(e.filed.class, e)
	}
	if !wants {
		return
	}
	if !e.lined {
		e.lined, e.filed.class = true, class
		s.line.add(class, e)
	}
	if next := e.waits + time.Duration(s.lifts(e)+1)*s.rules.Age; e.lifted == 0 || next < e.lifted {
		e.lifted = next
		s.lifting.Push(float64(next), e)
	}
}

// class is where an experiment stands in the queue, the least first. Each Age of waiting lifts it by one.
func (s *State) class(e *underway) int {
	return e.wish.Priority.class() - s.lifts(e)
}

func (s *State) lifts(e *underway) int {
	if e.waits == never {
		return 0
	}
	return int((s.now - e.waits) / s.rules.Age)
}

// sooner tells which of two turns comes before: the one of the better class, then that of the user who has fewer
// servers, then that of the experiment that was submitted before.
func (s *State) sooner(a, b *turn) bool {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(s.users[a.user], s.users[b.user]),
		cmp.Compare(a.queue[0].order, b.queue[0].order)) < 0
}

// placeLine gives servers to pieces of experiments whose turn it is, as long as there are some. Those of which nothing
// can be placed are out of the line then, until they are filed anew.
func (s *State) placeLine(l *turns) {
	s.pass++
	mine, looked := l == &s.line, false // looked: there was something free when nothing has been placed since
	for len(*l) > 0 && s.open > 0 {
		best := (*l)[0]
		for _, t := range *l {
			if s.sooner(t, best) {
				best = t
			}
		}
		e := best.queue[0]
		l.remove(best.class, e)
		if mine {
			e.lined = false
			s.unfile(e)
		}
		placed := s.placeOne(e)
		if !placed && !looked && s.full() {
			break
		}
		looked = !placed
		if !placed || !s.wants(e) {
			continue
		}
		class := s.class(e)
		l.add(class, e)
		if mine {
			e.lined, e.filed.class = true, class
		}
	}
}
