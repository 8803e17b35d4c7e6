// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/invariants"
)

// Server is a number of equal units that processes and functions of a node use for a while: agents, machines, tills.
// Who finds none free waits in a queue. A unit that becomes free goes at once to the first in the queue, so nobody who
// comes at the same epoch can take it before.
//
// Statistics named after the server are recorded by themselves: name.utilisation, name.queue, name.wait, name.served,
// name.reneged and name.balked, and name.preempted where that can happen. docs/sim-resources.md says what they count.
//
// A Server belongs to its node. A request costs O(1), or for n that wait O(log n) where the order is by priority, and
// allocates nothing once as many as now were there before. A breakdown puts what it interrupts back into the queue: of
// LIFO each such request costs O(n).
type Server struct {
	n        *Node
	name     string
	id       uint32 // among what is saved
	order    Order
	limit    int // of the queue; -1: none
	capacity int
	most     int // the largest capacity that was ever announced
	used     int
	fixed    int  // of these, held by functions of Request
	down     int  // breakdowns under way
	preempts bool // units may be taken away, so held is kept
	granting bool // grant is under way
	number   uint64
	queue    line
	held     requests
	free     *request
	cause    any // Preempted, for Process.Cause

	utilisation, length *Gauge
	wait                *Tally
	served              *Counter
	reneged, balked     *Counter
	preempted           *Counter
	downs               *Gauge
}

// ServerOption is something more about a server, for Node.Server: an Order or a QueueLimit.
type ServerOption interface{ apply(s *Server) }

// Order is in which order a server's queue is served.
type Order uint8

const (
	// FIFO is first come, first served. It is what a server does that was given no Order.
	FIFO Order = iota
	// LIFO is last come, first served.
	LIFO
	// ByPriority is the smallest Priority first, and of one priority first come, first served.
	ByPriority
	// PreemptResume is ByPriority where one that comes takes the unit of one of a larger Priority, of the largest
	// and among these of the last that came. What Serve and Use do is continued later, ahead of all others of its
	// priority; a process that holds the unit by Acquire has lost it, and is interrupted with the cause Preempted.
	PreemptResume
	// PreemptRestart is PreemptResume, but Serve and Use begin their time anew.
	PreemptRestart
)

func (o Order) apply(s *Server) {
	s.order = o
	s.preempts = s.preempts || o >= PreemptResume
}

// QueueLimit is how many can wait for a server. Who would be one more balks: Acquire and its like return false.
type QueueLimit int

func (l QueueLimit) apply(s *Server) { s.limit = int(l) }

// Preempted is the cause (Process.Cause) of the interrupt of a process that has lost a unit that it held by Acquire.
type Preempted struct{ Server *Server }

// RequestOption is something more about a request: its Priority, or how many Units.
type RequestOption struct {
	isUnits bool
	value   float64
}

// Priority is where a request stands in the queue of a server whose Order is by priority: smaller ones come first.
// Without it, it is 0.
func Priority(priority float64) RequestOption { return RequestOption{value: priority} }

// Units is how many units are asked for, which are granted together. Without it, it is 1. While the first in the
// queue waits for several, nobody behind it is served.
func Units(units int) RequestOption { return RequestOption{true, float64(units)} }

// Server declares a server of the node.
func (n *Node) Server(name string, capacity int, options ...ServerOption) *Server {
	s := &Server{n: n, name: n.m.within + name, capacity: capacity, most: capacity, limit: -1,
		held: requests{worst: true}}
	for _, o := range options {
		o.apply(s)
	}
	if capacity < 0 || capacity > math.MaxInt32 || s.limit < -1 || s.order > PreemptRestart {
		n.misuse("Server(%q): capacity %d, queue limit %d: want numbers from 0 to %d", name, capacity, s.limit,
			math.MaxInt32)
	}
	s.id = n.enrol(s)
	s.cause = Preempted{s}
	s.utilisation = n.Gauge(name+".utilisation", Doc("share of the capacity that is in use"))
	s.length = n.Gauge(name+".queue", Doc("requests that wait"))
	s.wait = n.Tally(name+".wait", Unit("s"), Doc("from a request until its units are granted"))
	s.served = n.Counter(name+".served", Doc("requests whose units were given back"))
	s.reneged = n.Counter(name+".reneged", Doc("requests that were given up in the queue"))
	s.balked = n.Counter(name+".balked", Doc("requests that didn't enter the queue"))
	s.queue.byPriority = s.order >= ByPriority
	if s.preempts {
		s.countPreempted()
	}
	return s
}

func (s *Server) countPreempted() {
	s.n.in("", func() {
		s.preempted = s.n.Counter(s.name+".preempted", Doc("times that units were taken away"))
	})
}

// Name is the server's name.
func (s *Server) Name() string { return s.name }

// Capacity is how many units there are, used or free. While the server is broken down there are as many.
func (s *Server) Capacity() int { return s.capacity }

// Used is how many units are in use.
func (s *Server) Used() int { return s.used }

// Free is how many units can be had now.
func (s *Server) Free() int { return max(0, s.available()-s.used) }

// Waiting is how many requests are in the queue.
func (s *Server) Waiting() int { return s.queue.len() }

// Down reports whether the server is broken down.
func (s *Server) Down() bool { return s.down > 0 }

// SetCapacity changes how many units there are. Where fewer remain than are in use, these are used to the end.
func (s *Server) SetCapacity(c Caller, units int) {
	s.owned(c)
	if units < 0 || units > math.MaxInt32 {
		s.misuse("SetCapacity(%d): want 0 to %d", units, math.MaxInt32)
	}
	s.setCapacity(units)
}

func (s *Server) setCapacity(units int) {
	s.capacity, s.most = units, max(s.most, units)
	s.settle()
}

// Acquire waits until the process has a unit, however long. It is false only where the queue is full. An interrupt
// meanwhile is delivered to the next wait that can be interrupted.
func (s *Server) Acquire(p *Process, options ...RequestOption) bool {
	r := s.request(p, p, options)
	switch {
	case !s.enter(r):
		return false
	case r.state == queued:
		p.pause(holding)
	}
	return true
}

// AcquireWithin is Acquire for a time at most, in seconds, +Inf for any: it returns false, too, when that is over
// first, or the process is interrupted. A time that is over at the epoch at which a unit becomes free is decided by
// which was asked for first.
func (s *Server) AcquireWithin(p *Process, delay float64, options ...RequestOption) bool {
	if !(delay >= 0) {
		s.misuse("AcquireWithin(%v): want a time of 0 s or more", delay)
	}
	s.owned(p)
	if p.interruptedBefore() {
		return false
	}
	r := s.request(p, p, options)
	if !s.enter(r) {
		return false
	}
	if r.state != queued {
		return true
	}
	p.waits = r
	if !math.IsInf(delay, 1) {
		p.timer = p.n.after("AcquireWithin", delay, p)
	}
	return p.wait() == resumed
}

// TryAcquire gives the process a unit where that takes no wait; it is false, and counts as balked, where it would.
func (s *Server) TryAcquire(p *Process, options ...RequestOption) bool {
	r := s.request(p, p, options)
	if s.queue.len() > 0 || !s.fits(r) {
		s.balk(r)
		return false
	}
	return s.enter(r)
}

// Release gives back what the process acquired last. Where that was taken away from it meanwhile, it does nothing.
func (s *Server) Release(p *Process) {
	s.owned(p)
	for at := &p.held; *at != nil; at = &(*at).next {
		if r := *at; r.s == s {
			*at = r.next
			if r.state == lost {
				s.recycle(r)
			} else {
				s.finish(r)
			}
			return
		}
	}
	s.misuse("released by a process that doesn't hold it")
}

// Serve has the process served for a time, in seconds: it waits for a unit, uses it for the time, and gives it back.
// It is false only where the queue is full. Where the unit is taken away meanwhile, Serve lasts until all is done.
// It takes one switch of the process, where Acquire, Hold and Release take two.
func (s *Server) Serve(p *Process, service float64, options ...RequestOption) bool {
	return s.ServeWithin(p, math.Inf(1), service, options...)
}

// ServeWithin is Serve for one who waits for a time at most, in seconds, +Inf for any, until its service first begins.
// It returns false, too, when that is over first.
func (s *Server) ServeWithin(p *Process, delay, service float64, options ...RequestOption) bool {
	r := s.request(p, p, options)
	s.serve(r, service)
	if !(delay >= 0) {
		s.misuse("ServeWithin(%v): want a time of 0 s or more", delay)
	}
	if !s.enter(r) {
		return false
	}
	if r.state == queued && !r.begun && !math.IsInf(delay, 1) {
		r.timer = s.n.set(s.n.now+delay, r)
	}
	p.pause(holding)
	return p.outcome == resumed
}

// Use is Serve for functions: done is called when the time is over and the unit was given back; it may be nil. It is
// false where the queue is full: done isn't called then.
func (s *Server) Use(c Caller, service float64, done func(c *Context), options ...RequestOption) bool {
	r := s.request(c, nil, options)
	s.serve(r, service)
	if done != nil {
		if s.n.saving {
			s.n.refuse("Use")
		}
		r.do = call(done)
	}
	return s.enter(r)
}

// Request asks for units for a function, which is called when they are granted, at that epoch behind all that is
// already due. What is returned gives them back, or takes back the request. Such units are never taken away.
// Where the queue is full, the function isn't called, and Grant.Cancel is false.
func (s *Server) Request(c Caller, granted func(c *Context), options ...RequestOption) Grant {
	if s.n.saving {
		s.n.refuse("Request")
	}
	r := s.request(c, nil, options)
	if granted != nil {
		r.do = call(granted)
	}
	g := Grant{r, r.generation}
	s.enter(r)
	return g
}

// Grant names what Request asked for. It is a value: copies name the same. The zero Grant names nothing.
type Grant struct {
	r          *request
	generation uint32
}

// Release gives the units back. Before they are granted, and after they were given back, it is an error of the model.
func (g Grant) Release(c Caller) {
	n := c.context().n
	if g.r == nil || g.r.generation != g.generation || g.r.state == queued {
		n.misuse("Grant.Release: the units aren't held")
	}
	g.r.s.owned(c)
	n.schedule.cancel(g.r.timer)
	g.r.s.finish(g.r)
}

// Cancel takes back a request that hasn't been granted, which counts as reneged; false where it has been, or has been
// cancelled.
func (g Grant) Cancel(c Caller) bool {
	if g.r == nil || g.r.generation != g.generation || g.r.state != queued {
		return false
	}
	g.r.s.owned(c)
	g.r.withdraw()
	return true
}

// misuse ends the run with the server's name, the time and the place.
func (s *Server) misuse(format string, args ...any) {
	panic(&failure{fmt.Sprintf("%s/%s: %s, at %v s%s", s.n.name, s.name, fmt.Sprintf(format, args...), s.n.now,
		place())})
}

func (s *Server) owned(c Caller) {
	if other := c.context().n; other != s.n {
		s.misuse("used in %s: a server belongs to its node", other.name)
	}
}

// check holds what is counted against what is held.
func (s *Server) check() {
	units := s.fixed
	for _, r := range s.held.list {
		units += r.units
	}
	if units != s.used {
		invariants.Assert(false, "%s/%s: %d units held, %d used", s.n.name, s.name, units, s.used)
	}
}
