// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"iter"
	"math"
	"runtime/debug"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/sim/dist"
)

// Process is straight-line code that takes simulated time: it holds, waits and goes on, as a coroutine that its node
// resumes. Of all processes and functions of a worker one runs at a time, so nothing of a node's needs a lock.
//
// A Process is for the function that it was given to; Resume, Interrupt, Cause and Ended are for others of the same
// node too.
type Process struct {
	*Context
	run     *coroutine // nil before it has begun and when it has ended
	timer   Timer      // that will resume it
	state   processState
	outcome outcome // of the wait
	pending bool    // an interrupt that hasn't been delivered
	cause   any     // of the last interrupt

	list       *waitList // where it waits with others
	prev, next *Process
	waits      withdrawer // what it waits for, where that can be given up
	held       *request   // first of what it acquired last
	remotes    int        // units that it holds at other nodes
	amount     float64    // that it puts or gets; size of its batch
	offer      any        // *offer[T]
}

// withdrawer is what a process waits for and may give up.
type withdrawer interface{ withdraw() }

// processState says what a process waits for.
type processState uint8

const (
	running processState = iota
	holding              // until a time, whatever happens
	waiting              // for Resume, Interrupt or a time
	ended
)

// outcome says why a wait ended.
type outcome uint8

const (
	timeUp outcome = iota
	resumed
	interrupted
)

// waitList is processes that wait for one thing, in the order in which they came. A process is on one at a time.
type waitList struct {
	first, last *Process
	count       int
	owner       settler // nil: of a Signal, which Resume may end the wait for
}

// settler is a resource: it does what has become possible when a process has left its queue.
type settler interface{ settle() }

func (l *waitList) add(p *Process) {
	p.list, p.prev, p.next = l, l.last, nil
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
	l.count++
}

func (l *waitList) remove(p *Process) {
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.list, p.prev, p.next = nil, nil, nil
	l.count--
}

// coroutine runs the bodies of processes, one after the other: one that has ended leaves it to the next, because
// making a coroutine costs as much as ten switches.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	p     *Process
	body  func(p *Process)
}

// coroutines are those of a node.
type coroutines struct {
	all  []*coroutine
	free []*coroutine

	closed bool
}

// closing is the panic by which a live process is ended when its run is over.
type closing struct{}

// start makes a process that begins at this epoch.
func (n *Node) start(f func(p *Process)) *Process {
	if n.saving {
		n.misuse("a process can't be saved: write events and timers, or run with --checkpoint-ends in place of " +
			"checkpoints, and without --rebalance")
	}
	n.m.processes = true
	p := &Process{Context: &n.ctx}
	n.setSoon(&beginning{p, f})
	p.state = holding // an interrupt is delivered to its first wait
	return p
}

// beginning is a process that is to begin.
type beginning struct {
	p *Process
	f func(p *Process)
}

func (b *beginning) fire(c *Context) {
	w := c.n.workers.take(c.n)
	w.p, w.body = b.p, b.f
	b.p.run = w
	b.p.fire(c)
}

// fire resumes the process.
func (p *Process) fire(*Context) {
	p.state = running
	p.run.next()
	p.n.entered()
}

// entered tells the checked build that the coroutine that goes on now is the node's.
func (n *Node) entered() {
	if invariants.Enabled {
		n.proc.Enter()
	}
}

// take finds a coroutine that is free.
func (ws *coroutines) take(n *Node) *coroutine {
	if last := len(ws.free) - 1; last >= 0 {
		w := ws.free[last]
		ws.free = ws.free[:last]
		return w
	}
	w := &coroutine{}
	w.next, w.stop = iter.Pull(func(yield func(struct{}) bool) {
		w.yield = yield
		for {
			if !w.work(n) {
				return
			}
			n.workers.free = append(n.workers.free, w)
			if !yield(struct{}{}) {
				return
			}
		}
	})
	ws.all = append(ws.all, w)
	n.m.hosts[n] = struct{}{}
	return w
}

// work runs one body to its end; false where the run is over. A panic ends the run with the process's own stack,
// which would be lost where the node resumed it.
func (w *coroutine) work(n *Node) (more bool) {
	defer func() {
		w.p.state, w.p.run = ended, nil
		w.p, w.body = nil, nil
		switch r := recover().(type) {
		case nil:
		case closing:
			more = false
		default:
			if f := failureOf(r, n.at()); f != nil {
				n.err = f
			} else {
				n.err = &processPanic{n.at(), r, debug.Stack()}
			}
		}
	}()
	n.entered()
	w.body(w.p)
	if n.journaled {
		w.p.noteEnd()
	}
	if w.p.held != nil || w.p.remotes > 0 {
		w.p.endsHolding()
	}
	return true
}

// processPanic is a panic in a process.
type processPanic struct {
	at    string
	value any
	stack []byte
}

func (e *processPanic) Error() string {
	return fmt.Sprintf("%sa process panicked: %v\n%s", e.at, e.value, e.stack)
}

// close ends all live processes: their deferred calls are made.
func (ws *coroutines) close() {
	ws.closed = true
	for _, w := range ws.all {
		w.stop()
	}
	ws.all, ws.free = nil, nil
}

// ready refuses a wait that something other than the process's own function asks for.
func (p *Process) ready() {
	if p.state != running {
		p.misused()
	}
}

func (p *Process) misused() {
	p.n.misuse("a process was used by something other than the function that it was given to")
}

// pause gives the thread back to the node, until the process is resumed. It is inlined, as what calls it should be:
// behind a switch the processor foresees no return, so that each costs as much as twenty instructions. Whoever calls
// it has called ready.
func (p *Process) pause(s processState) {
	p.state = s
	if !p.run.yield(struct{}{}) {
		p.state = running // a deferred call may wait in vain
		panic(closing{})
	}
	p.n.entered()
}

// wait waits with a timer that is set already, or for ever, until the time is up, Resume or Interrupt.
func (p *Process) wait() outcome {
	p.ready()
	p.outcome = timeUp
	p.pause(waiting)
	return p.waited()
}

// suspend is wait for Resume, for a time at most, or below 0 however long.
func (p *Process) suspend(delay float64) bool {
	p.ready()
	if p.n.journaled {
		p.noteSuspend(delay)
	}
	p.outcome = timeUp
	p.pause(waiting)
	return p.waited() == resumed
}

// waited is what a wait ends with.
func (p *Process) waited() outcome {
	if p.list != nil || p.waits != nil {
		p.leave()
	}
	if p.n.journaled {
		p.noteOutcome()
	}
	return p.outcome
}

// leave takes the process off what it waits for.
func (p *Process) leave() {
	if l := p.list; l != nil {
		l.remove(p)
		if l.owner != nil {
			l.owner.settle()
		}
	}
	if r := p.waits; r != nil {
		p.waits = nil
		r.withdraw()
	}
}

// interruptedBefore takes an interrupt that came while the process couldn't be interrupted.
func (p *Process) interruptedBefore() bool {
	was := p.pending
	p.pending = false
	return was
}

// Hold waits for a time, in seconds >= 0. Nothing shortens it: an interrupt meanwhile is delivered to the next wait
// that can be interrupted.
func (p *Process) Hold(delay float64) {
	p.ready()
	p.timer = p.n.after("Hold", delay, p)
	if p.n.journaled {
		p.noteHold(delay)
	}
	p.pause(holding)
}

// HoldFor waits for a time drawn from a distribution, as Hold does.
func (p *Process) HoldFor(delay dist.Dist) {
	p.ready()
	x := p.n.draw(&delay)
	p.timer = p.n.after("HoldFor", x, p)
	if p.n.journaled {
		p.noteHold(x)
	}
	p.pause(holding)
}

func (p *Process) noteHold(delay float64) {
	p.note("holds for %v s, until %v s", delay, p.n.now+delay)
}

// HoldOrInterrupt waits for a time, in seconds >= 0, or until Interrupt: then it returns the time that was left, and
// true. Cause has what Interrupt was given.
func (p *Process) HoldOrInterrupt(delay float64) (left float64, wasInterrupted bool) {
	if p.interruptedBefore() {
		return delay, true
	}
	end := p.n.now + delay
	p.timer = p.n.after("HoldOrInterrupt", delay, p)
	if p.n.journaled {
		p.note("holds for %v s, until %v s or an interrupt", delay, end)
	}
	if p.wait() == timeUp {
		return 0, false
	}
	return max(0, end-p.n.now), true
}

// Suspend waits until Resume, which returns true, or Interrupt, which returns false.
func (p *Process) Suspend() bool { return !p.interruptedBefore() && p.suspend(-1) }

// SuspendFor is Suspend for a time at most, in seconds, +Inf for any. It returns false, too, when that was over
// first.
func (p *Process) SuspendFor(delay float64) bool {
	if math.IsInf(delay, 1) {
		return p.Suspend()
	}
	if p.interruptedBefore() {
		return false
	}
	p.timer = p.n.after("SuspendFor", delay, p)
	return p.suspend(delay)
}

// Resume has a process that waits in Suspend, SuspendFor or for a Signal go on at this epoch, behind all that is
// already due; false where it doesn't wait so. Who has been resumed is gone from what it waited for.
func (p *Process) Resume() bool {
	forResource := p.waits != nil || p.list != nil && p.list.owner != nil
	if forResource || !p.end(resumed) {
		return false
	}
	if p.n.journaled {
		p.note("is resumed")
	}
	return true
}

// Interrupt ends the wait of a process that can be interrupted, or the next such wait where it isn't in one now.
// cause is what Cause returns then. A process that has ended isn't changed.
func (p *Process) Interrupt(cause any) {
	if p.state == ended {
		return
	}
	p.cause = cause
	p.pending = !p.end(interrupted)
	if p.n.journaled && p.pending {
		p.note("will be interrupted at its next wait, cause: %T", cause)
	}
}

// end ends a wait.
func (p *Process) end(why outcome) bool {
	if p.state != waiting {
		return false
	}
	p.n.schedule.cancel(p.timer)
	p.state, p.outcome = holding, why
	if p.list != nil || p.waits != nil {
		p.leave()
	}
	p.n.setSoon(p)
	return true
}

// Cause is what the last Interrupt of this process was given; nil before the first.
func (p *Process) Cause() any { return p.cause }

// Ended reports whether the process's function has returned.
func (p *Process) Ended() bool { return p.state == ended }

// Signal is something that processes of a node wait for. It has no state: who waits when it is sent goes on.
type Signal struct{ list waitList }

// Wait waits for the signal; false when it was interrupted.
func (s *Signal) Wait(p *Process) bool { return s.WaitFor(p, math.Inf(1)) }

// WaitFor waits for the signal for a time at most, in seconds; false when that was over or it was interrupted.
func (s *Signal) WaitFor(p *Process, delay float64) bool {
	if !p.pending {
		s.list.add(p)
	}
	return p.SuspendFor(delay)
}

// Send has all who wait go on, in the order in which they came, and returns how many they were.
func (s *Signal) Send() int {
	count := s.list.count
	for s.SendOne() {
	}
	return count
}

// SendOne has the one who has waited longest go on; false where nobody waits.
func (s *Signal) SendOne() bool {
	p := s.list.first
	return p != nil && p.Resume()
}

// Waiting is how many processes wait for the signal.
func (s *Signal) Waiting() int { return s.list.count }
