// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"testing"
	"time"
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
