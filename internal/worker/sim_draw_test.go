// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/disco-sim/disco/shm"
)

// simDraw is everything that one seed decides before the first step.
type simDraw struct {
	seed         uint64
	workers      int
	machines     int
	window       int // records of a lane between machines that aren't in the ring there yet
	tuning       Tuning
	scenario     *simScenario
	placement    []int32
	replications int
	meanBurst    int           // mean steps between two choices of a task
	park         time.Duration // longest sleep; 0: bells alone end sleeps
	lost         int           // chance in 1000 that a wake-up gets lost
	late         time.Duration // longest delay of a wake-up
	held         int64         // bytes of others' events from which a worker takes in only what it must
	lead         time.Duration // leadTime
	leadCalls    uint64
	kill         int // steps before a worker is killed; 0: none
	victim       int
	stop         int  // steps before the run is stopped; 0: not
	hang         int  // steps before the launcher dies; 0: not
	legs         bool // replications are simulated in legs (sim_legs_test.go)
	moves        bool // nodes move between them (sim_moves_test.go)
}

func (d *simDraw) String() string {
	return fmt.Sprintf("seed %d: %d workers on %d machines, window %d, sync %s, %d nodes of %d simprocs, %d links, "+
		"horizon %v, resident %d, ring %d, pool %d, inline %d, batch %d, sizes %v, "+
		"held %d, lead %v, park %v, lost %d, late %v, kill %d of worker %d, stop %d, hang-up %d, legs %v, "+
		"handler fails in activation %d (panics: %v)",
		d.seed, d.workers, d.machines, d.window, d.tuning.Sync, len(d.scenario.graph.Nodes),
		len(d.scenario.graph.Simprocs), len(d.scenario.graph.Links), d.scenario.horizon,
		d.tuning.Resident, d.tuning.RingBytes, d.tuning.PoolBytes, d.tuning.InlineMax,
		d.tuning.BatchMax, d.scenario.sizes, d.held, d.lead, d.park, d.lost, d.late, d.kill, d.victim, d.stop, d.hang,
		d.legs, d.scenario.failAt, d.scenario.panics)
}

// newSimDraw draws a run. Every small size that is legal comes up often.
func newSimDraw(seed uint64, rnd *rand.Rand) *simDraw {
	d := &simDraw{seed: seed, workers: 2 + rnd.IntN(4), machines: 1, replications: 1,
		meanBurst: []int{1, 3, 10, 60}[rnd.IntN(4)]}
	d.tuning = Tuning{
		RingBytes: RingBytesMin << rnd.IntN(3),
		InlineMax: []int{1, 8, 32, 128}[rnd.IntN(4)],
		BatchMax:  1 + rnd.IntN(8),
		Ingress:   IngressDuty,
		Sync:      [...]string{SyncLane, SyncLink}[rnd.IntN(2)],
	}
	// The smallest pool has two blocks.
	d.tuning.PoolBytes = shm.PoolHeaderBytes + 2*(shm.BlockHeaderBytes+128) + []int{0, 512, 2048, 8192}[rnd.IntN(4)]
	largest := 0
	for largest < simSmallMax {
		d.tuning.PoolBytes += 256
		if plan, err := SegmentLayout(d.workers, d.tuning); err == nil {
			largest = plan.classes[len(plan.classes)-1].BlockBytes
		}
	}
	d.scenario = newSimScenario(rnd, d.workers, d.tuning.InlineMax, min(largest, 600))
	d.placement = make([]int32, len(d.scenario.graph.Nodes))
	for i, n := range rnd.Perm(len(d.placement)) {
		d.placement[n] = int32(i) // one node for each worker at least
		if i >= d.workers {
			d.placement[n] = int32(rnd.IntN(d.workers))
		}
	}
	if rnd.IntN(3) == 0 {
		d.replications = 2
	}
	switch rnd.IntN(4) {
	case 0: // bells that get lost and come late: timeouts do
		d.park, d.lost = time.Millisecond<<rnd.IntN(6), 1+rnd.IntN(500)
		d.late = time.Duration(rnd.IntN(1000)) * time.Microsecond
	case 1:
		d.park = 50 * time.Millisecond
		d.late = time.Duration(rnd.IntN(1000)) * time.Microsecond
	}
	switch rnd.IntN(12) {
	case 0, 1:
		d.kill, d.victim = 1+rnd.IntN(3000), rnd.IntN(d.workers)
	case 2:
		d.stop = 1 + rnd.IntN(3000)
	case 3:
		d.hang = 1 + rnd.IntN(3000)
	case 4:
		d.scenario.failAt, d.scenario.panics = 1+rnd.IntN(40), false
	}
	d.held = []int64{HeldMax, 1000, 200, 0}[rnd.IntN(4)]
	if d.park == 0 {
		d.held = HeldMax // what ends some waits is a time
	}
	// Not drawn, so that seeds from before there was a lead still say the same.
	d.lead = []time.Duration{10 * time.Microsecond, leadTime, 0, time.Nanosecond}[seed%4]
	d.window = []int{1, 2, 8, 100}[seed/8%4]
	d.leadCalls = []uint64{leadCalls * uint64(d.workers), 0}[seed/4%2]
	return d
}
