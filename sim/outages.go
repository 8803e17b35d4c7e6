// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"

	"github.com/disco-sim/disco/sim/dist"
)

// CapacityFrom is a number of units from a time on, for Server.Schedule.
type CapacityFrom struct {
	From  float64 // seconds from the start of a period
	Units int
}

// Schedule has the capacity change at times of a period, in seconds, which begins again and again; a period of +Inf
// never ends. Before the first time the capacity is what Server was given. Where fewer units remain than are in use,
// these are used to the end. It is called in the setup function.
//
//	agents.Schedule(86_400, sim.CapacityFrom{8 * 3600, 5}, sim.CapacityFrom{18 * 3600, 2})
func (s *Server) Schedule(period float64, steps ...CapacityFrom) {
	before := math.Inf(-1)
	for _, step := range steps {
		rises := step.From >= 0 && step.From > before && step.From < period
		if !rises || step.Units < 0 || step.Units > math.MaxInt32 {
			s.n.misuse("the schedule of %s: %d units from %v s: want rising times from 0 to below %v s", s.name,
				step.Units, step.From, period)
		}
		before = step.From
		s.most = max(s.most, step.Units)
	}
	if len(steps) > 0 {
		shifts := &shifts{s: s, period: period, steps: steps}
		shifts.id = s.n.enrol(shifts)
		s.n.atStart("Schedule", call(func(*Context) { shifts.wait() }))
	}
}

// shifts is what Schedule does.
type shifts struct {
	s      *Server
	period float64
	steps  []CapacityFrom
	next   int     // of steps
	round  float64 // of the period
	id     uint32
}

// epoch is that of the next step.
func (w *shifts) epoch() float64 {
	epoch := w.steps[w.next].From
	if w.round > 0 {
		epoch += w.round * w.period
	}
	return epoch
}

func (w *shifts) wait() {
	if w.next == len(w.steps) {
		if math.IsInf(w.period, 1) {
			return
		}
		w.next = 0
		w.round++
	}
	n := w.s.n
	n.set(max(n.now, w.epoch()), w)
}

func (w *shifts) fire(*Context) {
	w.s.setCapacity(w.steps[w.next].Units)
	w.next++
	w.wait()
}

// Unfinished is what happens to work under way when a server breaks down.
type Unfinished uint8

const (
	// Finish has it done to its end, although nothing new begins.
	Finish Unfinished = iota
	// Resume has Serve and Use continued after the repair, ahead of what waits; processes that hold units by Acquire
	// lose them, and are interrupted with the cause Preempted.
	Resume
	// Restart is Resume, but Serve and Use begin their time anew.
	Restart
)

// Breakdowns has the server, all of its units, break down again and again: it works for a time drawn from up, then
// is down for a time drawn from down. up passes whether the server is used or not. Called several times, the server
// works while none of its breakdowns is under way. It is called in the setup function.
func (s *Server) Breakdowns(up, down dist.Dist, work Unfinished) {
	if work > Restart {
		s.n.misuse("the breakdowns of %s: there is no way %d to go on", s.name, work)
	}
	if work != Finish && !s.preempts {
		s.preempts = true
		s.countPreempted()
	}
	if s.downs == nil {
		s.n.in("", func() {
			s.downs = s.n.Gauge(s.name+".down", Doc("share of the time in which the server is broken down"))
		})
	}
	b := &breakdowns{s: s, up: up, down: down, work: work}
	b.id = s.n.enrol(b)
	s.n.atStart("Breakdowns", call(func(*Context) { b.wait(&b.up) }))
}

// breakdowns is what Breakdowns does.
type breakdowns struct {
	s        *Server
	up, down dist.Dist
	work     Unfinished
	isDown   bool
	id       uint32
}

func (b *breakdowns) wait(d *dist.Dist) {
	n := b.s.n
	n.set(n.now+max(0, n.draw(d)), b)
}

func (b *breakdowns) fire(*Context) {
	s := b.s
	b.isDown = !b.isDown
	if b.isDown {
		s.down++
		s.downs.Set(1)
		b.wait(&b.down)
		for b.work != Finish && len(s.held.list) > 0 {
			s.evict(s.held.list[0], b.work == Restart)
		}
	} else {
		s.down--
		if s.down == 0 {
			s.downs.Set(0)
		}
		b.wait(&b.up)
	}
	s.settle()
}
