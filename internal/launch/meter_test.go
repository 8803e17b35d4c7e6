// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"math"
	"testing"
	"time"

	"github.com/disco-sim/disco/shard"
)

// shows is boards that a test writes.
type shows struct {
	events uint64
	work   []float64
}

func (s *shows) progress() (float64, uint64) { return 1, s.events }
func (s *shows) worked() []float64           { return s.work }

// sees notes what it is asked with.
type sees struct {
	shard.State
	due  bool
	time float64
}

func (s *sees) Moves(state *shard.State) []shard.Move { s.State = *state; return nil }
func (s *sees) Due(time float64, _ uint64) bool       { s.time = time; return s.due }

// A meter's time is that in which the run goes on: not that between two legs, nor that between two replications.
func TestMeter(t *testing.T) {
	b, m, s := &shows{work: make([]float64, 2)}, &meter{}, &sees{}
	at := time.Now()
	pass := func(d time.Duration, perSecond float64) {
		at, b.events = at.Add(d), b.events+uint64(perSecond*d.Seconds())
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: found %v, want %v", what, got, want)
		}
	}
	for range 11 {
		m.look(b, s, at)
		pass(100*time.Millisecond, 1000)
	}
	near("time", s.time, 1)
	m.asks([]float64{3, 5}, at)
	pass(40*time.Millisecond, 1000)
	b.work = []float64{3.01, 5.03}
	near("what is lost", m.stop(b, at), 0.01)
	near("what is lost when no leg was ended", m.stop(b, at), 0)
	pass(3*time.Second, 0)
	m.look(b, s, at)
	m.ask(s, &shard.Trend{}, &shard.State{})
	near("time when all stands still", s.Time, 1.14)
	near("events", float64(s.Events), 1140)
	near("speed", s.Speed, 1000)
	m.goOn(at)
	for range 6 {
		pass(100*time.Millisecond, 500)
		m.look(b, s, at)
	}
	near("time behind a leg", s.time, 1.74)
	near("speed now", m.speed, 500)
	at, b.events = at.Add(time.Hour), 7 // another replication
	m.look(b, s, at)
	pass(100*time.Millisecond, 500)
	if m.look(b, s, at) {
		t.Error("a strategy that isn't due is")
	}
	near("time in another replication", s.time, 1.84)
	near("events", float64(m.events), 1140+300+50)
	if s.due = true; !m.look(b, s, at) || m.look(b, shard.LeastLoaded{}, at) {
		t.Error("a strategy that is due isn't, or one that never is")
	}
}

// Looks and moves cost no more than autoShare of the run, beside a first autoFree.
func TestBudgetOfMoves(t *testing.T) {
	for _, cost := range []float64{0.0005, 0.004, 0.05, 1} {
		b := &rebalancing{}
		b.state.Cost = cost
		for now := time.Duration(0); now < 10*time.Minute; {
			b.done.Pause += cost
			if most := autoShare*now.Seconds() + autoFree + cost; b.done.Pause > most+1e-6 {
				t.Fatalf("a look costs %v: %v s by %v, want at most %v", cost, b.done.Pause, now, most)
			}
			b.pauseUntil(true, now)
			next := time.Duration(b.next.Load())
			if next < now+autoLeast {
				t.Fatalf("a look costs %v: the next one is %v behind the last", cost, next-now)
			}
			now = next
		}
		if most := autoShare*600 + autoFree; cost > autoShare*autoLeast.Seconds() && b.done.Pause < most/2 {
			t.Errorf("a look costs %v: %v s in all, want more of %v", cost, b.done.Pause, most)
		}
	}
}
