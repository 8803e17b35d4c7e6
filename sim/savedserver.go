// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/state"
)

// What resources save, in models without processes. A server's requests are of Use: those that have their units wait in
// the schedule for the end of their service, and the others in the queue.

func (s *Server) declaration() string { return "server " + s.name }
func (r *request) savedAs() uint32    { return r.s.id }

// state is the server's, but for the requests that have their units.
func (s *Server) state(c *state.Codec) {
	c.Int(&s.capacity)
	c.Int(&s.most)
	c.Uint64(&s.number)
	if s.capacity < 0 || s.capacity > s.most || s.most > math.MaxInt32 {
		c.Fail("found %d units of at most %d of %s, want 0 to %d", s.capacity, s.most, s.name, math.MaxInt32)
	}
	var waiting []*request
	if c.Loading() {
		s.used, s.down, s.held.list = 0, 0, nil // to be counted
		s.queue = line{byPriority: s.queue.byPriority}
	} else {
		waiting = append(waiting, s.queue.heap.list...)
		for r := s.queue.front; r != nil; r = r.next {
			waiting = append(waiting, r)
		}
	}
	i := 0
	state.List(c, &waiting, 8*4+4+1+4, func(r **request) {
		if c.Loading() {
			*r = &request{s: s}
		}
		s.requestState(c, *r)
		if (*r).state = queued; c.Loading() && !c.Failed() {
			s.enqueue(c, *r, i)
		}
		i++
	})
	if s.limit >= 0 && s.queue.len() > s.limit && s.preempted == nil {
		c.Fail("found %d requests in the queue of %s, want at most %d", s.queue.len(), s.name, s.limit)
	}
}

// enqueue puts a request that was read into the queue, where it was number i.
func (s *Server) enqueue(c *state.Codec, r *request, i int) {
	if back := s.queue.back; back != nil && back.order >= r.order {
		c.Fail("found request %d behind %d in the queue of %s, want rising ones", r.order, back.order, s.name)
		return
	}
	if s.queue.add(r); s.queue.byPriority && r.index != i {
		c.Fail("found request %d of priority %v at place %d of a heap, want a later one", r.order, r.priority, i)
	}
}

// requestState is a request's, but for where it waits.
func (s *Server) requestState(c *state.Codec, r *request) {
	if r.p != nil || !c.Loading() && !r.serves {
		c.Fail("found a request for %s that isn't of Use, which can't be saved", s.name)
		return
	}
	r.serves = true
	c.Float(&r.priority)
	c.Uint64(&r.order)
	c.Float(&r.since)
	c.Float(&r.service)
	units := int32(r.units)
	c.Int32(&units)
	r.units = int(units)
	c.Bool(&r.begun)
	r.do = s.doneState(c, r.do)
	if c.Failed() {
		return
	}
	if math.IsNaN(r.priority) || !(r.since >= 0 && r.since <= s.n.now) || !(r.service >= 0) ||
		r.service > math.MaxFloat64 || r.units < 1 || r.units > s.most {
		c.Fail("found a request for %d of %s of priority %v since %v for %v s, want 1 to %d since 0 to %v for a finite"+
			" time", r.units, s.name, r.priority, r.since, r.service, s.most, s.n.now)
	}
}

// doneState is what is done when a request's time is over, nil for nothing: a call of a Later.
func (s *Server) doneState(c *state.Codec, do action) action {
	id := uint32(0)
	if do != nil {
		if a, ok := do.(numbered); ok {
			id = a.savedAs()
		}
		if id == 0 {
			c.Fail("found %s at the end of a request for %s, a function that can't be saved", describe(do), s.name)
		}
	}
	actions := s.n.saves.actions
	if c.Uint32(&id); id == 0 || c.Failed() {
		return nil
	}
	if int64(id) > int64(len(actions)) {
		c.Fail("found action %d at the end of a request for %s, want 0 to %d", id, s.name, len(actions))
		return nil
	}
	l, ok := actions[id-1].(interface{ isLater() })
	if !ok {
		c.Fail("found action %d, %T, at the end of a request for %s, want a Later", id, l, s.name)
		return nil
	}
	return actions[id-1].entry(c, do, Timer{})
}

// entry is a request that has its units, and whose time ends at a Timer.
func (s *Server) entry(c *state.Codec, waits action, at Timer) action {
	r, ok := waits.(*request)
	if !ok {
		r = &request{s: s}
	}
	s.requestState(c, r)
	c.Float(&r.end)
	if !c.Loading() || c.Failed() {
		return r
	}
	r.state, r.timer = granted, at
	if s.used += r.units; s.used > math.MaxInt32 {
		c.Fail("found %d units of %s in use, want at most %d", s.used, s.name, math.MaxInt32)
		return r
	}
	if math.IsNaN(r.end) || !r.begun {
		c.Fail("found a request for %s that ends at %v and had its units: %v", s.name, r.end, r.begun)
	} else if s.preempts || invariants.Enabled {
		s.held.add(r)
	}
	return r
}

// Use is Server.Use where the run is to be saved: the function is called with data when the time is over and the unit
// was given back. It is false where the queue is full: the function isn't called then.
func (l *Later[T]) Use(s *Server, service float64, data T, options ...RequestOption) bool {
	r := s.request(&l.n.ctx, nil, options)
	s.serve(r, service)
	r.do = l.call(data)
	return s.enter(r)
}

func (l *Later[T]) isLater() {}

func (w *shifts) savedAs() uint32                          { return w.id }
func (w *shifts) declaration() string                      { return "schedule " + w.s.name }
func (w *shifts) entry(*state.Codec, action, Timer) action { return w }

func (w *shifts) state(c *state.Codec) {
	c.Int(&w.next)
	c.Float(&w.round)
	if w.next < 0 || w.next > len(w.steps) || !(w.round >= 0 && w.round <= 1<<53) {
		c.Fail("found step %d of round %v in the schedule of %s, want 0 to %d", w.next, w.round, w.s.name, len(w.steps))
	} else if w.next < len(w.steps) && !(w.epoch() > w.s.n.now) {
		c.Fail("found the next step of the schedule of %s at %v, want one after %v", w.s.name, w.epoch(), w.s.n.now)
	}
}

func (b *breakdowns) savedAs() uint32                          { return b.id }
func (b *breakdowns) declaration() string                      { return "breakdowns " + b.s.name }
func (b *breakdowns) entry(*state.Codec, action, Timer) action { return b }

func (b *breakdowns) state(c *state.Codec) {
	c.Bool(&b.isDown)
	if c.Loading() && b.isDown {
		b.s.down++
	}
}

func (k *Container) declaration() string { return "container " + k.name }

func (k *Container) state(c *state.Codec) {
	if c.Float(&k.has); !(k.has >= 0 && k.has <= min(k.capacity, math.MaxFloat64)) {
		c.Fail("found %v in %s, want 0 to %v", k.has, k.name, k.capacity)
	}
}

func (k *Container) entry(c *state.Codec, _ action, _ Timer) action { return nothingWaits(c, k.name) }

// nothingWaits refuses what waits of what has nothing in the schedule.
func nothingWaits(c *state.Codec, name string) action {
	c.Fail("found something waiting in the schedule of %s, which has nothing there", name)
	return nil
}

func (s *Store[T]) declaration() string { return "store " + s.name }

func (s *Store[T]) state(c *state.Codec) {
	if c.Loading() {
		s.items, s.head = nil, 0
	}
	items := s.items[s.head:]
	state.List(c, &items, 4, func(item *T) { valueState(c, s.plan, item, s.name) })
	if len(items) > s.capacity {
		c.Fail("found %d items in %s, want at most %d", len(items), s.name, s.capacity)
	}
	if c.Loading() && !c.Failed() {
		s.items = items
	}
}

func (s *Store[T]) entry(c *state.Codec, _ action, _ Timer) action { return nothingWaits(c, s.name) }
