// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"slices"
	"testing"
)

// Waiting for room, taken apart into single steps and run in every order there is. Two
// or three workers run a small model whose every event has a large payload and causes one
// more, at the next epoch, on any other worker. A payload goes by a block while its sender
// has one; the receiver holds the block until the event's handler has returned. A state in
// which no step is left though events are pending is a deadlock.
//
// The steps are those of room, takeIn and publish. Times play no part: the model waits for
// nothing but room, blocks and bounds. docs/format/block.md has the argument in words.

const (
	roomHorizon = 3 // events at this epoch are not handled
	roomWorkers = 3 // at most
)

// roomRules is what is under test: the real rules, or one of them left out.
type roomRules struct {
	workers  int
	pending  int  // events that each worker starts with
	blocks   int  // in each worker's pool
	ring     int  // records in each ring
	runAhead int  // pending events from which a worker that can work takes in no more
	parts    bool // without a block the payload goes through the ring
	listens  bool // a worker that waits for room takes in what comes
}

// roomEvent is one pending event, or one record in a ring.
type roomEvent struct {
	epoch int8
	lent  int8 // 1 + the worker whose block holds the payload; 0: none
}

type roomWorker struct {
	pending []roomEvent // sorted
	current roomEvent   // being handled
	busy    bool        // a handler is being called, and has one event to send
	to      int8        // … to this worker
	free    int8        // blocks
	bound   [roomWorkers]int8
}

type roomState struct {
	w     [roomWorkers]roomWorker
	rings [roomWorkers][roomWorkers][]roomEvent
}

func (s *roomState) clone() *roomState {
	c := *s
	for i := range c.w {
		c.w[i].pending = slices.Clone(s.w[i].pending)
		for j := range c.rings[i] {
			c.rings[i][j] = slices.Clone(s.rings[i][j])
		}
	}
	return &c
}

func (s *roomState) key() string { return fmt.Sprint(*s) }

// done reports whether everything before the horizon has been handled.
func (s *roomState) done(r roomRules) bool {
	for i := range r.workers {
		if s.w[i].busy || len(s.w[i].pending) > 0 && s.w[i].pending[0].epoch < roomHorizon {
			return false
		}
		for j := range r.workers {
			if len(s.rings[i][j]) > 0 {
				return false
			}
		}
	}
	return true
}

// runnable reports whether worker i has an event that comes before everything that a peer
// may still send.
func (s *roomState) runnable(r roomRules, i int) bool {
	w := &s.w[i]
	if w.busy || len(w.pending) == 0 || w.pending[0].epoch >= roomHorizon {
		return false
	}
	for p := range r.workers {
		if p != i && w.pending[0].epoch >= w.bound[p] {
			return false
		}
	}
	return true
}

// promise is what worker i can promise: its earliest work, or what a peer may cause here,
// and the lookahead of 1.
func (s *roomState) promise(r roomRules, i int) int8 {
	w := &s.w[i]
	b := int8(roomHorizon)
	if w.busy {
		b = min(b, w.current.epoch)
	}
	if len(w.pending) > 0 {
		b = min(b, w.pending[0].epoch)
	}
	for p := range r.workers {
		if p != i {
			b = min(b, w.bound[p])
		}
	}
	return b + 1
}

// steps lists the states that one step of worker i leads to.
func (s *roomState) steps(r roomRules, i int) (next []*roomState) {
	w := &s.w[i]
	if s.runnable(r, i) {
		for to := range r.workers {
			if to != i {
				c := s.clone()
				c.w[i].current, c.w[i].pending = w.pending[0], c.w[i].pending[1:]
				c.w[i].busy, c.w[i].to = true, int8(to)
				next = append(next, c)
			}
		}
	}
	if w.busy {
		if c := s.send(r, i); c != nil {
			next = append(next, c)
		}
	}
	if w.busy && r.listens || !w.busy && !(s.runnable(r, i) && len(w.pending) >= r.runAhead) {
		next = append(next, s.takeIn(r, i)...)
	}
	return next
}

// send is the end of a handler: its event leaves, its own block goes home. nil: there is
// no room.
func (s *roomState) send(r roomRules, i int) *roomState {
	w := &s.w[i]
	if len(s.rings[i][w.to]) == r.ring || w.free == 0 && !r.parts {
		return nil
	}
	c := s.clone()
	v := &c.w[i]
	ev := roomEvent{epoch: w.current.epoch + 1}
	if v.free > 0 {
		v.free--
		ev.lent = int8(i) + 1
	}
	c.rings[i][w.to] = append(c.rings[i][w.to], ev)
	if v.current.lent > 0 {
		c.w[v.current.lent-1].free++
	}
	v.busy, v.current, v.to = false, roomEvent{}, 0
	return c
}

// takeIn is one look at each lane: the promise first, then one record; the promise counts
// when the ring is empty behind it.
func (s *roomState) takeIn(r roomRules, i int) (next []*roomState) {
	for p := range r.workers {
		if p == i {
			continue
		}
		if q := s.rings[p][i]; len(q) > 0 {
			c := s.clone()
			c.rings[p][i] = c.rings[p][i][1:]
			c.w[i].pending = append(c.w[i].pending, q[0])
			slices.SortFunc(c.w[i].pending, func(a, b roomEvent) int {
				return int(a.epoch)*8 + int(a.lent) - int(b.epoch)*8 - int(b.lent)
			})
			next = append(next, c)
		} else if b := s.promise(r, p); b > s.w[i].bound[p] {
			c := s.clone()
			c.w[i].bound[p] = b
			next = append(next, c)
		}
	}
	return next
}

// deadlock searches all states; it returns one in which nothing can go on, or nil, and
// how many there are.
func (r roomRules) deadlock() (*roomState, int) {
	first := &roomState{}
	for i := range r.workers {
		first.w[i].free = int8(r.blocks)
		for range r.pending {
			first.w[i].pending = append(first.w[i].pending, roomEvent{})
		}
		for p := range r.workers {
			first.w[i].bound[p] = 1
		}
	}
	seen := map[string]bool{first.key(): true}
	todo := []*roomState{first}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		some := false
		for i := range r.workers {
			for _, c := range s.steps(r, i) {
				some = true
				if k := c.key(); !seen[k] {
					seen[k] = true
					todo = append(todo, c)
				}
			}
		}
		if !some && !s.done(r) {
			return s, len(seen)
		}
	}
	return nil, len(seen)
}

// With the real rules no state is a deadlock, however small rings, pools and run-ahead
// are; without either of the two that the argument rests on, some state is.
func TestRoomModel(t *testing.T) {
	states, most := 0, 3
	if testing.Short() {
		most = 2
	}
	try := func(r roomRules, want bool) {
		t.Helper()
		s, n := r.deadlock()
		states += n
		if found := s != nil; found != want {
			t.Errorf("%+v: deadlock %v (%+v), want %v", r, found, s, want)
		}
	}
	for blocks := range 3 {
		for ring := 1; ring <= 2; ring++ {
			for runAhead := 1; runAhead <= 3; runAhead++ {
				for pending := 1; pending <= most; pending++ {
					try(roomRules{workers: 2, pending: pending, blocks: blocks, ring: ring, runAhead: runAhead,
						parts: true, listens: true}, false)
				}
			}
		}
		if !testing.Short() {
			try(roomRules{workers: 3, pending: 1, blocks: blocks, ring: 1, runAhead: 1, parts: true, listens: true},
				false)
		}
	}
	// What the rules are there for.
	try(roomRules{workers: 2, pending: 2, blocks: 1, ring: 2, runAhead: 3, parts: false, listens: true}, true)
	try(roomRules{workers: 2, pending: 3, blocks: 2, ring: 2, runAhead: 3, parts: false, listens: true}, true)
	try(roomRules{workers: 2, pending: 3, blocks: 2, ring: 1, runAhead: 3, parts: true, listens: false}, true)
	t.Logf("%d states", states)
}
