// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Mode is how a Waiter passes the time in which there is no work.
type Mode uint8

// The modes. Their names in settings are "adaptive", "spin", "yield" and "park".
const (
	// ModeAdaptive spins as long as spinning has paid lately, then yields, then
	// parks: close to spinning while events come often, no load while they don't.
	// Where there are more threads than processors (WaiterConfig.Crowded) it doesn't spin.
	ModeAdaptive Mode = iota
	// ModeSpin only spins: the lowest latency, for a thread with a core to itself.
	// Two spinning threads on one core stop each other for whole time slices.
	ModeSpin
	// ModeYield spins with a yield in every pass: for more busy threads than cores.
	ModeYield
	// ModePark sleeps at once: the least load, and a wake-up's latency every time.
	ModePark
	modes
)

var modeNames = [modes]string{"adaptive", "spin", "yield", "park"}

// String is the mode's name in settings.
func (m Mode) String() string {
	if m < modes {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// ParseMode finds the mode of a name.
func ParseMode(name string) (Mode, error) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), nil
		}
	}
	return 0, fmt.Errorf("shm: waiting mode %q, want one of %q", name, modeNames)
}

const (
	// spinMaxDefault is the cost of a slow wake-up: 25 to 50 µs from one
	// core to another that has gone idle. Spinning for as long as a sleep would
	// cost is never worse than twice the best choice made in hindsight.
	spinMaxDefault = 50 * time.Microsecond
	// spinMin is the least budget, kept when spinning has not paid for long, so
	// that a change for the better is noticed.
	spinMin = time.Microsecond
	// parkMaxDefault: what a death between publish and ring can cost (docs/doorbell.md).
	parkMaxDefault = 50 * time.Millisecond
	// parkDoublings: from 50 to 400 ms. A wake-up by itself takes 10 µs, 20 of them a
	// second 0.02 % of a core. But after each the Go runtime's own monitor thread stays
	// awake for a while, and naps fifty times as often: that is what an idle process
	// costs.
	parkDoublings = 3
	// clockPasses is how many spinning passes go by between two looks at the clock,
	// which takes as long as several of them.
	clockPasses = 16
	// watchLooks is what Looks returns: for 0.1 to 0.5 µs nothing else is done.
	watchLooks = 8
	// yieldPassesMin is how many yields there are at least before a sleep. One that
	// let another thread run may have taken the whole time budget by itself.
	yieldPassesMin = 4
	// yieldContended: a yield that takes longer than this, on average, has let
	// another thread run. Alone on a core it takes some 0.2 µs.
	yieldContended = 2 * time.Microsecond
	// adaptShift: each pause moves the spin budget by an eighth of the difference.
	adaptShift = 3
)

// WaiterConfig sets a Waiter up.
type WaiterConfig struct {
	// Bell is rung by every producer of work. It may be nil in ModeSpin and
	// ModeYield only.
	Bell *Doorbell
	// Mode, ModeAdaptive by default.
	Mode Mode
	// SpinMax is the longest time that ModeAdaptive spins, and then again yields,
	// before it sleeps; default 50 µs. Raised, it burns more at every pause in the
	// work; lowered, more pauses end in a wake-up of 5 to 50 µs.
	SpinMax time.Duration
	// ParkMax is the longest sleep, default 50 ms. After a sleep that ended by its timeout the
	// next one may be twice as long, up to eight times ParkMax, until a producer rings
	// or there is work. Raised, the caller checks its peers more rarely; lowered,
	// an idle process costs more.
	ParkMax time.Duration
	// Crowded says that more threads wait like this one than there are processors. ModeAdaptive
	// then never spins, because that keeps a processor from whoever is to bring the work: it
	// yields at once, and after SpinMax sleeps.
	Crowded bool
	// Goroutines yields to other goroutines (runtime.Gosched) and not to other
	// threads: for workers that are goroutines of one process and may be more than
	// GOMAXPROCS. On a locked thread it costs a switch of threads.
	Goroutines bool
}

func (c *WaiterConfig) validate() error {
	if c.Mode >= modes {
		return fmt.Errorf("shm: waiter in %v, want one of %q", c.Mode, modeNames)
	}
	if c.Bell == nil && (c.Mode == ModeAdaptive || c.Mode == ModePark) {
		return fmt.Errorf("shm: waiter in mode %v without a doorbell: set Bell, or choose spin or yield", c.Mode)
	}
	if c.SpinMax == 0 {
		c.SpinMax = spinMaxDefault
	}
	if c.ParkMax == 0 {
		c.ParkMax = parkMaxDefault
	}
	if c.SpinMax < spinMin || c.SpinMax > time.Second || c.ParkMax < 0 || c.ParkMax > time.Hour {
		return fmt.Errorf("shm: waiter that spins up to %v and sleeps up to %v, want %v to 1 s and up to 1 h",
			c.SpinMax, c.ParkMax, spinMin)
	}
	return nil
}

// phase is where a Waiter is between two passes.
type phase uint8

const (
	phaseBusy  phase = iota // the last pass had work
	phaseSpin               // spinning
	phaseYield              // yielding
	phaseArmed              // the bell is armed; the pass that has just been made was the second look
	phaseSlept              // a sleep has ended; whether there is work is not known yet
)

// Waiter decides, pass by pass of a duty cycle, how to wait for work: spin, then
// yield, then park. One pass looks everywhere that work can come from; Idle is
// called after each, from one goroutine, and never allocates.
//
//	for !done {
//		work := poll() + step()
//		w.Idle(work > 0)
//	}
//
// Before it sleeps, Idle arms the bell and returns, so that the next pass is the
// second look that the handshake needs. So a pass must poll everything that the
// bell is rung for, with atomic loads, every time.
type Waiter struct {
	cfg  WaiterConfig // immutable
	base time.Time    // immutable; the waiter's clock counts from here

	phase  phase
	token  uint32        // of the bell, in phaseArmed
	passes int           // in phaseYield; in phaseSpin passes and looks since the last look at the clock
	since  time.Duration // since when in this phase; in phaseSpin 0 until the first look at the clock
	missed int           // looks since Looks that found nothing
	keen   bool          // the last pause ended in phaseSpin, and no work has come without a pause since
	fresh  bool          // it was ended by resume, and Looks wasn't called since
	budget time.Duration // how long ModeAdaptive spins at present, spinMin to SpinMax
	quiet  int           // sleeps in a row that ended by their timeout, at most parkDoublings

	stats WaiterStats
}

// WaiterStats counts how a Waiter's pauses ended. A pause is the time from one pass
// with work to the next.
type WaiterStats struct {
	Spun     uint64        // pauses that ended while spinning
	Yielded  uint64        // pauses that ended while yielding
	Parked   uint64        // pauses that ended after at least one sleep, or just before one
	Sleeps   uint64        // sleeps
	Timeouts uint64        // sleeps that ended by their timeout
	Budget   time.Duration // how long ModeAdaptive spins at present
}

// NewWaiter makes a Waiter. It starts with the full spin budget.
func NewWaiter(cfg WaiterConfig) (*Waiter, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Waiter{cfg: cfg, base: time.Now(), budget: cfg.SpinMax}, nil
}

// Idle ends one pass of the duty cycle; work says whether the pass had any. With
// work it returns at once. Without work it spins, yields or sleeps once.
// It returns true after a sleep that ended by its timeout: then the caller checks its peers.
func (w *Waiter) Idle(work bool) (timedOut bool) {
	if work && w.phase == phaseBusy {
		return false
	}
	return w.idle(work)
}

// idle is Idle but for a pass with work after another one.
func (w *Waiter) idle(work bool) (timedOut bool) {
	if work {
		w.resume()
		return false
	}
	return w.pass(w.park())
}

// park is the longest that the next sleep may be.
func (w *Waiter) park() time.Duration { return w.cfg.ParkMax << w.quiet }

// Reset ends the pause that is going on, and disarms the bell. Call it before
// the goroutine does something other than the duty cycle.
func (w *Waiter) Reset() {
	if w.phase == phaseArmed {
		w.cfg.Bell.Disarm()
	}
	w.phase, w.quiet, w.keen = phaseBusy, 0, false
}

// Await waits until ready returns true, at most for limit, and reports whether it
// did. It is the loop above for a caller with one thing to wait for; ready must
// load atomically something that the bell is rung for.
func (w *Waiter) Await(ready func() bool, limit time.Duration) bool {
	deadline := w.now() + limit
	for passes := 1; ; passes++ {
		if ready() {
			w.Idle(true)
			return true
		}
		left := w.park()
		if w.phase != phaseSpin || passes%clockPasses == 0 {
			left = min(left, deadline-w.now())
		}
		if left <= 0 {
			w.Reset()
			return false
		}
		w.pass(left)
	}
}

// Stats copies the counters. For the goroutine that calls Idle.
func (w *Waiter) Stats() WaiterStats {
	s := w.stats
	s.Budget = w.budget
	return s
}

// pass waits once, at most for park if it comes to a sleep.
func (w *Waiter) pass(park time.Duration) (timedOut bool) {
	switch w.phase {
	case phaseBusy:
		w.begin()
	case phaseSpin:
		w.spin()
	case phaseYield:
		w.yield()
	case phaseArmed:
		return w.sleep(park)
	case phaseSlept:
		// No work before the sleep and none after it: the wake-up was spurious, so park again.
		w.token, w.phase = w.cfg.Bell.Arm(), phaseArmed
	}
	return false
}

// begin starts a pause. It doesn't look at the clock: most pauses of a busy
// worker are over before that is done.
func (w *Waiter) begin() {
	w.passes, w.since = 0, 0
	switch {
	case w.cfg.Mode == ModeYield:
		w.phase = phaseYield
		w.yield()
	case w.cfg.Mode == ModePark:
		w.arm(w.now())
	case w.cfg.Mode == ModeAdaptive && w.cfg.Crowded:
		w.phase, w.since = phaseYield, w.now()
		w.yield()
	default:
		w.phase = phaseSpin
		Pause()
	}
}

func (w *Waiter) spin() {
	Pause()
	w.passes += 1 + w.missed
	w.missed = 0
	if w.passes < clockPasses || w.cfg.Mode == ModeSpin {
		return
	}
	w.passes = 0
	now := w.now()
	if w.since == 0 {
		w.since = now
	} else if now-w.since >= w.budget {
		w.phase, w.passes, w.since = phaseYield, 0, now
	}
}

func (w *Waiter) yield() {
	if w.cfg.Goroutines {
		runtime.Gosched()
	} else {
		Yield()
	}
	w.passes++
	if w.cfg.Mode == ModeYield || w.passes < yieldPassesMin {
		return
	}
	if now := w.now(); now-w.since >= w.cfg.SpinMax {
		w.arm(now)
	}
}

// Looks is how often the caller looks for work before its next pass, as long as there is none, with Missed behind each
// look: these looks find work sooner than whole passes do. It is 0 unless the last Idle spun.
//
//	for n := w.Looks(); n > 0 && !look(); n-- {
//		w.Missed()
//	}
//
// In the pass after the one that ended such a pause it isn't 0 either: who has waited for a message and has answered it
// mostly waits again. That ends as soon as the first look finds work.
func (w *Waiter) Looks() int {
	if w.phase != phaseSpin && !w.keen {
		return 0
	}
	return w.looks()
}

// looks is Looks of a waiter that spins, or did before the last pass.
func (w *Waiter) looks() int {
	if w.phase != phaseSpin {
		switch {
		case w.fresh:
			w.fresh = false
		case w.missed > 0: // a pause began and ended between the last Looks and Idle
			w.stats.Spun++
			if w.cfg.Mode == ModeAdaptive {
				w.spinMore()
			}
		default: // work came without a pause
			w.keen = false
			return 0
		}
	}
	w.missed = 0
	return watchLooks
}

// Missed notes a look that has found nothing, and pauses the processor: a reader that looks without a break takes the
// cache line away from its writer.
func (w *Waiter) Missed() {
	w.missed++
	Pause()
}

// Armed reports whether the bell is armed: unless the pass that follows finds work,
// the next Idle sleeps. A caller that must also be woken by something that doesn't
// ring the bell by itself, such as the end of a context, arranges for that now.
func (w *Waiter) Armed() bool { return w.phase == phaseArmed }

// arm makes the pass that follows the second look.
func (w *Waiter) arm(now time.Duration) {
	w.phase, w.since = phaseArmed, now
	// SYNC POINT work-published: Arm fences, then this returns to the caller, whose
	// next pass loads everything that a producer publishes before it rings.
	w.token = w.cfg.Bell.Arm()
}

func (w *Waiter) sleep(park time.Duration) (timedOut bool) {
	err := w.cfg.Bell.Wait(w.token, park)
	w.cfg.Bell.Disarm()
	w.phase = phaseSlept
	w.stats.Sleeps++
	if err == nil {
		w.quiet = 0
		return false
	}
	if !errors.Is(err, ErrTimeout) {
		panic(fmt.Sprintf("shm: waiter on a bell that can't be slept on: %v", err))
	}
	w.stats.Timeouts++
	w.quiet = min(w.quiet+1, parkDoublings)
	return true
}

// resume ends a pause: it counts how it ended, and adapts the spin budget.
func (w *Waiter) resume() {
	switch w.phase {
	case phaseSpin:
		w.stats.Spun++
	case phaseYield:
		w.stats.Yielded++
	default:
		w.stats.Parked++
	}
	if w.cfg.Mode == ModeAdaptive {
		took := time.Duration(0)
		if w.phase != phaseSpin {
			took = w.now() - w.since
		}
		w.learn(took)
	}
	keen := w.phase == phaseSpin
	w.Reset()
	w.keen, w.fresh = keen, keen
}

// learn moves the spin budget after a pause that ended in the present phase, took
// after it had entered yielding or first armed the bell.
func (w *Waiter) learn(took time.Duration) {
	pays := true // spinning has brought the work
	switch w.phase {
	case phaseYield:
		// A little more spinning would have found it, unless other threads need this
		// core: one of them may have produced the work.
		pays = took <= time.Duration(w.passes)*yieldContended
	case phaseArmed, phaseSlept:
		pays = took < w.cfg.SpinMax
	}
	if pays {
		w.spinMore()
	} else {
		w.spinLess()
	}
}

func (w *Waiter) spinMore() { w.budget += (w.cfg.SpinMax - w.budget) >> adaptShift }
func (w *Waiter) spinLess() { w.budget -= (w.budget - spinMin) >> adaptShift }

// now is the waiter's own monotonic clock; never 0.
func (w *Waiter) now() time.Duration { return time.Since(w.base) + 1 }
