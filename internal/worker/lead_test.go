// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// leadRun is the slowest worker as a lead sees it: every call of a handler takes it on by step simulated seconds and
// cost of wall time. It returns how far ahead of it a worker may be at the end.
func leadRun(l *lead, calls int, step float64, cost, between time.Duration) (ahead float64) {
	s := leadSample{at: time.Unix(1e9, 0)}
	l.start(s.at)
	looked := s.at
	for range calls {
		s.calls++
		s.place += step
		s.at = s.at.Add(cost)
		if s.at.Sub(looked) >= between {
			l.look(s)
			looked = s.at
		}
	}
	return l.end - s.place
}

func TestLead(t *testing.T) {
	const short = 0.001 * float64(leadTime/(10*time.Microsecond)) // simulated seconds of leadTime
	for _, c := range []struct {
		what          string
		calls         int
		step          float64
		cost, between time.Duration
		least, most   float64
	}{
		{"short calls, looked at often", 100_000, 0.001, 10 * time.Microsecond, 0, 0.99 * short, 1.01 * short},
		{"short calls, looked at rarely", 100_000, 0.001, 10 * time.Microsecond, leadTime * 3 / 10, 0.6 * short,
			1.01 * short},
		{"short calls, looked at seldom", 100_000, 0.001, 10 * time.Microsecond, leadTime * 3 / 2, -1e-6, 1.01 * short},
		{"calls of a second: leadCalls of them, not what leadTime says", 50, 1, time.Second, 0, 4, 4.1},
		{"calls of 5 ms, as in turns of many threads: leadMany of them", 500, 1, 5 * time.Millisecond, 0, 64, 65},
		{"calls of 50 ms: as many as leadLong has", 500, 1, 50 * time.Millisecond, 0, 20, 21},
		{"the start: twice as far as the slowest", 5, 1, time.Microsecond, 0, 4.9, 5.1},
	} {
		l := &lead{time: leadTime, calls: leadCalls, many: leadMany}
		if got := leadRun(l, c.calls, c.step, c.cost, c.between); got < c.least || got > c.most {
			t.Errorf("%s: %v simulated seconds ahead, want %v to %v", c.what, got, c.least, c.most)
		}
	}
}

// Where workers take turns on few processors, one may be as far ahead as a turn of all takes.
func TestLeadOfCrowd(t *testing.T) {
	for crowded, time := range map[bool]time.Duration{false: leadTime, true: leadTurns} {
		if l := newLead(3, crowded); l.time != time || l.calls != 3*leadCalls || l.many != 3*leadMany {
			t.Errorf("crowded %v: %+v", crowded, l)
		}
	}
}

// Whatever other processes have written: the end is a time that never falls, and the slowest worker itself may go on.
func TestLeadOfAnything(t *testing.T) {
	l := &lead{time: leadTime, calls: leadCalls, many: leadMany}
	s := leadSample{at: time.Unix(1e9, 0)}
	l.start(s.at)
	last := l.end
	for i, place := range []float64{0, 1, math.NaN(), -5, math.Inf(-1), 1, 0.5, 3, math.MaxFloat64, math.Inf(1), 2} {
		for _, calls := range []uint64{0, 7, math.MaxUint64, 1 << 40} {
			s.at, s.place, s.calls = s.at.Add(60*time.Millisecond), place, calls
			l.look(s)
			if !(l.end >= last) || place >= 0 && !(l.end > place) && !math.IsInf(place, 1) {
				t.Errorf("look %d, slowest at %v: the end is %v after %v", i, place, l.end, last)
			}
			last = l.end
		}
	}
}

// Workers that have nothing to do with each other stay together: one with ten times the simulated time in a call, whose
// calls cost nothing, comes no further than twice as far as the other one. Without a lead it comes to the end at once.
func TestWorkersApart(t *testing.T) {
	for lead, most := range map[time.Duration]float64{leadTime: 0, time.Nanosecond: 0, 0: 90} {
		k := &costKind{cost: []time.Duration{ms, 0}, step: []float64{1, 10}, lead: lead}
		furthest := 0.0
		k.look = func(n int) {
			if n == 1 {
				furthest = max(furthest, k.at[1]-2*k.at[0])
			}
		}
		stats, calls, _ := costRun(t, k, Tuning{BatchMax: 1})
		if calls[0] != 100 || calls[1] != 10 || furthest != most {
			t.Errorf("lead of %v: %d and %d calls, at most %v simulated seconds too far ahead, want %v", lead, calls[0],
				calls[1], furthest, most)
		}
		checkShares(t, k, stats, calls, 100*ms)
	}
}

// heldWorker is the first of two workers that have nothing to do with each other, with the boards of both: its node
// calls itself every step simulated seconds, and a call takes 1 ms.
func heldWorker(t *testing.T, step float64) (*replications, *tableClock, []*shm.Segment) {
	t.Helper()
	k := &costKind{cost: []time.Duration{ms, ms}, step: []float64{step, step}, at: make([]float64, 2)}
	k.clock = &tableClock{time.Unix(1e9, 0)}
	kinds, err := scenario.NewRegistry(scenario.Kind{Name: k.Name(), Load: k.load})
	if err != nil {
		t.Fatal(err)
	}
	segs := heapSegments(t, 2, DefaultTuning())[0]
	segs.Input = testInput(t, kinds, "model: cost\n", []int32{0, 1}, 2)
	r, err := newReplications(&Setup{Workers: 2, Tuning: DefaultTuning(), OneProcess: true}, kinds,
		func(*Setup) (Segments, Files, error) { return segs, Files{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	r.cycle.now = k.clock.now
	return r, k.clock, segs.Boards
}

// A worker that is held goes on when it is rung and at no other time, whatever time passes and however many handlers
// are called while the slowest one has come no further: else it would sleep until a timeout.
func TestHeldIsRung(t *testing.T) {
	r, clock, boards := heldWorker(t, 0.01)
	c := r.cycle
	slowest, err := OpenMirror(boards[1])
	if err != nil {
		t.Fatal(err)
	}
	self, err := OpenView(boards[0])
	if err != nil {
		t.Fatal(err)
	}
	rings, stalls := 0, 0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		slowest.Show(ShownFirst, nil, nil)
		if err := r.prepare(&Prepare{}); err != nil {
			t.Fatal(err)
		}
		c.ledger.start(c.now)
		shown, held := ShownFirst, false
		for range 1000 {
			clock.at = clock.at.Add([]time.Duration{0, ms, 50 * ms, 2 * time.Second}[rnd.IntN(4)])
			shown.Calls += []uint64{0, 1, 30, 1000}[rnd.IntN(4)]
			before := shown.Place
			shown.Place += []float64{0, 0, 0.001, 0.02, 0.1}[rnd.IntN(5)]
			rung := false
			slowest.Show(shown, []*View{self}, func(int) { rung = true })
			if rnd.IntN(20) == 0 { // as if there were earlier work for a while
				c.engine.SetWindow(math.Inf(1))
				if c.mayGoOn() || !math.IsInf(c.waitsAt, 1) {
					t.Fatalf("seed %d: it waits for %v, and nothing holds it", seed, c.waitsAt)
				}
				c.engine.SetWindow(c.lead.end)
				held = false
			}
			goes := c.mayGoOn()
			if held && goes && !rung {
				t.Fatalf("seed %d: it goes on with the slowest at %v, and nobody has rung", seed, shown.Place)
			}
			at, any := c.engine.Ahead()
			if held = !goes && any; held && !(c.waitsAt > shown.Place && c.waitsAt <= at) {
				t.Fatalf("seed %d: the slowest is at %v, the next activation at %v: it waits for %v", seed, shown.Place,
					at, c.waitsAt)
			}
			if rung {
				rings++
			}
			if held && shown.Place == before {
				stalls++
			}
			if _, err := c.work(); err != nil {
				t.Fatal(err)
			}
			c.showProgress()
		}
	}
	if rings < 100 || stalls < 100 {
		t.Errorf("%d rings, and held %d times while the slowest stood still: too few to say anything", rings, stalls)
	}
}
