// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/invariants"
)

// request is one that waits for units of a server, or has them: a process or a function. It is used again and again.
type request struct {
	s        *Server
	p        *Process // nil: it is a function's
	do       action   // of a function, nil: none
	next     *request // of those that its process holds, of those that are free, or of the line
	prev     *request // of the line
	priority float64
	order    uint64 // among those of one priority
	since    float64
	service  float64 // of Serve and Use: what is left of the time
	end      float64 // when it will be over
	timer    Timer   // end of the service, of the wait, or the call of a granted function
	units    int
	index    int // in its heap

	generation uint32
	state      requestState
	serves     bool // it is of Serve or Use
	begun      bool // it had the units before
}

// requestState is what a request is about.
type requestState uint8

const (
	queued requestState = iota
	granted
	lost // the units were taken away from a process that acquired them
)

// request makes a request for a process, or for a function where p is nil.
func (s *Server) request(c Caller, p *Process, options []RequestOption) *request {
	s.owned(c)
	if p != nil && p.state != running {
		s.misuse("a process was used by something other than the function that it was given to")
	}
	if p != nil && p.held != nil {
		p.forget(s)
	}
	r := s.free
	if r == nil {
		r = &request{s: s}
	} else {
		s.free, r.next = r.next, nil
	}
	r.p, r.units, r.priority, r.since = p, 1, 0, s.n.now
	for _, o := range options {
		switch {
		case o.isUnits && (o.value < 1 || o.value > float64(s.most)):
			s.misuse("%v units were asked for, and there are never more than %d", o.value, s.most)
		case o.isUnits:
			r.units = int(o.value)
		case math.IsNaN(o.value):
			s.misuse("Priority(NaN)")
		case s.order >= ByPriority:
			r.priority = o.value
		}
	}
	s.number++
	r.order = s.number
	if s.order == LIFO {
		r.order = ^s.number
	}
	return r
}

// recycle frees a request.
func (s *Server) recycle(r *request) {
	r.p, r.do, r.timer = nil, nil, Timer{}
	r.state, r.serves, r.begun = queued, false, false
	r.generation++
	r.next, s.free = s.free, r
}

// serve makes a request one that uses its units for a time and gives them back.
func (s *Server) serve(r *request, service float64) {
	if !(service >= 0) || math.IsInf(service, 1) {
		s.misuse("served for %v s: want a time of 0 s or more", service)
	}
	r.serves, r.service = true, service
}

// available is how many units could be in use.
func (s *Server) available() int {
	if s.down > 0 {
		return 0
	}
	return s.capacity
}

func (s *Server) fits(r *request) bool { return r.units <= s.available()-s.used }

// enter gives a request its units, or puts it into the queue; false where that is full.
func (s *Server) enter(r *request) bool {
	if s.queue.len() == 0 && s.fits(r) {
		s.give(r)
		s.record()
		return true
	}
	s.queue.add(r)
	s.grant()
	if r.state == queued && s.limit >= 0 && s.queue.len() > s.limit && !r.begun {
		s.queue.remove(r)
		s.balk(r)
		return false
	}
	s.record()
	if s.n.journaled && r.state == queued {
		r.note("waits for %s: %d of %d in use, %d in the queue", s.used, s.available(), s.Waiting())
	}
	return true
}

func (s *Server) balk(r *request) {
	if s.n.journaled {
		r.note("can't have %s now: %d of %d in use, %d in the queue", s.used, s.available(), s.Waiting())
	}
	s.balked.Inc()
	s.recycle(r)
}

// settle gives what is free to those who wait.
func (s *Server) settle() {
	s.grant()
	s.record()
}

// grant gives what is free to the first in the queue, again and again. A process that loses its unit may be taken off
// a queue by that, which comes back here while the loop is under way: the loop goes on with what is first then.
func (s *Server) grant() {
	if s.granting {
		return
	}
	s.granting = true
	for s.queue.len() > 0 {
		r := s.queue.first()
		if s.fits(r) {
			s.queue.remove(r)
			s.give(r)
		} else if s.order < PreemptResume || !s.preempt(r) {
			break
		}
	}
	s.granting = false
}

// record records how many units are in use, and how long the queue is.
func (s *Server) record() {
	if length := float64(s.queue.len()); length != s.length.Value() {
		s.length.Set(length)
	}
	share := 0.0
	if s.used > 0 {
		share = float64(s.used) / float64(max(s.used, s.available()))
	}
	if share != s.utilisation.Value() {
		s.utilisation.Set(share)
	}
	if invariants.Enabled {
		s.check()
	}
}

// give gives a request its units: a service begins, a process goes on, a function is called.
func (s *Server) give(r *request) {
	n := s.n
	s.used += r.units
	if !r.begun {
		s.wait.Add(n.now - r.since)
	}
	r.state, r.begun = granted, true
	switch {
	case r.serves:
		n.schedule.cancel(r.timer)
		r.end = n.now + r.service
		r.timer = n.set(r.end, r)
		if n.journaled {
			r.note("gets %s for %v s, until %v s", r.service, r.end)
		}
	case r.p == nil:
		s.fixed += r.units
		r.timer = n.set(n.now, r)
		return
	default:
		if n.journaled {
			r.note("gets %s: %d of %d in use", s.used, s.available())
		}
		r.next, r.p.held = r.p.held, r
		r.p.grant()
	}
	if s.preempts || invariants.Enabled {
		s.held.add(r)
	}
}

// grant has a process go on that waits for what it has been given.
func (p *Process) grant() {
	switch p.state {
	case waiting:
		p.waits = nil
		p.end(resumed)
	case holding:
		p.n.setSoon(p)
	}
}

// endsHolding ends the run where a process has ended that holds units: nobody could ever release them.
func (p *Process) endsHolding() {
	for r := p.held; r != nil; r = p.held {
		if r.state == granted {
			panic(&failure{fmt.Sprintf("%s/%s: a process ended that holds %d of it, at %v s: call Release in %s",
				p.n.name, r.s.name, r.units, p.n.now, codeOf(p.run.body))})
		}
		p.held = r.next
		r.s.recycle(r)
	}
	if p.remotes > 0 {
		panic(&failure{fmt.Sprintf("%s: a process ended that holds %d units at other nodes, at %v s: "+
			"call Release in %s", p.n.name, p.remotes, p.n.now, codeOf(p.run.body))})
	}
}

// forget drops what the process had of a server and has lost.
func (p *Process) forget(s *Server) {
	for at := &p.held; *at != nil; {
		if r := *at; r.s == s && r.state == lost {
			*at = r.next
			s.recycle(r)
		} else {
			at = &r.next
		}
	}
}

// takeBack takes a request's units.
func (s *Server) takeBack(r *request) {
	s.used -= r.units
	if r.p == nil && !r.serves {
		s.fixed -= r.units
	} else if s.preempts || invariants.Enabled {
		s.held.remove(r)
	}
}

// finish ends a request that has its units.
func (s *Server) finish(r *request) {
	s.takeBack(r)
	if s.n.journaled {
		r.note("gives back %s: %d of %d in use", s.used, s.available())
	}
	s.served.Inc()
	s.recycle(r)
	s.settle()
}

// withdraw ends a request that is in the queue: its process won't wait any longer.
func (r *request) withdraw() {
	s := r.s
	s.queue.remove(r)
	if s.n.journaled {
		r.note("no longer waits for %s")
	}
	s.reneged.Inc()
	s.recycle(r)
	s.settle()
}

// fire is what a request's timer does.
func (r *request) fire(c *Context) {
	p, do := r.p, r.do
	switch {
	case r.state == queued: // ServeWithin has waited long enough
		r.withdraw()
		p.outcome = timeUp
	case r.serves:
		r.s.finish(r)
		if p != nil {
			p.outcome = resumed
		}
	}
	switch {
	case p != nil:
		p.fire(c)
	case do != nil:
		do.fire(c)
	}
}

// preempt takes units away from those of larger priority, so that r fits; false, and nothing has changed, where they
// haven't enough.
func (s *Server) preempt(r *request) bool {
	need := r.units - (s.available() - s.used)
	if r.units > s.available() {
		return false
	}
	var few [4]*request
	victims := few[:0]
	for need > 0 && len(s.held.list) > 0 && s.held.list[0].priority > r.priority {
		v := s.held.list[0]
		s.held.remove(v)
		victims = append(victims, v)
		need -= v.units
	}
	for _, v := range victims {
		s.held.add(v)
	}
	if need > 0 {
		return false
	}
	for _, v := range victims {
		s.evict(v, s.order == PreemptRestart)
	}
	return true
}

// evict takes a request's units away. A service goes back to its place in the queue, with the time that is left or,
// where it restarts, with all of it; a process is interrupted.
func (s *Server) evict(r *request, restart bool) {
	s.takeBack(r)
	if s.n.journaled {
		r.note("loses %s")
	}
	s.preempted.Inc()
	if !r.serves {
		r.state = lost
		r.p.Interrupt(s.cause)
		return
	}
	s.n.schedule.cancel(r.timer)
	r.timer = Timer{}
	if !restart {
		r.service = max(0, r.end-s.n.now)
	}
	r.state = queued
	s.queue.add(r)
}

// line is requests that wait: a list in their order where all are of one priority, else a heap.
type line struct {
	heap        requests
	byPriority  bool
	front, back *request
	count       int // of the list
}

func (l *line) len() int { return l.count + len(l.heap.list) }

// first is the first request of a line that has one.
func (l *line) first() *request {
	if l.byPriority {
		return l.heap.list[0]
	}
	return l.front
}

// add puts a request into its place. Those that come go to one of the ends; who has lost a unit by a breakdown had come
// before others that wait, and goes by those that had come before it.
func (l *line) add(r *request) {
	if l.byPriority {
		l.heap.add(r)
		return
	}
	l.count++
	after := l.front // it goes before this one; nil: to the end
	if l.back != nil && r.order > l.back.order {
		after = nil
	}
	for after != nil && r.order > after.order {
		after = after.next
	}
	r.next, r.prev = after, l.back
	if after != nil {
		r.prev = after.prev
		after.prev = r
	} else {
		l.back = r
	}
	if r.prev != nil {
		r.prev.next = r
	} else {
		l.front = r
	}
}

// remove takes a request out.
func (l *line) remove(r *request) {
	if l.byPriority {
		l.heap.remove(r)
		return
	}
	l.count--
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.front = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.back = r.prev
	}
	r.next, r.prev = nil, nil
}

// requests are a heap by priority and order: first the smallest, or where worst is set the largest.
type requests struct {
	list  []*request
	worst bool
}

func (q *requests) before(a, b *request) bool {
	if q.worst {
		a, b = b, a
	}
	return a.priority < b.priority || a.priority == b.priority && a.order < b.order
}

func (q *requests) add(r *request) {
	q.list = append(q.list, r)
	q.up(r, len(q.list)-1)
}

func (q *requests) remove(r *request) {
	i, end := r.index, len(q.list)-1
	last := q.list[end]
	q.list[end] = nil
	q.list = q.list[:end]
	if i == end {
		return
	}
	if i > 0 && q.before(last, q.list[(i-1)/2]) {
		q.up(last, i)
	} else {
		q.sift(last, i)
	}
}

func (q *requests) up(r *request, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.before(r, q.list[parent]) {
			break
		}
		q.put(q.list[parent], i)
		i = parent
	}
	q.put(r, i)
}

func (q *requests) sift(r *request, i int) {
	for {
		child := 2*i + 1
		if child >= len(q.list) {
			break
		}
		if child+1 < len(q.list) && q.before(q.list[child+1], q.list[child]) {
			child++
		}
		if !q.before(q.list[child], r) {
			break
		}
		q.put(q.list[child], i)
		i = child
	}
	q.put(r, i)
}

func (q *requests) put(r *request, i int) { q.list[i], r.index = r, i }
