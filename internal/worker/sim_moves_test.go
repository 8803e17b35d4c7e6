// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/race"
)

// shards draws the shards of the nodes: some have several of one worker's nodes.
func (d *simDraw) shards() []uint32 {
	rnd := rand.New(rand.NewPCG(d.seed, 0x5a2d))
	shards := make([]uint32, len(d.placement))
	next := uint32(0)
	for n, w := range d.placement {
		if before := slices.Index(d.placement[:n], w); before >= 0 && rnd.IntN(3) == 0 {
			shards[n] = shards[before]
			continue
		}
		shards[n] = next
		next++
	}
	return shards
}

// movesNodes has the worker send what leaves it to the launcher.
func (w *simWorker) movesNodes() (err error) {
	m, err := newMoves(w.plan, w.setup)
	if m != nil {
		m.send = func(p *Moved) error {
			p = &Moved{To: p.To, Data: slices.Clone(p.Data)}
			w.reply(func() { w.moved = append(w.moved, p) })
			return nil
		}
	}
	w.replications.moves = m
	return err
}

// moveNodes gives shards other workers at some ends of legs, and tells whether it did: any number of them, also all of
// a worker's, and back.
func (s *simRun) moveNodes() (bool, error) {
	l := &s.legs
	if !s.simDraw.moves || l.rnd.IntN(2) == 0 {
		return false, nil
	}
	m := s.workers[0].replications.moves
	owners := slices.Clone(m.owners)
	for shard := range owners {
		if l.rnd.IntN(3) == 0 {
			owners[shard] = int32(l.rnd.IntN(len(s.workers)))
		}
	}
	if l.rnd.IntN(8) == 0 {
		to := int32(l.rnd.IntN(len(s.workers)))
		for shard := range owners {
			owners[shard] = to
		}
	}
	if err := s.ask(&Message{Type: TypeMove, Move: &Move{Owners: owners}}); err != nil || s.over() {
		return false, err
	}
	parts := make([][]byte, len(s.workers))
	for _, w := range s.workers {
		for _, p := range w.moved {
			parts[p.To] = append(parts[p.To], p.Data...)
			l.moved += len(p.Data)
		}
	}
	for range 1 + l.rnd.IntN(2) { // in one part or two
		for i, w := range s.workers {
			n := l.rnd.IntN(len(parts[i]) + 1)
			w.load, parts[i] = parts[i][:n], parts[i][n:]
		}
		if err := s.ask(&Message{Type: TypeLoad}); err != nil || s.over() {
			return false, err
		}
	}
	for i, w := range s.workers {
		w.load = parts[i]
	}
	if err := s.ask(&Message{Type: TypeLoad}); err != nil || s.over() {
		return false, err
	}
	l.moves++
	s.placement = slices.Clone(s.placement)
	for n, shard := range m.of {
		s.placement[n] = owners[shard]
	}
	return true, nil
}

// Whole runs in legs between which nodes move, over one machine and several.
func TestSimulationMoves(t *testing.T) {
	n := *simSchedules
	switch {
	case n > 0:
	case race.Enabled:
		n = 40
	case testing.Short():
		n = 150 // as of TestSimulationLegs
	default:
		n = 1500
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	failures, ends, moves, bytes := 0, 0, 0, 0
	for i := range n {
		seed := *simSeed + uint64(i)
		out, err := simulateMoves(seed, legMachines(seed))
		if err != nil {
			t.Errorf("run %d of %d: %v\n%s", i+1, n, err, replayOf("TestSimulationMoves$", seed))
			if failures++; failures >= *simFailures {
				t.Fatalf("%d of %d runs failed", failures, i+1)
			}
			continue
		}
		ends, moves, bytes = ends+out.legs.ends, moves+out.legs.moves, bytes+out.legs.moved
	}
	t.Logf("%d runs, %d legs, nodes moved behind %d of them, %d bytes", n, ends, moves, bytes)
	if n >= 40 && (moves < n || bytes < 100*n) {
		t.Errorf("%d runs with %d legs, behind %d of which nodes moved, %d bytes: too tame to show anything", n, ends,
			moves, bytes)
	}
}
