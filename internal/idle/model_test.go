// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The protocol of Post, Withdraw and Look, taken apart into single loads and stores and
// run in every order there is. All its accesses are of sync/atomic and so sequentially
// consistent: interleaving them is the whole of what can happen.
//
// The steps are those of idle.go, in its order. A change there belongs here too. Epoch
// stands for epoch, level and round, which are words with the same fate.

// modelRules is the protocol under test: the real one, or one with a part changed.
type modelRules struct {
	workers, sends, whims int // sends and whims of each worker, at most

	noSecondLook bool // Look believes the first
	turnLast     bool // Look loads the turn after the words
	turnFirst    bool // Post stores the turn before the words
	workPosted   bool // a worker sends before it withdraws
	noCounts     bool // Look compares no counts
	sumOnce      bool // Look doesn't load the turn again before it calls a slot overwritten
}

const modelWorkers = 3 // at most

// Where a worker is.
const (
	working   = iota // may send, and may begin to post
	postEpoch        // the stores of Post; with turnFirst the turn's comes before
	postSent         //
	postRecv         //
	postSum          //
	postTurn         //
	blocked          // posted; an event, or a whim, makes it withdraw
	takeIn           // withdrawn; takes an event in if there is one
)

type modelWorker struct {
	at                   int8
	posts, sent, recv    int8 // what is true
	inbox                int8 // events on the way to it
	whims                int8
	turn, epoch, ws, wrv int8 // the words of its slot
	sum                  modelSum
}

// modelSum stands for the sum of a slot: the words that it was taken over.
type modelSum struct{ turn, epoch, sent, recv int8 }

// next is the epoch that the worker's latest post names: another one for each, so that
// a mixture of two posts shows.
func (w *modelWorker) next(self int) int8 { return w.posts*modelWorkers + int8(self) }

// Where the one who looks is: not yet, at a load, done.
const (
	lookNotYet = -1
	lookDone   = 100
)

type modelState struct {
	w     [modelWorkers]modelWorker
	look  int8 // number of the next load, lookNotYet or lookDone
	turns [modelWorkers]int8
	least int8
	sum   int8     // sent - received as found
	words modelSum // of the slot being looked at, as found so far
	wrong bool     // its sum isn't theirs

	// What was true since the look began: a bit for each least epoch of a moment at
	// which all were blocked and nothing was on its way.
	moments uint32
	ok      bool // the answer, once done
}

type modelRun struct {
	rules modelRules
	seen  map[modelState]bool
	way   []string // for the message
	bad   string
	yes   int // looks that answered true
	ends  int
}

// moment notes whether all workers stand still now.
func (m *modelRun) moment(s *modelState) {
	if s.look == lookNotYet || s.look == lookDone {
		return
	}
	if least, ok := m.still(s); ok {
		s.moments |= 1 << least
	}
}

func (m *modelRun) still(s *modelState) (least int8, ok bool) {
	least = 31
	for i := range m.rules.workers {
		w := &s.w[i]
		if w.at != blocked || w.inbox != 0 {
			return 0, false
		}
		least = min(least, w.next(i))
	}
	return least, true
}

// visit goes on from a state in every way there is.
func (m *modelRun) visit(s modelState) {
	m.moment(&s)
	if m.bad != "" || m.seen[s] {
		return
	}
	m.seen[s] = true
	moved := false
	step := func(n modelState, text string, args ...any) {
		moved = true
		m.way = append(m.way, fmt.Sprintf(text, args...))
		m.visit(n)
		m.way = m.way[:len(m.way)-1]
	}
	for i := range m.rules.workers {
		m.worker(s, i, step)
	}
	if s.look != lookDone {
		n := s
		m.lookStep(&n)
		step(n, "look: load %d", s.look)
		if n.look == lookDone && n.wrong {
			m.fail("look says that a slot was overwritten, and nobody did")
		}
		if n.look == lookDone && n.ok {
			m.yes++
			if n.moments&(1<<n.least) == 0 {
				m.fail("look says that all stood still before epoch %d, and there was no such moment", n.least)
			}
		}
	}
	if !moved {
		m.ends++
		m.end(s)
	}
}

// end is a state in which nobody can do anything any more: nobody has a reason to
// withdraw, so a look from here on must find what is true.
func (m *modelRun) end(s modelState) {
	want, ok := m.still(&s)
	if !ok {
		return // only where the rules were changed
	}
	s.look, s.moments, s.ok = lookNotYet, 0, false
	for s.look != lookDone {
		m.lookStep(&s)
	}
	if !s.ok || s.least != want {
		m.fail("at the end all stand still before epoch %d, and look says %v, %d", want, s.ok, s.least)
	}
}

func (m *modelRun) fail(text string, args ...any) {
	if m.bad == "" {
		m.bad = fmt.Sprintf(text, args...) + " after\n\t" + strings.Join(slices.Clone(m.way), "\n\t")
	}
}

// worker makes each step that worker i can make.
func (m *modelRun) worker(s modelState, i int, step func(modelState, string, ...any)) {
	w := s.w[i]
	to := func(change func(n *modelState, w *modelWorker), text string) {
		n := s
		change(&n, &n.w[i])
		step(n, "worker %d: %s", i, text)
	}
	for j := range m.rules.workers {
		if j != i && int(w.sent) < m.rules.sends && (w.at == working || w.at == blocked && m.rules.workPosted) {
			to(func(n *modelState, w *modelWorker) { w.sent++; n.w[j].inbox++ }, fmt.Sprint("sends to ", j))
		}
	}
	switch w.at {
	case working:
		to(func(n *modelState, w *modelWorker) {
			w.posts++
			w.at = postEpoch
			if m.rules.turnFirst {
				w.turn++
			}
		}, "begins to post")
	case postEpoch:
		to(func(n *modelState, w *modelWorker) { w.epoch = w.next(i); w.at++ }, "stores the epoch")
	case postSent:
		to(func(n *modelState, w *modelWorker) { w.ws = w.sent; w.at++ }, "stores sent")
	case postRecv:
		to(func(n *modelState, w *modelWorker) { w.wrv = w.recv; w.at++ }, "stores received")
	case postSum:
		to(func(n *modelState, w *modelWorker) {
			turn := w.turn + 1
			if m.rules.turnFirst {
				turn = w.turn
			}
			w.sum = modelSum{turn, w.epoch, w.ws, w.wrv}
			w.at++
		}, "stores the sum")
	case postTurn:
		to(func(n *modelState, w *modelWorker) {
			w.at = blocked
			if !m.rules.turnFirst {
				w.turn++
			}
		}, "stores the turn")
	case blocked:
		if w.inbox > 0 || int(w.whims) < m.rules.whims {
			to(func(n *modelState, w *modelWorker) {
				w.turn++
				w.at = takeIn
				if w.inbox == 0 {
					w.whims++
				}
			}, "withdraws")
		}
	case takeIn:
		to(func(n *modelState, w *modelWorker) {
			if w.inbox > 0 {
				w.inbox--
				w.recv++
			}
			w.at = working
		}, "takes in")
	}
}

// wordsOfLook: turn, epoch, sent, received, sum, and once more the turn of each worker at
// the first look. Look loads the last one only where the sum is wrong; loading it always
// is more orders, and no fewer.
const wordsOfLook = 6

// lookStep makes the next load of Look, or begins it.
func (m *modelRun) lookStep(s *modelState) {
	workers := int8(m.rules.workers)
	if s.look == lookNotYet {
		s.look, s.least, s.sum = 0, 31, 0
		m.moment(s)
		return
	}
	if s.look < workers*wordsOfLook {
		i, word := s.look/wordsOfLook, s.look%wordsOfLook
		if m.rules.turnLast && word < 4 {
			word = (word + 1) % 4
		}
		w := &s.w[i]
		switch word {
		case 0:
			if w.turn&1 == 0 {
				s.look = lookDone
				return
			}
			s.turns[i], s.words.turn = w.turn, w.turn
		case 1:
			s.least, s.words.epoch = min(s.least, w.epoch), w.epoch
		case 2:
			s.sum, s.words.sent = s.sum+w.ws, w.ws
		case 3:
			s.sum, s.words.recv = s.sum-w.wrv, w.wrv
		case 4:
			s.wrong = w.sum != s.words
		case 5:
			s.words = modelSum{}
			if s.wrong {
				s.look, s.wrong = lookDone, m.rules.sumOnce || w.turn == s.turns[i]
				return
			}
		}
		s.look++
		if s.look == workers*wordsOfLook && (s.sum != 0 && !m.rules.noCounts || m.rules.noSecondLook) {
			s.ok = s.sum == 0
			s.look = lookDone
		}
		return
	}
	i := s.look - workers*wordsOfLook
	if s.w[i].turn != s.turns[i] {
		s.look = lookDone
		return
	}
	if s.look++; i == workers-1 {
		s.look, s.ok = lookDone, true
	}
}

func runModel(rules modelRules) *modelRun {
	m := &modelRun{rules: rules, seen: map[modelState]bool{}}
	m.visit(modelState{look: lookNotYet})
	return m
}

// In no order of steps does Look answer true for what was not so at one moment within
// it, and wherever everything has come to rest it answers true.
func TestEveryInterleaving(t *testing.T) {
	for _, rules := range []modelRules{
		{workers: 2, sends: 1, whims: 1},
		{workers: 2, sends: 2},
		{workers: 3, sends: 1},
	} {
		if testing.Short() && rules.workers > 2 {
			continue
		}
		m := runModel(rules)
		if m.bad != "" {
			t.Errorf("%+v: %s", rules, m.bad)
		}
		if m.yes == 0 || m.ends == 0 {
			t.Errorf("%+v: %d looks found a moment, %d ends: the model has come to nothing", rules, m.yes, m.ends)
		}
		t.Logf("%+v: %d states, %d looks that answered true, %d ends", rules, len(m.seen), m.yes, m.ends)
	}
}

// Each part of the protocol is needed: without it, the model finds a wrong answer. So
// the model can tell.
func TestEveryPartIsNeeded(t *testing.T) {
	for what, change := range map[string]func(*modelRules){
		"one look only":                 func(r *modelRules) { r.noSecondLook = true },
		"turn loaded after the words":   func(r *modelRules) { r.turnLast = true },
		"turn stored before the words":  func(r *modelRules) { r.turnFirst = true },
		"sent before withdrawing":       func(r *modelRules) { r.workPosted = true },
		"posts compared without counts": func(r *modelRules) { r.noCounts = true },
		"sum believed without the turn": func(r *modelRules) { r.sumOnce = true },
	} {
		rules := modelRules{workers: 2, sends: 2, whims: 1}
		change(&rules)
		m := runModel(rules)
		if m.bad == "" {
			t.Errorf("%s: nothing wrong found in %d states", what, len(m.seen))
		} else {
			t.Logf("%s: %s (in %d states)", what, strings.SplitN(m.bad, " after\n", 2)[0], len(m.seen))
		}
	}
}
