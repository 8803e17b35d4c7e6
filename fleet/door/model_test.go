// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/sim"
)

// Doors, sites and people as a model of package sim. Doors are real (Door.Pass), and so are the client of the fleet's
// keys and the store in memory; each call of a store takes simulated time, in which all others go on. Sites' leaders
// and agents are substitutes that work on their stores by the real client. A schedule's number decides sizes, delays
// and faults.

var (
	schedules = flag.Int("schedules", 0, "how many schedules TestSchedules makes; 0: 200, or 40 with -short")
	firstSeed = flag.Int("seed", 1, "the first schedule of TestSchedules")
	replays   = flag.Int("replays", 0, "how many schedules TestSchedulesReplay makes; 0: 10, or 3 with -short")
)

// mutation is a fault that is put in to see that the invariants find it.
type mutation string

// world is one schedule.
type world struct {
	c      *sim.Context
	r      *rand.Rand
	seed   int
	faulty mutation

	home    *place
	sites   []*place
	doors   []*doorHost
	keys    map[string]string  // id by idempotency key, that people were told
	broken  map[string]bool    // pieces with a model's error, by the experiment's name
	parts   map[string]bool    // at home, by experiment and piece
	known   map[string]*atHome // what the invariants have seen
	quiet   bool               // no more faults
	done    bool
	err     error
	tally   *tally
	closing []func()
	record  *record // nil: nobody wants it
}

// tally is what schedules have come to.
type tally struct{ events, moves, leads, lost, kills, stops, taken, again, removed int }

const (
	quietAt = 240   // seconds from which on there are no more faults
	lastAt  = 4_000 // by when all has ended
)

func (w *world) now() time.Duration { return time.Duration(w.c.Now() * 1e9) }

// violated notes the first invariant that doesn't hold.
func (w *world) violated(number int, format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("schedule %d, %.3f s: invariant %d: %s", w.seed, w.c.Now(), number,
			fmt.Sprintf(format, args...))
	}
}

func (w *world) chance(p float64) bool { return w.r.Float64() < p }

func (w *world) between(low, high float64) float64 { return low + w.r.Float64()*(high-low) }

// delay is that of a message: some milliseconds, seldom seconds.
func (w *world) delay() float64 {
	if w.chance(0.005) {
		return w.between(0.5, 4)
	}
	return w.between(0.001, 0.02)
}

// stopped ends a process whose world has ended.
type stopped struct{}

// start begins a process, which ends with the schedule.
func (w *world) start(f func(p *sim.Process)) {
	w.c.Go(func(p *sim.Process) {
		defer func() {
			if r := recover(); r != nil {
				if _, is := r.(stopped); !is {
					panic(r)
				}
			}
		}()
		f(p)
	})
}

// hold lets time pass.
func (w *world) hold(p *sim.Process, seconds float64) {
	p.Hold(seconds)
	w.tally.events++
	w.record.event(w.c.Now())
	if w.err != nil || w.done {
		panic(stopped{})
	}
}

// begin makes a schedule's stores, doors and people, and plans its faults.
func (w *world) begin() {
	w.home = w.place("home")
	for i := range 2 + w.r.IntN(2) {
		s := w.place(fmt.Sprintf("s%d", i))
		s.servers, s.bad = 1+w.r.IntN(4), w.chance(0.1)
		s.slow = w.between(0.5, 3)
		w.sites = append(w.sites, s)
		w.start(s.lead)
	}
	for i := range 1 + w.r.IntN(2) {
		h := &doorHost{w: w, name: fmt.Sprintf("d%d", i)}
		w.doors = append(w.doors, h)
		w.start(h.live)
	}
	for i := range 1 + w.r.IntN(3) {
		w.start(func(p *sim.Process) { w.person(p, i) })
	}
	for range w.r.IntN(12) {
		w.start(func(p *sim.Process) { w.hold(p, w.between(0, quietAt)); w.fault() })
	}
	w.start(w.end)
}

// fault lets something go wrong for a time, or for ever.
func (w *world) fault() {
	s := w.sites[w.r.IntN(len(w.sites))]
	h := w.doors[w.r.IntN(len(w.doors))]
	until := min(w.c.Now()+w.between(1, 120), quietAt)
	kind := w.r.IntN(12)
	if w.faulty == "beats come first" {
		kind, until = 8, quietAt // what that is about
	}
	switch kind {
	case 0:
		s.cutUntil = until // from all doors; it goes on by itself
	case 1:
		h.cuts[s], s.wasCut = until, true
	case 2:
		s.deadUntil = max(s.deadUntil, until) // and nothing goes on there
	case 3:
		s.emptyUntil = until // all machines
	case 4:
		w.home.cutUntil = min(w.c.Now()+w.between(1, 20), quietAt)
	case 5:
		h.killIn = 1 + w.r.IntN(60)
	case 6:
		h.stoppedUntil, h.suspended = until, w.chance(0.5)
	case 8:
		h.deaf[s], s.wasCut = until, true
	case 9:
		h.pausesUntil = until
	case 10:
		h.skew = time.Duration(w.between(-4000, 4000) * 1e9)
	case 11:
		h.stoppedUntil, h.suspended = min(w.c.Now()+w.between(0, 20), quietAt), w.chance(0.5)
	case 7:
		living := 0
		for _, other := range w.sites {
			if other != s && other.deadUntil < lastAt && !other.bad {
				living++
			}
		}
		if living > 0 && w.chance(0.5) {
			s.deadUntil = lastAt * 2 // it is gone for good
		}
	}
}

// person submits an experiment, changes its mind, and in the end wants it to end.
func (w *world) person(p *sim.Process, i int) {
	w.hold(p, float64(10*i)+w.between(0, 8)) // in another second each: ids begin with it
	l := &link{Client: w.home.server.NewClient(), w: w, p: p, to: w.home}
	c := w.client(l, fmt.Sprint("person", i))
	replications := 1 + w.r.IntN(5)
	if w.chance(0.2) { // long enough for what goes wrong
		replications += w.r.IntN(50)
	}
	s := &fleet.Submission{Key: fmt.Sprint("key", i), Name: fmt.Sprint("e", i), User: fmt.Sprint("u", i%2),
		Version:  "v",
		Priority: fleet.Normal, Steps: []fleet.SubmittedStep{{Step: fleet.Step{File: "f.yml", Points: make([][]string,
			1+w.r.IntN(2)), Replications: replications, Workers: 1}, Scenario: []byte(fmt.Sprint("text", i))}}}
	if w.chance(0.4) {
		s.Place = "/shared"
	}
	if w.chance(0.15) {
		w.broken[s.Name] = true
	}
	id := ""
	for id == "" {
		got, _, err := c.Submit(context.Background(), s)
		if err == nil {
			id = got
		}
		w.hold(p, w.between(0, 2))
	}
	if old := w.keys[s.Key]; old != "" && old != id {
		w.violated(1, "the key %s has %s and %s", s.Key, old, id)
	}
	w.keys[s.Key] = id
	for range w.r.IntN(4) {
		w.hold(p, w.between(0, 60))
		w.wish(c, id)
	}
	for {
		w.hold(p, 20)
		e, err := c.Show(context.Background(), id)
		if err == nil && e.Wish != nil && e.Wish.Want == fleet.WantPause {
			_, _ = c.Continue(context.Background(), id, "it is to end") // again until it is so
		}
	}
}

// wish changes what is wanted; what isn't possible, or can't be reached, is left.
func (w *world) wish(c *fleet.Client, id string) {
	ctx := context.Background()
	switch w.r.IntN(5) {
	case 0:
		_, _ = c.Pause(ctx, id, "")
	case 1:
		_, _ = c.Continue(ctx, id, "")
	case 2:
		_, _ = c.Cancel(ctx, id, "")
	case 3:
		_, _ = c.Retry(ctx, id, "")
	case 4:
		_, _ = c.SetPriority(ctx, id, fleet.High, "")
	}
}

// end waits until all has ended, and looks at what is left.
func (w *world) end(p *sim.Process) {
	w.hold(p, quietAt)
	w.quiet = true
	for _, h := range w.doors {
		h.killIn = 0
	}
	for {
		w.hold(p, 10)
		left := w.left()
		if left == "" {
			w.final()
			w.cleaned(p)
			w.done = true
			return
		}
		if w.c.Now() > lastAt-100 {
			number := 8
			if strings.HasPrefix(left, atSite) {
				number = 7
			}
			w.violated(number, "not everything ended: %s", left)
			return
		}
	}
}

// client is the fleet's client over a link.
func (w *world) client(l *link, by string) *fleet.Client {
	ctx := context.Background()
	for {
		store, err := metastore.New(ctx, l, metastore.Options{Group: "g", Base: fleet.Base()})
		if err != nil {
			l.Client = l.to.server.NewClient() // New has closed it
			w.hold(l.p, 1)
			continue
		}
		w.closing = append(w.closing, func() { _ = store.Close() })
		c, err := fleet.New(ctx, store, fleet.Options{By: by, Now: func() time.Time {
			return time.Unix(1_800_000_000, 0).Add(w.now())
		}})
		for err != nil {
			w.hold(l.p, 1)
			c, err = fleet.New(ctx, store, fleet.Options{By: by})
		}
		l.store = store
		return c
	}
}

// runSchedules runs schedules one after the other, in one simulation each, and gives the first error.
func runSchedules(t *testing.T, first, count int, faulty mutation) (sum tally, err error) {
	t.Helper()
	for i := first; i < first+count && err == nil; i++ {
		err = runSchedule(t, i, faulty, &sum, nil)
	}
	return sum, err
}

// runSchedule runs one, adds what it has come to, and records what happens where somebody wants that.
func runSchedule(t *testing.T, seed int, faulty mutation, sum *tally, into *record) error {
	t.Helper()
	w := &world{seed: seed, tally: sum, faulty: faulty, record: into, r: rand.New(rand.NewPCG(uint64(seed), 29)),
		keys: map[string]string{}, broken: map[string]bool{}, parts: map[string]bool{}, known: map[string]*atHome{}}
	m, err := sim.New("door", func(b *sim.Builder) {
		b.Horizon(lastAt)
		b.Node("world", func(n *sim.Node) { n.Start(func(c *sim.Context) { w.c = c; w.begin() }) })
	})
	if err != nil {
		t.Fatal(err)
	}
	_, failed := modeltest.Run(m, modeltest.Config{Seed: 1})
	for _, f := range w.closing {
		f()
	}
	if failed != nil && w.err == nil {
		t.Fatalf("schedule %d: %v", seed, failed)
	}
	if w.err == nil && !w.done {
		w.violated(8, "not everything ended: %s", w.left())
	}
	return w.err
}

func TestSchedules(t *testing.T) {
	count := *schedules
	if count == 0 {
		count = 200
		if testing.Short() {
			count = 40
		}
	}
	sum, err := runSchedules(t, *firstSeed, count, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d schedules: %+v", count, sum)
	if sum.moves == 0 || sum.lost == 0 || sum.kills == 0 || sum.again == 0 || sum.stops == 0 || sum.removed == 0 {
		t.Errorf("found %+v, want some of each", sum)
	}
}

// TestSchedulesFind puts faults in, and wants the invariants to find each.
func TestSchedulesFind(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes under the race detector, and is about the invariants, not about races")
	}
	firsts := map[mutation]int{ // the schedule that finds it comes soon behind this one; others' soon behind the first
		"no fence": 95, "routes without conditions": 140, "a second key": 175,
	}
	for faulty, want := range map[mutation]string{
		"no guard":                  "invariant 6",
		"routes without conditions": "invariant 5",
		"taken twice":               "invariant 2",
		"no fence":                  "invariant 7",
		"no beat":                   "invariant 8",
		"no part":                   "invariant 4",
		"never given away":          "invariant 8",
		"wishes aren't told":        "invariant 8",
		"a second key":              "invariant 1",
		"accounts go early":         "invariant 10",
		"accounts stay":             "invariant 11",
		"parts stay":                "invariant 11",
		"beats come first":          "invariant 9",
	} {
		t.Run(string(faulty), func(t *testing.T) {
			_, err := runSchedules(t, max(1, firsts[faulty]), 1500, faulty)
			if err == nil {
				t.Fatal("nothing was found")
			}
			t.Log(err)
			if got := errors.New(want); !containsError(err, got) {
				t.Errorf("found %v, want %s", err, want)
			}
		})
	}
}
