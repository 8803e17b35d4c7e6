// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/node"
)

// simLegs is what stands in for a launcher that has replications simulated in legs, and one Engine that is run beside
// the workers, to the end of the same legs.
type simLegs struct {
	rnd     *rand.Rand
	alone   *node.Engine // nil: its handler is to fail
	epochs  []float64    // at which anything is handled in the replication, rising
	began   float64      // the leg
	until   float64      // its end, 0: the horizon
	asked   bool         // Stop was sent to end the leg
	between bool         // all have answered Saved, and not all are known to go on

	ends, chosen, voids, pending int // legs that have ended, of them by Limit; Limits without one; bytes at ends
	moves, moved                 int // ends at which nodes moved; bytes that did
}

// epochs keeps at which epochs something is handled. It implements node.Tracer.
type epochs []float64

func (e *epochs) Event(_ int, _ uint32, _ node.SimprocID, ev *node.Event, _ uint64) {
	*e = append(*e, ev.Epoch)
}
func (e *epochs) Wakeup(_ int, _ uint32, _ node.SimprocID, epoch float64) { *e = append(*e, epoch) }

// newAlone makes an Engine that runs all nodes.
func (s *simRun) newAlone(r int, to node.Tracer) (*node.Engine, error) {
	structure, err := node.Compile(s.scenario.graph, nil)
	if err != nil {
		return nil, err
	}
	placed, err := structure.Place(make([]int32, len(s.scenario.graph.Nodes)), 1)
	if err != nil {
		return nil, err
	}
	plan, err := placed.Plan(0, nil)
	if err != nil {
		return nil, err
	}
	return node.NewEngine(plan, node.Config{Model: s.scenario, Seed: s.seed, Replication: r,
		Horizon: s.scenario.horizon, Trace: to})
}

// runAlone runs it to the end of a leg.
func runAlone(e *node.Engine, until float64) error {
	for e.SetUntil(until); e.Next() != node.Never; {
		if _, err := e.Run(1000, math.Inf(1)); err != nil {
			return err
		}
	}
	return nil
}

// beginLegs begins a replication, and gives the end of its first leg.
func (s *simRun) beginLegs(r int) (float64, error) {
	l := &s.legs
	if l.rnd == nil {
		l.rnd = rand.New(rand.NewPCG(s.seed, 0x1e65)) // its own, so that a seed says the same with and without legs
	}
	l.alone, l.epochs, l.began, l.asked, l.between = nil, nil, 0, false, false
	if s.scenario.failAt == 0 {
		var all epochs
		whole, err := s.newAlone(r, &all)
		if err == nil {
			err = runAlone(whole, math.Inf(1))
		}
		if err != nil {
			return 0, fmt.Errorf("alone: %w", err)
		}
		slices.Sort(all)
		l.epochs = slices.Compact(all)
		if l.alone, err = s.newAlone(r, nil); err != nil {
			return 0, err
		}
	}
	l.next(s)
	return l.until, nil
}

// next chooses the end of the leg that begins where the last one has ended: at, right behind or between epochs at which
// something is handled, the least float64 behind its begin, or anywhere; and how it is ended earlier.
func (l *simLegs) next(s *simRun) {
	at := l.began
	least := math.Nextafter(at, math.Inf(1))
	first, found := slices.BinarySearch(l.epochs, least)
	switch kind := l.rnd.IntN(16); {
	case s.ending || kind == 0:
		l.until = 0
		return
	case kind < 10 && first < len(l.epochs):
		l.until = l.epochs[first+l.rnd.IntN(min(len(l.epochs)-first, 12))]
		if kind < 6 {
			l.until = math.Nextafter(l.until, math.Inf(1)) // all of an epoch, and nothing else
		}
	case kind < 12 || found && kind < 13:
		l.until = least
	default:
		l.until = at + l.rnd.ExpFloat64()
	}
	if l.until = max(l.until, least); l.until >= s.scenario.horizon {
		l.until = 0
	}
}

// simulateLegs runs a replication, leg by leg.
func (s *simRun) simulateLegs() error {
	for {
		l := &s.legs
		l.between = false
		s.chooseNow()
		if err := s.ask(&Message{Type: TypeGo}); err != nil || s.over() || s.workers[0].answer.Type == TypeDone {
			return err
		}
		l.between, l.asked = true, false
		if err := s.legEnded(); err != nil {
			return err
		}
		s.stopped, s.limited = false, false // all were about to end the leg, if any
		l.next(s)
		moved, err := s.moveNodes()
		if err == nil && moved {
			err = s.prepareBridges()
		}
		if err != nil || s.over() {
			return err
		}
		if err := s.ask(&Message{Type: TypeLeg, Leg: &Leg{Until: l.until, Moved: moved}}); err != nil || s.over() {
			return err
		}
		s.goBridges()
	}
}

// chooseNow has some legs ended while they run, and some of these attempts given up.
func (s *simRun) chooseNow() {
	l := &s.legs
	if l.rnd == nil || l.rnd.IntN(2) == 0 {
		return
	}
	leg := l.ends
	under := func() bool { return leg == l.ends && s.going && !l.between && !s.stopped && !s.over() }
	s.after(time.Duration(1+l.rnd.IntN(600))*200*time.Nanosecond, func() {
		if under() {
			l.asked = true
			s.stopAll()
		}
	})
	if l.rnd.IntN(4) == 0 {
		s.after(time.Duration(1+l.rnd.IntN(900))*200*time.Nanosecond, func() {
			if under() && l.asked {
				s.endLeg(math.MaxFloat64)
			}
		})
	}
}

// endLeg sends the end of the leg; MaxFloat64: all go on.
func (s *simRun) endLeg(end float64) {
	s.legs.asked = false
	if end < math.MaxFloat64 {
		s.legs.chosen++
	} else {
		s.legs.voids++
	}
	s.limit(&Limit{Epoch: end, Leg: true})
}

// legEnded checks the end of a leg: all workers are at one epoch, everything sent was received, and every node is as on
// one Engine that was run up to there.
func (s *simRun) legEnded() error {
	l := &s.legs
	var sent, received uint64
	end := s.workers[0].answer.Saved
	for i, w := range s.workers {
		if w.answer.Type != TypeSaved {
			return fmt.Errorf("worker 0 has ended a leg at %v, worker %d the replication", end.Epoch, i)
		}
		if w.answer.Saved.Epoch != end.Epoch || end.Epoch <= l.began || l.until > 0 && end.Epoch > l.until {
			return fmt.Errorf("worker 0 has ended a leg from %v until %v at %v, worker %d at %v", l.began, l.until,
				end.Epoch, i, w.answer.Saved.Epoch)
		}
		st := w.cycle.engine.Stats()
		sent, received = sent+st.Sent, received+st.Received
	}
	if sent != received {
		return fmt.Errorf("%d events were sent and %d received in legs until %v", sent, received, end.Epoch)
	}
	l.began = end.Epoch
	l.ends++
	if l.alone == nil {
		return nil
	}
	if err := runAlone(l.alone, end.Epoch); err != nil {
		return fmt.Errorf("alone, until %v: %w", end.Epoch, err)
	}
	want, err := savedNodes(l.alone, s.nodesOf(-1))
	if err != nil {
		return err
	}
	for i, w := range s.workers {
		own := s.nodesOf(i)
		got, err := savedNodes(w.cycle.engine, own)
		if err != nil {
			return fmt.Errorf("worker %d: %w", i, err)
		}
		for _, n := range own {
			if !bytes.Equal(got[n], want[n]) {
				return fmt.Errorf("node %d of worker %d at %v:\n%x\nwant, as on one Engine,\n%x", n, i, end.Epoch,
					got[n], want[n])
			}
			l.pending += len(got[n])
		}
	}
	return nil
}

// nodesOf lists the nodes of a worker, -1: of all.
func (s *simRun) nodesOf(worker int) (nodes []int) {
	for n, w := range s.placement {
		if worker < 0 || int(w) == worker {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// savedNodes is what an Engine saves of nodes: their states, and what is pending.
func savedNodes(e *node.Engine, nodes []int) (map[int][]byte, error) {
	all := map[int][]byte{}
	for _, n := range nodes {
		var err error
		if all[n], err = e.AppendNode(nil, n); err != nil {
			return nil, err
		}
	}
	err := e.EachPending(func(n int, pending []byte) error {
		all[n] = append(append(all[n], "pending"...), pending...)
		return nil
	})
	return all, err
}

// Whole runs in legs, over one machine and several.
func TestSimulationLegs(t *testing.T) {
	n := *simSchedules
	switch {
	case n > 0:
	case race.Enabled:
		n = 40
	case testing.Short():
		n = 150
	default:
		n = 1500
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	failures := 0
	var all simLegs
	for i := range n {
		seed := *simSeed + uint64(i)
		out, err := simulateOver(seed, legMachines(seed), true)
		if err != nil {
			t.Errorf("run %d of %d: %v\n%s", i+1, n, err, replayOf("TestSimulationLegs$", seed))
			if failures++; failures >= *simFailures {
				t.Fatalf("%d of %d runs failed", failures, i+1)
			}
			continue
		}
		all.ends, all.chosen = all.ends+out.legs.ends, all.chosen+out.legs.chosen
		all.voids, all.pending = all.voids+out.legs.voids, all.pending+out.legs.pending
	}
	t.Logf("%d runs, %d legs, of which %d were ended while they ran, %d that went on, %d bytes compared", n, all.ends,
		all.chosen, all.voids, all.pending)
	if n >= 40 && (all.ends < 2*n || all.chosen < n/4 || all.voids < n/20) {
		t.Errorf("%d runs with %d legs, of which %d were ended while they ran, and %d that went on: the runs are too "+
			"tame to show anything", n, all.ends, all.chosen, all.voids)
	}
}

// Seeds that have found something once.
func TestSimulationLegsFound(t *testing.T) {
	for _, seed := range []uint64{
		3162, // a Stop that came with the Limit of the one before was found by nobody: the worker slept
	} {
		if _, err := simulateOver(seed, legMachines(seed), true); err != nil {
			t.Errorf("%v\n%s", err, replayOf("TestSimulationLegs$", seed))
		}
	}
}

// legMachines is over how many machines TestSimulationLegs and TestSimulationMoves run a seed.
func legMachines(seed uint64) int { return 1 + int(seed/2%3) }
