// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"math"
	"slices"
	"testing"
)

// keeps asks for nothing, and keeps what it was told.
type keeps struct{ change []float64 }

func (k *keeps) Moves(s *State) []Move { k.change = s.Change; return nil }

// What a worker is expected to have more is what it has got more since the last time, as long as Work is old and for
// half of the time until the next.
func TestTrend(t *testing.T) {
	s := &State{Workers: 2, Owner: []int{0, 0, 1}, Fixed: make([]bool, 3)}
	trend, k := Trend{Age: 0.3}, &keeps{}
	ask := func(time float64, work []float64, want ...float64) {
		t.Helper()
		s.Time, s.Work = time, work
		if _, err := trend.Ask(k, s); err != nil {
			t.Fatal(err)
		}
		for w, v := range want {
			if len(k.change) != len(want) || math.Abs(k.change[w]-v) > 1e-9 {
				t.Fatalf("at %v s: found changes %v, want %v", time, k.change, want)
			}
		}
		if len(want) == 0 && k.change != nil {
			t.Fatalf("at %v s: found changes %v, want none", time, k.change)
		}
	}
	ask(1, []float64{2, 3, 5})
	ask(1.2, []float64{4, 7, 9}, 2, -2) // 0.05 of the work more in 0.2 s: 0.1 of it until 0.3 + 0.1 s later
	ask(1.4, []float64{8, 8, 4}, 4, -1) // a quarter at most
	ask(1.4, []float64{1, 1, 2})        // no time has passed
	ask(2.5, []float64{1, 1, 2})        // too long ago
	ask(2.6, []float64{0, 0, 0})        // no work
	ask(2.7, []float64{1, 1, 2})
	ask(2.8, []float64{1, 1, 2}, 0, 0)
	trend.Forget()
	ask(2.9, []float64{1, 1, 1})

	s.Owner[1] = 1 // and moves count from then on
	if _, err := trend.Ask(always{}, s); err != nil {
		t.Fatal(err)
	}
	s.Owner[0] = 1
	ask(3, []float64{1, 1, 1}, 0, 0)
}

// LeastLoaded makes those loads equal that workers are expected to have.
func TestChange(t *testing.T) {
	s := &State{Workers: 2, Fixed: make([]bool, 20), Nodes: make([]int, 20)}
	for i := range 20 {
		s.Owner, s.Work, s.Since = append(s.Owner, i/10), append(s.Work, 1), append(s.Since, math.MaxInt32)
	}
	if moves := (LeastLoaded{}).Moves(s); moves != nil {
		t.Fatalf("equal loads: found moves %v", moves)
	}
	s.Change = []float64{-2, 2}
	moves := LeastLoaded{}.Moves(s)
	if loads := s.Loads(moves); !slices.Equal(loads, []float64{11, 9}) && !slices.Equal(loads, []float64{12, 8}) {
		t.Errorf("found moves %v to loads %v, want one or two from worker 1", moves, loads)
	}
}
