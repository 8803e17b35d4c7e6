// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// nextEnd chooses the end of a leg behind at, where all Engines are: anywhere, the epoch of something pending, the
// least float64 after that, which handles the epoch alone, or the least after at.
func (c *cluster) nextEnd(rnd *rand.Rand, at float64) float64 {
	var epochs []float64
	for _, e := range c.engines {
		e.eachPending(func(en *entry) { epochs = append(epochs, en.epoch()) })
	}
	slices.Sort(epochs)
	end := math.Nextafter(at, math.Inf(1))
	switch kind := rnd.IntN(4); {
	case kind == 0:
		end = at + 10*rnd.Float64()
	case kind < 3 && len(epochs) > 0:
		end = epochs[rnd.IntN(min(len(epochs), 8))]
		if kind == 2 {
			end = math.Nextafter(end, math.Inf(1))
		}
	}
	return max(end, math.Nextafter(at, math.Inf(1)))
}

// checkEnd holds the claim of docs/checkpoints.md about the end of a leg: everything before it was handled and nothing
// at it or later, and nothing is under way.
func (c *cluster) checkEnd(end float64) error {
	sent, received := uint64(0), uint64(0)
	for w, e := range c.engines {
		for i := range e.procs {
			if p := &e.procs[i]; p.begun() && p.now >= end || !p.begun() {
				return fmt.Errorf("worker %d: %s was called %v, last at %v, in legs until %v", w, p.Name(), p.begun(),
					p.now, end)
			}
		}
		var early error
		e.eachPending(func(en *entry) {
			if en.epoch() < end {
				early = fmt.Errorf("worker %d: an entry at %v is left of a leg until %v", w, en.epoch(), end)
			}
		})
		if early != nil {
			return early
		}
		if r := e.Reached(); r > end {
			return fmt.Errorf("worker %d has reached %v in a leg until %v", w, r, end)
		}
		if at, any := e.Ahead(); any {
			return fmt.Errorf("worker %d: what is at %v waits for the end of the leg, not for others", w, at)
		}
		sent, received = sent+e.stats.Sent, received+e.stats.Received
	}
	if sent != received {
		return fmt.Errorf("%d events were sent, %d received in legs until %v", sent, received, end)
	}
	return nil
}

// toEnd runs a leg and checks its end.
func (c *cluster) toEnd(rnd *rand.Rand, end float64) error {
	for _, e := range c.engines {
		e.SetUntil(end)
	}
	if err := c.leg(rnd); err != nil {
		return fmt.Errorf("leg until %v: %w", end, err)
	}
	return c.checkEnd(end)
}

// legs runs a random model in legs over several Engines, and on one Engine with and without them. At each end of a leg
// every simproc has done on all what it has done on one.
func legs(seed uint64) (ends, left int, err error) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	m := randomModel(rnd)
	const horizon = 40
	alone := make([]int32, len(m.g.Nodes))
	want, err := newCluster(nil, m, alone, 1, seed, horizon, false).run(rnd)
	if err != nil {
		return 0, 0, err
	}
	one := newCluster(nil, m, alone, 1, seed, horizon, false)
	workers := 2 + rnd.IntN(3)
	placement := make([]int32, len(m.g.Nodes))
	for n := range placement {
		placement[n] = int32(rnd.IntN(workers))
	}
	several := newCluster(nil, m, placement, workers, seed, horizon, rnd.IntN(2) == 0)
	for end := one.nextEnd(rnd, 0); end < horizon && ends < 100; end = one.nextEnd(rnd, end) {
		for _, c := range []*cluster{one, several} {
			if err := c.toEnd(rnd, end); err != nil {
				return 0, 0, err
			}
		}
		if a, b := one.hashes(), several.hashes(); !slices.Equal(a, b) {
			return 0, 0, fmt.Errorf("placement %v: hashes %x after a leg until %v, with one worker %x", placement, b,
				end, a)
		}
		ends++
		left += one.engines[0].Pending()
	}
	for _, c := range []*cluster{one, several} {
		for _, e := range c.engines {
			e.SetUntil(math.Inf(1))
		}
		if got, err := c.run(rnd); err != nil || !slices.Equal(got, want) {
			return 0, 0, fmt.Errorf("%d workers: hashes %x (%v) in %d legs, without legs %x", len(c.engines), got, err,
				ends, want)
		}
	}
	return ends, left, nil
}

// A run in legs does what one without legs does, and all workers are at the same point at each end.
func TestLegs(t *testing.T) {
	models := uint64(100)
	if testing.Short() {
		models = 30
	}
	ends, left := 0, 0
	for seed := range models {
		n, pending, err := legs(seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		ends, left = ends+n, left+pending
	}
	if ends < int(models) || left < ends {
		t.Errorf("%d ends of legs with %d entries pending in all: the models are too tame to show anything", ends, left)
	}
	t.Logf("%d ends of legs, %d entries pending there", ends, left)
}
