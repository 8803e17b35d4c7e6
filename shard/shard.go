// SPDX-License-Identifier: Apache-2.0

// Package shard chooses which nodes move to other workers while a run goes on. They move in shards, groups of nodes of
// one worker, and a Strategy names the shards. LeastLoaded is the one that a run uses where its program gives no other.
//
// Guarantee: a Strategy changes how long a run takes, never its results or its trace. LeastLoaded is a function of what
// it is given: it keeps nothing, reads no clock and draws nothing.
//
//	moves := shard.LeastLoaded{}.Moves(&state)
//	if err := state.Check(moves); err != nil { ... }
package shard

import (
	"fmt"
	"slices"
)

// State is what a Strategy gets: the shards of a run between two legs. It may not change it, nor keep it.
type State struct {
	Workers int
	Version uint64    // of the allocation: how often shards have moved in this run
	Machine []int     // by worker: its machine; none: all are on one
	Owner   []int     // by shard: its worker
	Nodes   []int     // by shard: how many it has
	Fixed   []bool    // by shard: its nodes were put on their worker by name, and stay there
	Near    []bool    // by shard: it stays on its machine, since a link of it is too short for two; none: no shard does
	Work    []float64 // by shard: seconds that its handlers have taken since the last time, estimated from samples
	Since   []int     // by shard: how many times a Strategy was asked since it has moved; a large number: it never has
	Change  []float64 // by worker: how much more work than that it is to have while moves hold; none: not known
	Cost    float64   // wall seconds that moving has taken lately, each time: for how long nothing was simulated

	// How fast the run is, for a Strategy that looks what its moves have made of that.
	Time   float64 // wall seconds since it began
	Events uint64  // that it has handled by then
	Speed  float64 // events in a wall second, during the last fifth of a second before the leg was ended; 0: not known
}

// Move gives a shard to another worker.
type Move struct{ Shard, To int }

// Strategy chooses what moves. One goroutine calls it at a time.
type Strategy interface {
	// Moves lists what is to move, each shard at most once; none: all stay. A move that Check refuses ends the run.
	Moves(s *State) []Move
}

// Far reports whether two workers are on two machines.
func (s *State) Far(a, b int) bool { return len(s.Machine) > 0 && s.Machine[a] != s.Machine[b] }

// Stays reports whether a shard stays on its machine.
func (s *State) Stays(shard int) bool { return len(s.Near) > 0 && s.Near[shard] }

// Check reports moves that can't be made.
func (s *State) Check(moves []Move) error {
	seen := make([]bool, len(s.Owner))
	for _, m := range moves {
		switch {
		case m.Shard < 0 || m.Shard >= len(s.Owner):
			return fmt.Errorf("shard: found a move of shard %d, want 0 to %d", m.Shard, len(s.Owner)-1)
		case m.To < 0 || m.To >= s.Workers:
			return fmt.Errorf("shard: found a move of shard %d to worker %d, want 0 to %d", m.Shard, m.To, s.Workers-1)
		case s.Fixed[m.Shard]:
			return fmt.Errorf("shard: found a move of shard %d, whose nodes were put on worker %d by name", m.Shard,
				s.Owner[m.Shard])
		case s.Stays(m.Shard) && s.Far(s.Owner[m.Shard], m.To):
			return fmt.Errorf("shard: found a move of shard %d from worker %d to worker %d on another machine, to "+
				"which a link of it is too short", m.Shard, s.Owner[m.Shard], m.To)
		case seen[m.Shard]:
			return fmt.Errorf("shard: found two moves of shard %d, want one", m.Shard)
		}
		seen[m.Shard] = true
	}
	return nil
}

// Loads is the work of each worker, with moves made.
func (s *State) Loads(moves []Move) []float64 {
	loads := make([]float64, s.Workers)
	for shard, w := range s.Owner {
		loads[w] += s.Work[shard]
	}
	for _, m := range moves {
		loads[s.Owner[m.Shard]] -= s.Work[m.Shard]
		loads[m.To] += s.Work[m.Shard]
	}
	return loads
}

// Balance is the mean of loads as a part of the largest: 1 where all have the same, 1/n where one of n has all.
func Balance(loads []float64) float64 {
	sum, most := 0.0, 0.0
	for _, l := range loads {
		sum, most = sum+l, max(most, l)
	}
	if most <= 0 {
		return 1
	}
	return sum / float64(len(loads)) / most
}

// LeastLoaded takes shards from the worker with the most work to that with the least, as long as that makes the largest
// load smaller: to that of its machine where that has less than the mean, else to that of all. It knows nothing of
// links: shards are made so that none that is short can come between two workers, or machines. Loads are those that
// workers are expected to have (State.Change). Its fields have defaults where they are 0.
type LeastLoaded struct {
	Gap  float64 // nothing moves while the largest load is less than so much above the mean, as a part of it; 0: 0.1
	End  float64 // what moves goes on until the largest load is less than so much above the mean; 0: Gap
	Rest int     // a shard that has moved stays for so many times; 0: 3
	Most int     // moves at one time; 0: a quarter of the shards, and 1 at least
}

// Moves implements Strategy.
func (l LeastLoaded) Moves(s *State) []Move {
	if l.Gap == 0 {
		l.Gap = 0.1
	}
	if l.End == 0 {
		l.End = l.Gap
	}
	if l.Rest == 0 {
		l.Rest = 3
	}
	if l.Most == 0 {
		l.Most = max(1, len(s.Owner)/4)
	}
	p := plan{s: s, rest: l.Rest, loads: s.Loads(nil), moved: make([]bool, len(s.Owner))}
	p.owner = append(p.owner, s.Owner...)
	for w, change := range s.Change {
		p.loads[w] += change
	}
	before := slices.Max(p.loads)
	p.mean = before * Balance(p.loads)
	end := l.Gap
	if before > p.mean*(1+l.Gap) {
		end = l.End
	}
	var moves []Move
	for len(moves) < l.Most && slices.Max(p.loads) > p.mean*(1+end) {
		m, ok := p.next()
		if !ok {
			break
		}
		moves = append(moves, m)
	}
	// What is gained each time, as often as a shard stays, against what moving costs once.
	if gain := before - slices.Max(p.loads); gain < l.Gap/2*before || gain*float64(l.Rest) < s.Cost {
		return nil
	}
	return moves
}

// leastGain is what one move makes of the largest load at least, as a part of it.
const leastGain = 0.005

// plan is moves that LeastLoaded is about to make.
type plan struct {
	s     *State
	rest  int
	mean  float64
	loads []float64 // by worker, with the moves so far
	owner []int     // by shard, likewise
	moved []bool    // by shard
}

// next makes the next move; false: there is none that makes the largest load smaller.
func (p *plan) next() (Move, bool) {
	from := slices.Index(p.loads, slices.Max(p.loads))
	to := []int{p.least(from, true), p.least(from, false)}
	if to[0] >= 0 && p.loads[to[0]] >= p.mean { // what it gets would have to leave the machine
		slices.Reverse(to)
	}
	for _, w := range to {
		if m, ok := p.move(from, w); ok {
			return m, true
		}
	}
	return Move{}, false
}

// least is the worker with the least work, of the others on one machine with a worker or of all others; -1: none.
func (p *plan) least(from int, near bool) int {
	best := -1
	for w, load := range p.loads {
		if w != from && !(near && p.s.Far(from, w)) && (best < 0 || load < p.loads[best]) {
			best = w
		}
	}
	return best
}

// move makes the move from one worker to another that makes the larger of their loads smallest.
func (p *plan) move(from, to int) (Move, bool) {
	if to < 0 {
		return Move{}, false
	}
	s, best, far := p.s, -1, p.s.Far(from, to)
	left := func(shard int) float64 { return max(p.loads[from]-s.Work[shard], p.loads[to]+s.Work[shard]) }
	for shard, w := range p.owner {
		if w != from || p.moved[shard] || s.Fixed[shard] || far && s.Stays(shard) || s.Since[shard] < p.rest ||
			!(s.Work[shard] > 0) {
			continue
		}
		if best < 0 || left(shard) < left(best) {
			best = shard
		}
	}
	if best < 0 || left(best) >= p.loads[from]*(1-leastGain) {
		return Move{}, false
	}
	p.loads[from], p.loads[to] = p.loads[from]-s.Work[best], p.loads[to]+s.Work[best]
	p.owner[best], p.moved[best] = to, true
	return Move{best, to}, true
}

// Chooser is a scenario that brings a Strategy of its own.
type Chooser interface {
	ShardStrategy() Strategy
}
