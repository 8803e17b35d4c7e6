// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"math/rand/v2"
	"time"
)

// samples estimate what shards cost. Of some hundred calls of handlers one is run by itself, between two looks at the
// clock; which one is drawn, so that nothing that repeats itself is met again and again. Events, links and simprocs
// know nothing of it.
//
// Owned by the cycle.
type samples struct {
	of      []uint32 // shard of each node
	rnd     *rand.Rand
	left    int       // calls until the next sample
	mean    float64   // seconds of a call, about
	seconds []float64 // by shard: of the sampled calls
	worked  float64   // of the worker, at the last look at the ledger
	total   float64   // seconds that the worker has worked for seconds
	half    float64   // after so much wall time what was sampled counts half; 0: all of a leg counts alike
	faded   time.Time // when it was last made to count less
}

const (
	// samplePeriod is after how much time, about, a call is sampled: two looks at the clock take some 0.1 µs.
	samplePeriod = 50 * time.Microsecond
	sampleMost   = 512 // calls from one sample to the next, on average
	// sampleClip is how many times the mean a sample counts at most: what takes longer is mostly a thread that lost its
	// processor meanwhile.
	sampleClip = 64
	sampleKeep = 0.01 // of the newest sample in the mean
)

func newSamples(m *moves, setup *Setup) *samples {
	if m == nil {
		return nil
	}
	return &samples{of: m.of, seconds: make([]float64, len(m.owners)), half: setup.ShardsHalf, left: 1,
		rnd: rand.New(rand.NewPCG(uint64(setup.Worker), 0))}
}

// handle has the Engine handle a batch, with samples where they are wanted.
func (c *cycle) handle() (int, error) {
	s, batch := c.samples, min(c.batch, c.shows.left)
	if s == nil {
		return c.engine.Run(batch, c.pace)
	}
	done := 0
	if s.left > 0 {
		n, err := c.engine.Run(min(batch, s.left), c.pace)
		done = n
		if s.left -= n; err != nil || s.left > 0 {
			return done, err
		}
	}
	began := c.now()
	n, err := c.engine.Run(1, c.pace)
	if n == 1 {
		now := c.now()
		s.add(c.engine.LastCalled(), now.Sub(began).Seconds())
		if s.half > 0 && now.Sub(s.faded) > fadePeriod {
			s.fade(c, now)
		}
	}
	return done + n, err
}

// add takes in how long a call of a node's handler has taken.
func (s *samples) add(node int, seconds float64) {
	if s.mean == 0 {
		s.mean = seconds
	}
	seconds = min(seconds, sampleClip*s.mean)
	s.mean += sampleKeep * (seconds - s.mean)
	s.seconds[s.of[node]] += seconds
	most := sampleMost
	if s.mean > 0 {
		most = max(1, min(most, int(samplePeriod.Seconds()/s.mean)))
	}
	s.left = 1 + s.rnd.IntN(2*most)
}

// fadePeriod is the time between two times that samples are made to count less.
const fadePeriod = 50 * time.Millisecond

// fade makes what was sampled count less.
func (s *samples) fade(c *cycle, now time.Time) {
	left := math.Exp2(-min(now.Sub(s.faded).Seconds(), 1e6) / s.half)
	s.faded = now
	s.total = left * (s.total + c.workedSince())
	for shard := range s.seconds {
		s.seconds[shard] *= left
	}
}

// reset forgets all samples.
func (s *samples) reset() {
	clear(s.seconds)
	s.total = 0
}

// worked is how many seconds of the replication the worker has worked.
func (c *cycle) worked() float64 {
	worked := c.ledger.seconds[working]
	if c.ledger.is == working {
		worked += c.now().Sub(c.ledger.since).Seconds()
	}
	return worked
}

// workedSince is what it has worked since the last call.
func (c *cycle) workedSince() float64 {
	before := c.samples.worked
	c.samples.worked = c.worked()
	return max(c.samples.worked-before, 0)
}

// workOf is what shards have cost in the leg that has ended, or lately: together what the worker has worked.
func (c *cycle) workOf() (work []Work) {
	s := c.samples
	if s == nil {
		return nil
	}
	s.total += c.workedSince()
	sum := 0.0
	for _, seconds := range s.seconds {
		sum += seconds
	}
	for shard, seconds := range s.seconds {
		if seconds > 0 && sum > 0 {
			work = append(work, Work{uint32(shard), seconds / sum * s.total})
		}
	}
	if s.half == 0 {
		s.reset()
	}
	return work
}
