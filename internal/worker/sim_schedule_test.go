// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/disco-sim/disco/internal/interleave"
	"github.com/disco-sim/disco/shm"
)

// schedule runs tasks as coroutines, one at a time, and decides from its random numbers
// which one goes on at every place where the order matters: at every end of a pass of a
// duty cycle and, in the checked build, in front of every access to shared memory. Its
// clock is simulated: it rises with the steps, and jumps where nobody can go on before a
// sleep ends. So a schedule depends on nothing but its seed.
type schedule struct {
	rnd     *rand.Rand
	tasks   []*task
	running *task
	burst   int // steps until the next choice
	length  int // mean of a burst
	now     time.Duration
	timers  []timer // what happens at a time: messages that arrive, a kill
	steps   int
	hash    uint64 // of every choice made

	quiet    int           // steps since the last progress
	quietAt  time.Duration // when it was
	progress uint64        // as last seen
}

type timer struct {
	at time.Duration
	do func()
}

// task is one coroutine of a schedule.
type task struct {
	name   string
	index  int
	weight int
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	ready  func() bool   // what it waits for; nil: nothing
	until  time.Duration // end of its wait
	timed  bool          // the end of the wait ended it
	why    string        // for messages
	ended  bool
	killed bool
	died   any // the panic that ended it
	stack  []byte
}

// taskKilled is the panic that unwinds a task which is never to go on.
type taskKilled struct{}

func newSchedule(rnd *rand.Rand) *schedule {
	return &schedule{rnd: rnd, hash: 14695981039346656037}
}

// mix files one choice in the schedule's hash (FNV-1a over 64-bit words).
func (s *schedule) mix(v uint64) { s.hash = (s.hash ^ v) * 1099511628211 }

// add makes a task. It begins when it is first chosen.
func (s *schedule) add(name string, weight int, body func()) *task {
	t := &task{name: name, index: len(s.tasks), weight: weight}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			t.ended = true
			if p := recover(); p != nil {
				if _, ok := p.(taskKilled); !ok {
					t.died, t.stack = p, debug.Stack()
				}
			}
		}()
		t.yield = yield
		body()
	})
	s.tasks = append(s.tasks, t)
	return t
}

// after does something at a later time, between two steps.
func (s *schedule) after(d time.Duration, do func()) {
	s.timers = append(s.timers, timer{s.now + d, do})
}

// step is a place at which another task may go on. Called by the running task.
func (s *schedule) step(took time.Duration) {
	t := s.running
	if t == nil {
		return // the scheduler's own access
	}
	if t.killed {
		panic(taskKilled{})
	}
	s.now += took
	s.steps++
	s.quiet++
	if s.burst--; s.burst > 0 && (len(s.timers) == 0 || !s.due()) {
		return
	}
	s.leave(t)
}

func (s *schedule) leave(t *task) {
	if !t.yield(struct{}{}) {
		t.killed = true
		panic(taskKilled{})
	}
}

// wait keeps the running task from going on before ready, at most until a time. It tells
// whether the time ended the wait.
func (s *schedule) wait(why string, ready func() bool, until time.Duration) (timedOut bool) {
	t := s.running
	t.ready, t.until, t.why, t.timed = ready, until, why, false
	s.burst = 0
	s.leave(t)
	t.ready, t.why = nil, ""
	return t.timed
}

func (s *schedule) due() bool {
	for i := range s.timers {
		if s.timers[i].at <= s.now {
			return true
		}
	}
	return false
}

// fire does what is due, in the order of time.
func (s *schedule) fire() {
	for s.due() {
		first := 0
		for i := range s.timers {
			if s.timers[i].at < s.timers[first].at {
				first = i
			}
		}
		do := s.timers[first].do
		s.timers = append(s.timers[:first], s.timers[first+1:]...)
		do()
	}
}

// forever is a wait without an end.
const forever = time.Duration(1) << 62

// run lets the tasks go on until done. An error says that nobody can go on, that somebody
// panicked, or that progress has returned the same for more than limit steps and patience.
func (s *schedule) run(done func() bool, progress func() uint64, limit int, patience time.Duration) error {
	interleave.Set(func() { s.step(50 * time.Nanosecond) })
	defer interleave.Set(nil)
	for s.fire(); !done(); s.fire() {
		t := s.choose()
		if t == nil {
			if !s.skip() {
				return fmt.Errorf("nobody can go on, and no bell, timer or message is under way")
			}
			continue
		}
		s.mix(uint64(s.steps)<<8 | uint64(t.index))
		s.running = t
		if _, ok := t.next(); !ok && t.died != nil {
			s.running = nil
			return fmt.Errorf("%s panicked: %v\n%s", t.name, t.died, t.stack)
		}
		s.running = nil
		if s.quiet > limit/4 {
			if p := progress(); p != s.progress {
				s.progress, s.quiet, s.quietAt = p, 0, s.now
			} else if s.quiet > limit && s.now-s.quietAt > patience {
				return fmt.Errorf("no progress in %d steps and %v", s.quiet, s.now-s.quietAt)
			}
		}
	}
	return nil
}

// choose picks the task that goes on, by weight, and for how many steps.
func (s *schedule) choose() *task {
	total := 0
	for _, t := range s.tasks {
		if s.runnable(t) {
			total += t.weight
		}
	}
	if total == 0 {
		return nil
	}
	n := s.rnd.IntN(total)
	for _, t := range s.tasks {
		if !s.runnable(t) {
			continue
		}
		if n -= t.weight; n < 0 {
			s.burst = 1
			if s.length > 1 {
				s.burst += s.rnd.IntN(2*s.length - 1)
			}
			s.mix(uint64(s.burst))
			return t
		}
	}
	panic("no task chosen")
}

// runnable reports whether a task can go on, and ends waits whose time has come.
func (s *schedule) runnable(t *task) bool {
	switch {
	case t.ended || t.killed:
		return false
	case t.ready == nil || t.timed:
		return true
	case t.ready():
		return true
	case t.until <= s.now:
		t.timed = true
	}
	return t.timed
}

// skip goes on to the next time at which something can happen; false: there is none.
func (s *schedule) skip() bool {
	next := forever
	for _, t := range s.tasks {
		if !t.ended && !t.killed && t.ready != nil {
			next = min(next, t.until)
		}
	}
	for i := range s.timers {
		next = min(next, s.timers[i].at)
	}
	if next == forever {
		return false
	}
	s.now = max(s.now, next)
	s.quiet++
	return true
}

// end unwinds all tasks that have not ended.
func (s *schedule) end() {
	for _, t := range s.tasks {
		t.killed = true
		s.running = t
		t.stop()
	}
	s.running = nil
}

// clock is the simulated wall clock.
func (s *schedule) clock() time.Time { return time.Unix(0, 0).Add(s.now) }

// simWaiter stands in for a shm.Waiter: it arms the real doorbell and sleeps in the
// schedule. lost is the chance in 1000 that a ring wakes nobody, late that a wake-up takes
// long: then the timeout has to do.
type simWaiter struct {
	s         *schedule
	bell      *shm.Doorbell
	spins     int // passes before it arms
	park      time.Duration
	lost      int
	late      time.Duration
	passes    int
	armed     bool
	suspect   bool // a timeout has ended the sleep: work now means that nobody rang for it
	unrung    int  // times that it did
	sleeps    uint64
	deafUntil time.Duration
}

var _ idler = (*simWaiter)(nil)

func (w *simWaiter) Stats() shm.WaiterStats { return shm.WaiterStats{Parked: w.sleeps} }

// Idle ends one pass, as shm.Waiter.Idle does: first it only yields, then it arms the
// bell and returns for the second look, then it sleeps.
func (w *simWaiter) Idle(work bool) (timedOut bool) {
	w.s.step(time.Microsecond)
	if work {
		if w.suspect {
			w.unrung++
		}
		w.suspect = false
		if w.armed {
			w.bell.Disarm()
		}
		w.passes, w.armed = 0, false
		return false
	}
	w.suspect = false
	if !w.armed {
		if w.passes++; w.passes > w.spins {
			w.bell.Arm()
			w.armed = true
		}
		return false
	}
	until := forever
	if w.park > 0 {
		until = w.s.now + w.park
	}
	w.sleeps++
	w.deafUntil = 0
	timedOut = w.s.wait("asleep", w.rung, until)
	unrung := w.bell.Armed() // else the ring came, and would have ended the sleep late
	w.bell.Disarm()
	w.armed = false
	w.suspect = timedOut && w.lost == 0 && unrung
	return timedOut
}

// rung reports whether the sleep may end.
func (w *simWaiter) rung() bool {
	if w.bell.Armed() {
		return false
	}
	if w.deafUntil == 0 {
		switch {
		case w.lost > 0 && w.s.rnd.IntN(1000) < w.lost:
			w.deafUntil = forever
		case w.late > 0:
			w.deafUntil = w.s.now + time.Duration(w.s.rnd.Int64N(int64(w.late)))
			w.s.after(w.deafUntil-w.s.now, func() {}) // a time to go on to
		default:
			w.deafUntil = w.s.now
		}
	}
	return w.deafUntil <= w.s.now
}
