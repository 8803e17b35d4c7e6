// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"

	"github.com/disco-sim/disco/internal/invariants"
)

// head is what pick looks at of a class: one cache line for two classes, whatever is
// pending in them.
type head struct {
	key   uint64 // epoch of the class's first activation, as a key; keyNever: none
	limit uint64 // activations before it may be done: what is safe, and the horizon
	proc  uint32 // target of the first activation
	level uint32 // at limit itself, levels below this one may be done too

	congested bool // a lane that the class sends on is short of room
	skip      bool // scratch of pick
}

// follow takes the head from the class's set. While an activation is under way the head
// stays at it: nothing else of the class comes before it is over.
func (h *head) follow(s *pending) {
	if en := s.first(); en != nil {
		h.key, h.proc = en.key, en.proc
	} else {
		h.key = keyNever
	}
}

func (h *head) before(o *head) bool {
	return h.key < o.key || h.key == o.key && h.proc < o.proc
}

// Run handles up to limit activations, earliest first, up to span simulated seconds
// behind the first of them, and returns how many there were. 0 means that nothing can
// be done before a peer's event or bound arrives, before there is room in a lane, or at
// all (Next is Never). After an error the Engine is done for; Report still works.
//
// A panic of a handler is an error too: it says which simproc was handling what, and
// where in the model's code it was.
func (e *Engine) Run(limit int, span float64) (n int, err error) {
	defer e.rescue(&err)
	if checked {
		e.own()
		e.checkForeign(nil)
	}
	if e.err != nil {
		return 0, e.err
	}
	e.takePromises()
	until := math.Inf(1)
	for ; n < limit; n++ {
		c := e.pick()
		if c < 0 {
			return n, nil
		}
		epoch := math.Float64frombits(e.heads[c].key)
		if epoch > until {
			return n, nil
		}
		if n == 0 {
			until = epoch + span
		}
		if e.activate(c); e.err != nil {
			return n, e.err
		}
	}
	return limit, nil
}

// pick finds the class with the earliest activation that may be done now, -1: none.
func (e *Engine) pick() int {
	if len(e.heads) == 1 {
		if h := &e.heads[0]; e.ready(h) && !h.congested {
			return 0
		}
		return -1
	}
	best, skipped := -1, false
	for i := range e.heads {
		h := &e.heads[i]
		if h.skip = h.congested || !e.ready(h); h.skip {
			skipped = skipped || h.key < keyNever
		} else if best < 0 || h.before(&e.heads[best]) {
			best = i
		}
	}
	if !skipped || best < 0 || !e.heldBySkipped(best) {
		return best
	}
	return e.passOver()
}

// passOver adds to the classes that were passed over those in which they may still cause
// work before the first activation, again and again, because a class that is held so has
// pending work as well, which may come before that of the next one. It returns the earliest
// class that is left, -1: none.
func (e *Engine) passOver() int {
	for {
		best, more := -1, false
		for i := range e.heads {
			h := &e.heads[i]
			switch {
			case h.skip:
			case e.heldBySkipped(i):
				h.skip, more = true, true
			case best < 0 || h.before(&e.heads[best]):
				best = i
			}
		}
		if !more {
			return best
		}
	}
}

// ready reports whether the first activation of a class comes before everything that
// another worker may still send, and before the horizon.
func (e *Engine) ready(h *head) bool {
	return h.key < h.limit || h.key == h.limit && e.levelAt(h.proc) < h.level
}

// heldBySkipped reports whether a class that was passed over, for want of a bound or of
// room, may still cause something before the first activation of class i. A class that
// is not passed over needs no such look: if it is earlier, it goes first.
func (e *Engine) heldBySkipped(i int) bool {
	key := e.key(i)
	for j := range e.heads {
		if !e.heads[j].skip {
			continue
		}
		if shift := &e.classes[j].plan.to[i]; shift.kind != shiftNone && !key.Before(shift.apply(e.key(j))) {
			return true
		}
	}
	return false
}

// key is the key of a class's first activation, the one under way before all others;
// Never when it has none before the horizon.
func (e *Engine) key(i int) Bound {
	h := &e.heads[i]
	epoch := math.Float64frombits(h.key)
	if h.key == keyNever || epoch >= e.cfg.Horizon {
		return Never
	}
	return Bound{epoch, e.levelAt(h.proc)}
}

// Front is the latest epoch at which a handler was called, also before what Config.Resume begins with; false before the
// first call.
func (e *Engine) Front() (epoch float64, any bool) {
	return math.Float64frombits(e.front), e.stats.Activations > 0 || e.cfg.Resume != nil
}

// SetHorizon ends the run earlier: nothing at epoch or later is handled any more, as if
// Config.Horizon had been epoch from the start. That is only true of an epoch after
// Front; an earlier one, or one that isn't before the horizon, changes nothing.
func (e *Engine) SetHorizon(epoch float64) {
	if front, any := e.Front(); !(epoch < e.cfg.Horizon) || any && epoch <= front {
		return
	}
	e.cfg.Horizon = epoch
	e.settle()
}

// takePromises settles what promises have said since the last time: they come many at once,
// so each by itself is only noted.
func (e *Engine) takePromises() {
	if e.risen {
		e.settle()
	}
}

// settle recomputes what is safe after a bound has risen.
func (e *Engine) settle() {
	e.risen = false
	if e.byLink != nil {
		e.settleByLink()
	}
	for i := range e.classes {
		c := &e.classes[i]
		if e.byLink == nil {
			c.safe = Never
			for peer := range e.in {
				c.safe = least(c.safe, c.plan.in[peer].apply(e.in[peer]))
			}
		}
	}
	e.limit()
}

// limit says of each class up to where it may be handled.
func (e *Engine) limit() {
	end := min(e.cfg.Horizon, e.window, e.until)
	for i := range e.classes {
		h, safe := &e.heads[i], e.classes[i].safe
		h.limit, h.level = keyOf(safe.Epoch), safe.Level
		if safe.Epoch >= end {
			h.limit, h.level = keyOf(end), 0
		}
	}
}

// SetWindow keeps this worker from running ahead of others: nothing at epoch or later is handled before a later call
// allows it. At the start it is +Inf. Results don't depend on it. It must not be set to Front or earlier.
func (e *Engine) SetWindow(epoch float64) {
	if epoch != e.window {
		e.window = epoch
		e.limit()
	}
}

// SetUntil ends the leg: nothing at epoch or later is handled before a later call allows it, and where nothing is
// pending before it Next is Never, so that all workers find the end of a leg as they find that of a replication. At the
// start it is +Inf. Unlike a horizon it drops nothing: what is sent for it or later waits, and promises go on as if it
// weren't there. It must be later than Front.
func (e *Engine) SetUntil(epoch float64) {
	if checked {
		front, any := e.Front()
		invariants.Assert(epoch > front || !any && epoch > 0, "node: a leg until %v, but %v was handled", epoch, front)
	}
	e.until = epoch
	e.limit()
}

// Ahead is the epoch of the earliest activation that waits for SetWindow and for nothing else; false: there is none.
func (e *Engine) Ahead() (epoch float64, any bool) {
	first := Never
	for i := range e.heads {
		if k := e.key(i); k.Epoch >= e.window && k.Epoch < e.until && k.Before(e.classes[i].safe) {
			first = least(first, k)
		}
	}
	return first.Epoch, first != Never
}
