// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// random is a run of some shards, whose work is what draw says.
func random(rnd *rand.Rand, draw func(shard int) float64) *State {
	n := 1 + rnd.IntN(64)
	s := &State{Workers: 1 + rnd.IntN(6)}
	for i := range n {
		s.Owner = append(s.Owner, rnd.IntN(s.Workers))
		s.Nodes = append(s.Nodes, 1+rnd.IntN(9))
		s.Fixed = append(s.Fixed, rnd.IntN(8) == 0)
		s.Work = append(s.Work, draw(i))
		s.Since = append(s.Since, rnd.IntN(6))
	}
	if rnd.IntN(2) == 0 {
		s.Cost = rnd.Float64()
	}
	if rnd.IntN(2) == 0 {
		for w := range s.Workers {
			s.Machine = append(s.Machine, w/2)
		}
		for range n {
			s.Near = append(s.Near, rnd.IntN(4) == 0)
		}
	}
	return s
}

// Whatever it gets, LeastLoaded makes the largest load smaller or moves nothing, within its limits, gives the same
// answer twice, and changes nothing of what it gets.
func TestLeastLoaded(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	moved, all := 0, 0
	for range 20000 {
		shape := rnd.IntN(4)
		s := random(rnd, func(shard int) float64 {
			switch shape {
			case 0:
				return 0
			case 1:
				return rnd.ExpFloat64()
			case 2:
				return float64(shard % 2)
			}
			return 1e-3 + 1e3*float64(rnd.IntN(20)/19)
		})
		l := LeastLoaded{Gap: []float64{0, 0.05, 0.5}[rnd.IntN(3)], Rest: rnd.IntN(4), Most: rnd.IntN(4)}
		before := *s
		before.Owner, before.Work, before.Since = slices.Clone(s.Owner), slices.Clone(s.Work), slices.Clone(s.Since)
		moves := l.Moves(s)
		if err := s.Check(moves); err != nil {
			t.Fatalf("%+v of %+v: %v", l, s, err)
		}
		if !slices.Equal(moves, l.Moves(s)) || !slices.Equal(before.Owner, s.Owner) ||
			!slices.Equal(before.Work, s.Work) || !slices.Equal(before.Since, s.Since) {
			t.Fatalf("%+v: another answer, or another state", l)
		}
		if len(moves) == 0 {
			continue
		}
		most, rest, gap := l.Most, l.Rest, l.Gap
		if most == 0 {
			most = max(1, len(s.Owner)/4)
		}
		if rest == 0 {
			rest = 3
		}
		if gap == 0 {
			gap = 0.1
		}
		loads, after := s.Loads(nil), s.Loads(moves)
		gain := slices.Max(loads) - slices.Max(after)
		if len(moves) > most || !(gain > 0) || gain*float64(rest) < s.Cost || Balance(loads) > 1/(1+gap)+1e-9 {
			t.Fatalf("%+v: moves %v from loads %v to %v, at a cost of %v", l, moves, loads, after, s.Cost)
		}
		for _, m := range moves {
			if s.Since[m.Shard] < rest || s.Owner[m.Shard] == m.To {
				t.Fatalf("%+v: moves shard %d, which has moved %d times ago, from %d to %d", l, m.Shard,
					s.Since[m.Shard], s.Owner[m.Shard], m.To)
			}
		}
		moved, all = moved+1, all+len(moves)
	}
	if moved < 1000 || 2*all < 3*moved {
		t.Errorf("%d of 20000 had moves, %d in all: too tame to show anything", moved, all)
	}
}

// play makes moves again and again, with work that is what it is and some noise, and counts those of the last half.
func play(rnd *rand.Rand, s *State, strategy LeastLoaded, noise float64) (late int, balance float64) {
	mean := slices.Clone(s.Work)
	for round := range 40 {
		for i := range s.Work {
			s.Work[i] = mean[i] * (1 + noise*(2*rnd.Float64()-1))
		}
		moves := strategy.Moves(s)
		for i := range s.Since {
			s.Since[i]++
		}
		for _, m := range moves {
			s.Owner[m.Shard], s.Since[m.Shard] = m.To, 0
		}
		if round >= 20 {
			late += len(moves)
		}
	}
	copy(s.Work, mean)
	return late, Balance(s.Loads(nil))
}

// Where work stays what it is, it comes to rest, evenly spread, and noise moves nothing.
func TestLeastLoadedComesToRest(t *testing.T) {
	for _, end := range []float64{0, 0.07} { // 0.07 is what launch has of its own accord
		comesToRest(t, LeastLoaded{End: end})
	}
}

func comesToRest(t *testing.T, strategy LeastLoaded) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		workers := 2 + rnd.IntN(5)
		s := &State{Workers: workers}
		for i := range 64 * workers {
			s.Owner, s.Nodes, s.Fixed = append(s.Owner, i%workers), append(s.Nodes, 1), append(s.Fixed, false)
			s.Work, s.Since = append(s.Work, rnd.ExpFloat64()), append(s.Since, 1<<30)
		}
		hot := rnd.IntN(workers)
		for i := range s.Work {
			if s.Owner[i] == hot {
				s.Work[i] *= 4
			}
		}
		if late, balance := play(rnd, s, strategy, 0.2); late > 3 || balance < 0.88 {
			t.Fatalf("%d workers: %d moves behind the 20th round, balance %v, want 3 at most, 0.88 or more", workers,
				late, balance)
		}
	}
	even := &State{Workers: 3}
	for i := range 90 {
		even.Owner, even.Nodes, even.Fixed = append(even.Owner, i%3), append(even.Nodes, 1), append(even.Fixed, false)
		even.Work, even.Since = append(even.Work, 1), append(even.Since, 1<<30)
	}
	owner := slices.Clone(even.Owner)
	if _, _ = play(rnd, even, strategy, 0.3); !slices.Equal(owner, even.Owner) {
		t.Error("an even load has moved")
	}
}

// Nothing leaves a machine whose workers can share its work, and what has to leave one doesn't go by another worker.
func TestLeastLoadedOverMachines(t *testing.T) {
	state := func(work ...float64) *State { // of each worker; two on a machine
		s := &State{Workers: len(work)}
		for w, all := range work {
			s.Machine = append(s.Machine, w/2)
			for range 16 {
				s.Owner, s.Nodes, s.Fixed = append(s.Owner, w), append(s.Nodes, 1), append(s.Fixed, false)
				s.Work, s.Since = append(s.Work, all/16), append(s.Since, 1<<30)
				s.Near = append(s.Near, false)
			}
		}
		return s
	}
	count := func(s *State) (within, between int, balance float64) {
		moves := LeastLoaded{Most: 64}.Moves(s)
		if err := s.Check(moves); err != nil {
			t.Fatal(err)
		}
		for _, m := range moves {
			if s.Far(s.Owner[m.Shard], m.To) {
				between++
			} else {
				within++
			}
		}
		return within, between, Balance(s.Loads(moves))
	}
	if in, out, balance := count(state(1.8, 0.2, 1, 1)); in < 5 || out > 0 || balance < 0.9 {
		t.Errorf("one worker of a machine has all of its work: %d moves within, %d between, balance %v", in, out,
			balance)
	}
	if in, out, balance := count(state(1.6, 1.6, 0.4, 0.4)); in > 0 || out < 8 || balance < 0.9 {
		t.Errorf("one machine has the work of two: %d moves within, %d between, balance %v", in, out, balance)
	}
	if in, out, balance := count(state(3.2, 0.4, 0.2, 0.2)); in < 2 || out < 6 || balance < 0.8 {
		t.Errorf("one worker has nearly all: %d moves within, %d between, balance %v", in, out, balance)
	}
	s := state(3.2, 1.2, 0.1, 0.1)
	for i := range s.Near {
		s.Near[i] = true
	}
	if in, out, _ := count(s); in < 3 || out > 0 {
		t.Errorf("no shard may leave its machine: %d moves within, %d between", in, out)
	}
}

// Moves that can't be made are named.
func TestCheck(t *testing.T) {
	s := &State{Workers: 2, Owner: []int{0, 1}, Fixed: []bool{false, true}}
	for want, moves := range map[string][]Move{
		"found a move of shard 2, want 0 to 1":                              {{2, 0}},
		"found a move of shard -1, want 0 to 1":                             {{-1, 0}},
		"found a move of shard 0 to worker 2, want 0 to 1":                  {{0, 2}},
		"found a move of shard 1, whose nodes were put on worker 1 by name": {{1, 0}},
		"found two moves of shard 0, want one":                              {{0, 1}, {0, 0}},
	} {
		if err := s.Check(moves); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", moves, err, want)
		}
	}
	if err := s.Check([]Move{{0, 1}}); err != nil {
		t.Error(err)
	}
	s.Machine, s.Near = []int{0, 1}, []bool{true, false}
	want := "found a move of shard 0 from worker 0 to worker 1 on another machine, to which a link of it is too short"
	if err := s.Check([]Move{{0, 1}}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
