// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/sim"
)

// The fleet as a model of package sim: machines with an agent, its servers and a candidate for leading, the store,
// people. Decide and the servers' state machine (cluster.Slot) are real, and what the store refuses is what the
// client's functions refuse. All else is a substitute on simulated time. A schedule's number decides sizes, delays and
// faults.

var (
	schedules = flag.Int("schedules", 0, "how many schedules TestSchedules makes; 0: 1,000, or 100 with -short")
	firstSeed = flag.Int("seed", 1, "the first schedule of TestSchedules")
)

// mutation is a fault of the leader's, put in to see that the invariants find it.
type mutation string

// world is one schedule.
type world struct {
	c      *sim.Context
	r      *rand.Rand
	seed   int
	faulty mutation

	store   *simStore
	hosts   []*host
	people  *host // who submit and wish; they have no session
	specs   []*Spec
	answers map[string]string // id by idempotency key, that people were told
	parts   map[string]string // hash by experiment and piece, in the place
	broken  map[string]bool   // pieces with a model's error, by experiment and piece
	erred   map[string]uint64 // the experiment's retries when a model's error was taken
	tops    map[string]int    // the greatest attempt of each piece
	tries   map[string]int    // attempts since the last retry
	faults  map[string][]string
	held    map[string]float64 // since when
	entered map[string]float64 // when each piece came into its state
	jumped  bool               // a clock has
	quiet   bool               // no more faults
	killIn  int                // commits of leaders until the one who makes it is killed
	read    map[uint64]float64 // when each leader has read the store, by token
	done    bool
	err     error
	tally   *tally
	pipes   pipelines
	ways    ways
	begun   map[uint64]int     // pieces that each leader has begun, by token
	again   map[uint64]int     // and has tried again
	since   map[uint64]float64 // when each leader has begun to lead
	away    [2]float64         // from when to when no run goes on: the place is away
	record  *record            // of what happens; nil: nobody wants it
}

// tally is what schedules have come to.
type tally struct {
	events                          int
	moves                           map[[2]PieceState]int
	leads                           int // leaders that have read the store
	lost                            int // answers
	froms                           int // retries from a step on
	passed                          int // servers that a gang was given while another machine was full
	notes, extended, silenced, left int // of deadlines
	parted                          int // runs that have ended since two of their machines were cut off from each other
	again, waited                   int // attempts that were tried again, and decisions at which some waited for that
	scarce, gone                    int // attempts that didn't count, since memory was scarce, or an agent left
}

const quietAt = 120 // seconds from which on there are no more faults

// after does something later.
func (w *world) after(delay float64, f func()) {
	w.c.After(delay, func(*sim.Context) {
		if w.err != nil || w.done {
			return
		}
		w.tally.events++
		w.record.event(w.c.Now())
		f()
		w.check()
		if w.err != nil {
			w.c.Fail(w.err)
		}
	})
}

func (w *world) now() time.Duration { return time.Duration(w.c.Now() * 1e9) }

// violated notes the first invariant that doesn't hold.
func (w *world) violated(number int, format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("schedule %d, %.3f s: invariant %d: %s", w.seed, w.c.Now(), number,
			fmt.Sprintf(format, args...))
	}
}

// chance is true with a probability.
func (w *world) chance(p float64) bool { return w.r.Float64() < p }

// between is a random number.
func (w *world) between(low, high float64) float64 { return low + w.r.Float64()*(high-low) }

// delay is that of a message: some milliseconds, seldom seconds.
func (w *world) delay() float64 {
	if w.chance(0.01) {
		return w.between(0.5, 4)
	}
	return w.between(0.001, 0.02)
}

var (
	errUnknown  = errors.New("the answer was lost")
	errConflict = errors.New("it isn't as it was read")
	errGuard    = errors.New("another one leads")
)

// call has the store do something for a host, and tells it the outcome, if it is still the same process. A cut, or the
// store's outage, delays it; an answer may get lost, and what was asked may be done much later then, or never.
func (w *world) call(h *host, do func() error, reply func(err error)) {
	life, up := h.life, max(h.cutUntil, w.store.downUntil)-w.c.Now()
	there := max(up, 0) + w.delay()
	answer := func(err error) {
		w.local(h, w.delay(), func() {
			if h.life == life {
				reply(err)
			}
		})
	}
	lost := !w.quiet && (up > 0 && w.chance(0.3) || w.chance(0.01))
	if !lost {
		w.after(there, func() { answer(do()) })
		return
	}
	w.tally.lost++
	w.after(there+w.between(0, 1), func() { answer(errUnknown) })
	if w.chance(0.6) {
		w.after(there+w.between(0, 30)*w.r.Float64(), func() { _ = do() })
	}
}

// local does something at a host, when it isn't stopped.
func (w *world) local(h *host, delay float64, f func()) {
	w.after(delay, func() {
		if left := h.stoppedUntil - w.c.Now(); left > 0 {
			w.local(h, left+w.between(0, 0.01), f)
			return
		}
		f()
	})
}

// begin makes a schedule's machines and plans.
func (w *world) begin() {
	w.store = newSimStore(w)
	w.people = &host{w: w, name: "people", alive: true}
	for i := range 2 + w.r.IntN(3) {
		h := &host{w: w, name: fmt.Sprintf("m%d", i), view: map[string]seen{}}
		w.hosts = append(w.hosts, h)
		w.after(w.between(0, 3), h.boot)
	}
	for i := range 1 + w.r.IntN(3) {
		w.submit(i)
	}
	w.beginPipelines()
	w.submitUntil()
	w.killIn = 1 + w.r.IntN(60)
	for range w.r.IntN(8) {
		w.after(w.between(0, quietAt), w.fault)
	}
	for range w.r.IntN(6) {
		w.after(w.between(1, quietAt), w.wish)
	}
	w.fill()
	w.part()
	w.takePlace()
	w.after(quietAt, w.calm)
}

// calm ends all faults.
func (w *world) calm() {
	w.quiet, w.killIn = true, 0
	w.goOn()
	w.after(10, w.look)
}

// goOn has what is paused go on: a late pause, too.
func (w *world) goOn() {
	for _, id := range w.store.ids {
		w.store.wish(id, func(x *Wish) bool {
			was := x.Want
			if was == WantPause {
				x.Want = WantRun
			}
			return was == WantPause
		})
	}
}

// look ends the schedule when all has ended.
func (w *world) look() {
	if w.ended() {
		w.final()
		w.done = true
		return
	}
	w.goOn()
	for _, h := range w.hosts { // some machine lives: people see to that
		if h.alive && !h.usable() {
			h.end(1)
		}
	}
	w.after(5, w.look)
}

// submit has people submit an experiment, again and again until they are answered.
func (w *world) submit(i int) {
	steps := []Step{w.step("a", nil)}
	if w.chance(0.3) {
		steps = append(steps, w.step("b", []string{"a"}))
	}
	spec := &Spec{Name: fmt.Sprint("e", i), User: fmt.Sprint("user", w.r.IntN(2)), Key: fmt.Sprint("key", i),
		Steps: steps}
	if w.chance(0.2) {
		spec.Limits = shortLimits
	}
	w.enter(spec)
}

// enter has people submit it.
func (w *world) enter(spec *Spec) {
	w.specs = append(w.specs, spec)
	w.breaks(spec)
	var try func()
	tries := 0
	try = func() {
		tries++
		mine := *spec
		mine.ID = fmt.Sprintf("%s-%d", spec.Name, tries) // a random one of each try
		var id string
		w.call(w.people, func() (err error) { id, err = w.store.submit(mine); return err }, func(err error) {
			if err != nil {
				w.after(w.between(0, 2), try)
				return
			}
			if old := w.answers[spec.Key]; old != "" && old != id {
				w.violated(1, "the key %s has the experiments %s and %s", spec.Key, old, id)
			}
			w.answers[spec.Key] = id
		})
		if tries == 1 && w.chance(0.3) { // people are impatient, or their program is killed and begun anew
			w.after(w.between(0, 0.05), try)
		}
	}
	w.after(w.between(0, 30), try)
}

func (w *world) step(name string, after []string) Step {
	workers := 1 + w.r.IntN(3)
	if w.chance(0.03) {
		workers = 50 // never fits
	}
	return Step{Name: name, After: after, Points: make([][]string, 1+w.r.IntN(2)), Replications: 1 + w.r.IntN(3),
		Workers: workers}
}

// wish has people change their minds.
func (w *world) wish() {
	if len(w.store.ids) == 0 {
		return
	}
	id := w.store.ids[w.r.IntN(len(w.store.ids))]
	what := w.r.IntN(5)
	w.call(w.people, func() error {
		w.store.wish(id, func(x *Wish) bool {
			ended := w.store.standings[id].Ended
			switch {
			case what == 0 && x.Want == WantRun && !ended:
				x.Want = WantPause
			case what == 1 && x.Want == WantPause && !ended:
				x.Want = WantRun
			case what == 2 && !ended:
				x.Want = WantCancel
			case what == 3 && x.Want == WantCancel, what == 3 && ended:
				x.Want, x.Retry, x.From = WantRun, x.Retry+1, ""
			case what == 4:
				x.Priority = []Priority{High, Normal, Low}[w.r.IntN(3)]
			default:
				return false
			}
			return true
		})
		return nil
	}, func(error) {})
}

// fault lets something go wrong.
func (w *world) fault() {
	if w.quiet {
		return
	}
	h := w.hosts[w.r.IntN(len(w.hosts))]
	switch w.r.IntN(7) {
	case 0:
		h.kill(w.between(0.5, 30))
	case 1:
		h.stoppedUntil = w.c.Now() + w.between(0.5, 30)
	case 2:
		h.cutUntil = w.c.Now() + w.between(0.5, 30)
	case 3:
		w.store.downUntil = w.c.Now() + w.between(0.5, 8)
	case 4:
		w.jumped = true
		h.jumps += time.Duration(w.between(0, 300) * 1e9)
	case 5:
		for _, sl := range h.slots {
			switch {
			case sl.run == nil:
			case w.seed%6 == 5: // its agent is told to leave
				sl.run.end(Report{State: Canceled})
			default:
				sl.run.crash()
			}
		}
	case 6:
		if len(h.slots) > 0 {
			sl := h.slots[w.r.IntN(len(h.slots))]
			sl.run = nil
			sl.step(sl.sm.Break("its folder is gone"))
		}
	}
}

// runSchedules runs schedules one after the other, in one simulation each, and gives the first error.
func runSchedules(t *testing.T, first, count int, faulty mutation) (sum tally, err error) {
	t.Helper()
	sum.moves = map[[2]PieceState]int{}
	for i := first; i < first+count && err == nil; i++ {
		err = runSchedule(t, i, faulty, &sum, nil)
	}
	return sum, err
}

// runSchedule runs one, adds what it has come to, and records what happens where somebody wants that.
func runSchedule(t *testing.T, seed int, faulty mutation, sum *tally, into *record) error {
	t.Helper()
	w := &world{seed: seed, tally: sum, faulty: faulty, pipes: newPipelines(seed), record: into,
		r:       rand.New(rand.NewPCG(uint64(seed), 17)),
		answers: map[string]string{},
		parts:   map[string]string{}, broken: map[string]bool{}, erred: map[string]uint64{}, tops: map[string]int{},
		tries: map[string]int{}, faults: map[string][]string{}, held: map[string]float64{},
		read: map[uint64]float64{}, entered: map[string]float64{},
		begun: map[uint64]int{}, again: map[uint64]int{}, since: map[uint64]float64{}}
	m, err := sim.New("fleet", func(b *sim.Builder) {
		b.Horizon(20_000)
		b.Node("world", func(n *sim.Node) {
			n.Start(func(c *sim.Context) { w.c = c; w.begin() })
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := modeltest.Run(m, modeltest.Config{Seed: 1}); err != nil && w.err == nil {
		t.Fatalf("schedule %d: %v", seed, err)
	}
	if w.err == nil && !w.done {
		w.violated(8, "not everything ended: %s", w.left())
	}
	return w.err
}

func TestSchedules(t *testing.T) {
	count := *schedules
	if count == 0 {
		count = 1_000
		if testing.Short() {
			count = 100
		}
	}
	sum, err := runSchedules(t, *firstSeed, count, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d schedules, %d events, %d leaders, %d answers lost, %d retries from a step on, %d servers given beside "+
		"full machines", count, sum.events, sum.leads, sum.lost, sum.froms, sum.passed)
	t.Logf("%d notes of ages, and %d extensions; %d runs ended by a deadline, %d servers left", sum.notes, sum.extended,
		sum.silenced, sum.left)
	t.Logf("%d runs were parted", sum.parted)
	if count >= 1000 && sum.parted == 0 {
		t.Error("no schedule has a run of which two machines are cut off from each other")
	}
	t.Logf("%d attempts tried again, and %d decisions at which some had to wait for that", sum.again, sum.waited)
	t.Logf("%d attempts didn't count, since memory was scarce, and %d, since an agent left", sum.scarce, sum.gone)
	if count >= 100 && min(sum.scarce, sum.gone) == 0 {
		t.Error("no schedule has an attempt that doesn't count since memory was scarce, or an agent left")
	}
	if count >= 100 && sum.waited == 0 {
		t.Error("no schedule has an attempt that waits for the budget")
	}
	if count >= 1000 && min(sum.extended, sum.silenced, sum.left) == 0 {
		t.Error("no schedule has a run that is granted more, one that is ended by a deadline, or a server that is left")
	}
	for from := Waiting; from <= Canceled; from++ {
		for _, to := range moves[from] {
			t.Logf("%10v to %-10v %7d", from, to, sum.moves[[2]PieceState{from, to}])
			seldom := from == Paused && (to == Failed || to == Finished)
			if count >= 1000 && sum.moves[[2]PieceState{from, to}] == 0 && !seldom {
				t.Errorf("no schedule moves a piece from %v to %v", from, to)
			}
		}
	}
}
