// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/internal/interleave"
	"github.com/disco-sim/disco/internal/race"
)

var (
	simSchedules = flag.Int("schedules", 0, "simulated runs of TestSimulation; 0: 8000, fewer with -short or -race")
	simFailures  = flag.Int("failures", 1, "simulated runs that fail before TestSimulation ends")
	simSeed      = flag.Uint64("seed", 1, "seed of the first simulated run of TestSimulation; the others count on")
)

// outcome is what a simulated run came to.
type outcome struct {
	hash   uint64 // of all choices made and all results
	steps  int
	full   uint64              // waits for room
	quiets int                 // quiet frames
	hashes []map[uint32]uint64 // by replication
	legs   simLegs             // what was seen of legs
}

// simulate makes and runs what one seed says. An error holds all that is known.
func simulate(seed uint64) (outcome, error) { return simulateOver(seed, 1, false) }

// simulateOver is simulate over so many machines, as far as there are workers for them, in legs or not.
func simulateOver(seed uint64, machines int, legs bool) (outcome, error) {
	rnd := rand.New(rand.NewPCG(seed, 0x5eed))
	d := newSimDraw(seed, rnd)
	d.machines, d.legs = min(machines, d.workers), legs
	return d.simulate(rnd)
}

// simulateMoves is simulate in legs between which nodes move, over so many machines.
func simulateMoves(seed uint64, machines int) (outcome, error) {
	rnd := rand.New(rand.NewPCG(seed, 0x5eed))
	d := newSimDraw(seed, rnd)
	d.machines, d.legs, d.moves = min(machines, d.workers), true, true
	d.tuning.Resident = []int64{0, 0, 1, 600}[seed/6%4]
	return d.simulate(rnd)
}

// simulate makes and runs what was drawn.
func (d *simDraw) simulate(rnd *rand.Rand) (outcome, error) {
	fail := func(s *simRun, err error) (outcome, error) {
		at := ""
		if s != nil {
			at = s.at
		}
		return outcome{}, fmt.Errorf("%v\n%w\n%s", d, err, at)
	}
	s, err := newSimRun(d, rnd)
	if err != nil {
		return fail(nil, err)
	}
	hashes, err := s.play()
	if err != nil {
		return fail(s, err)
	}
	for r := range hashes {
		want, err := reference(d, s, r)
		if err != nil {
			return fail(s, fmt.Errorf("alone: %w", err))
		}
		if want != nil && !maps.Equal(hashes[r], want) {
			return fail(s, fmt.Errorf("replication %d: %d workers handled other events than one", r, d.workers))
		}
	}
	out := outcome{hash: s.hash, steps: s.steps, quiets: s.quiets, hashes: hashes, legs: s.legs}
	for _, w := range s.workers {
		for _, e := range w.cycle.lanes.router.Senders() {
			out.full += e.(*egress.Egress).Stats().FullWaits
		}
	}
	return out, nil
}

// reference runs replication r over one worker, up to where s has run it.
func reference(d *simDraw, s *simRun, r int) (map[uint32]uint64, error) {
	alone, scenario := *d, *d.scenario
	if s.limited && s.endedIn == r {
		scenario.horizon = min(scenario.horizon, s.end)
	}
	if scenario.horizon == 0 {
		return nil, nil // it was stopped before anything
	}
	alone.machines, alone.legs, alone.moves = 1, false, false
	alone.scenario, alone.workers, alone.placement = &scenario, 1, make([]int32, len(d.placement))
	alone.tuning.Resident = 0
	alone.kill, alone.stop, alone.hang, alone.replications = 0, 0, 0, 1
	one, err := newSimRun(&alone, rand.New(rand.NewPCG(d.seed, 1)))
	if err != nil {
		return nil, err
	}
	one.first = r
	hashes, err := one.play()
	if err != nil || len(hashes) == 0 {
		return nil, fmt.Errorf("%w\n%s", err, one.at)
	}
	return hashes[0], nil
}

func replay(seed uint64) string { return replayOf("TestSimulation$", seed) }

func replayOf(test string, seed uint64) string {
	tags := ""
	if interleave.Enabled {
		tags = "-tags invariants "
	}
	return fmt.Sprintf("replay: go test %s-run %s ./internal/worker -seed %d -schedules 1", tags, test, seed)
}

// Seeds of the checked build that have found something once.
func TestSimulationFound(t *testing.T) {
	for _, seed := range []uint64{
		1120342, // a stop while two workers that held enough waited for room from each other
	} {
		if _, err := simulate(seed); err != nil {
			t.Errorf("%v\n%s", err, replay(seed))
		}
	}
}

// Seeds of runs over machines, in the plain build, that have found something once.
func TestSimulationFarFound(t *testing.T) {
	for _, seed := range []uint64{
		// Promises of links with little lookahead kept a lane short of room, for which a class waited.
		103779, 236579, 241282,
	} {
		if _, err := simulateOver(seed, farMachines(seed), false); err != nil {
			t.Errorf("%v\n%s", err, replayOf("TestSimulationFar$", seed))
		}
	}
}

// farMachines is over how many machines TestSimulationFar runs a seed.
func farMachines(seed uint64) int { return 2 + int(seed%2) }

// Whole runs in one process under a scheduler that picks who goes on at every access to
// shared memory (docs/simulation-testing.md).
func TestSimulation(t *testing.T) {
	n := *simSchedules
	switch {
	case n > 0:
	case race.Enabled:
		n = 50
	case testing.Short() && interleave.Enabled:
		n = 2000 // as of the plain build: asserts find more, and all else is looked at in both
	case testing.Short():
		n = 500
	default:
		n = 4000 // make simulate runs more, of all four tests and in both builds
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // each run makes a megabyte of garbage
	steps, stopped, failures, full := 0, 0, 0, 0
	for i := range n {
		seed := *simSeed + uint64(i)
		out, err := simulate(seed)
		if err != nil {
			t.Errorf("run %d of %d: %v\n%s", i+1, n, err, replay(seed))
			if failures++; failures >= *simFailures {
				t.Fatalf("%d of %d runs failed", failures, i+1)
			}
			continue
		}
		steps += out.steps
		if out.full > 0 {
			full++
		}
		if len(out.hashes) == 0 {
			stopped++
		}
	}
	t.Logf("%d runs, %d steps each, %d ended before their end, in %d somebody waited for room", n, steps/n, stopped,
		full)
	if n >= 500 && (full < n/100 || stopped < n/20) {
		t.Errorf("of %d runs %d waited for room and %d ended early: want a hundredth and a twentieth", n, full, stopped)
	}
}

// Whole runs over two and three machines, with bridges between them that take their time.
func TestSimulationFar(t *testing.T) {
	n := *simSchedules
	switch {
	case n > 0:
	case race.Enabled:
		n = 15
	case testing.Short():
		n = 150
	default:
		n = 1000
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	failures, full, quiets := 0, 0, 0
	for i := range n {
		seed := *simSeed + uint64(i)
		out, err := simulateOver(seed, farMachines(seed), false)
		if quiets += out.quiets; out.full > 0 {
			full++
		}
		if err != nil {
			t.Errorf("run %d of %d: %v\n%s", i+1, n, err, replayOf("TestSimulationFar$", seed))
			if failures++; failures >= *simFailures {
				t.Fatalf("%d of %d runs failed", failures, i+1)
			}
		}
	}
	t.Logf("%d runs, %d quiet frames each, in %d somebody waited for room", n, quiets/n, full)
	if n >= 100 && (full < n/100 || quiets < 4*n) {
		t.Errorf("of %d runs %d waited for room, and there were %d quiet frames: want a hundredth and %d",
			n, full, quiets, 4*n)
	}
}

// A seed is the whole run: simulated twice, it makes the same choices and comes to the same
// results. Other seeds don't.
func TestSimulationRepeats(t *testing.T) {
	seen := map[uint64]uint64{}
	most := uint64(40)
	if testing.Short() {
		most = 10
	}
	for seed := uint64(1); seed <= most; seed++ {
		one, err := simulate(seed)
		if err != nil {
			t.Fatal(err)
		}
		two, err := simulate(seed)
		if err != nil {
			t.Fatal(err)
		}
		if one.hash != two.hash || one.steps != two.steps || !slices.EqualFunc(one.hashes, two.hashes,
			maps.Equal[map[uint32]uint64, map[uint32]uint64]) {
			t.Errorf("seed %d: %d steps with hash %#x, and then %d with %#x", seed, one.steps, one.hash, two.steps,
				two.hash)
		}
		if other, ok := seen[one.hash]; ok {
			t.Errorf("seeds %d and %d make the same choices", other, seed)
		}
		seen[one.hash] = seed
	}
}
