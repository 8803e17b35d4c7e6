// SPDX-License-Identifier: Apache-2.0

// Package latency measures how long a promise takes between two threads of this machine, and
// relates it to what a model gives workers to do between two promises.
//
// Guarantee: Measure ends within its time limit, or with an error, however busy the machine
// is. Coupling is finite for all arguments.
//
//	seconds, err := latency.Measure()
//	c := latency.Coupling(lookahead, eventsPerSimulated, seconds, eventsPerSecond)
package latency

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/shm"
)

// tripsMax is how many round trips are timed: some milliseconds. On a machine whose
// CPUs are all busy every one of them may take a time slice, and together they would
// take half a minute; after tripsTime there are enough.
const (
	tripsMax  = 5000
	tripsTime = 50 * time.Millisecond
)

// Measure measures how long a promise takes from one thread to another through the slot
// of a lane, in seconds: half of a round trip that only a tenth are faster than, because
// what interrupts the slower ones is seldom the memory. It keeps two CPUs busy for some
// milliseconds; on a machine with one CPU it measures the scheduler.
func Measure() (seconds float64, err error) {
	trips, err := roundTrips(tripsMax, tripsTime)
	if err != nil {
		return 0, err
	}
	slices.Sort(trips)
	return trips[len(trips)/10].Seconds() / 2, nil
}

// roundTrips times round trips until there are most of them, or the time is
// over; at least one.
func roundTrips(most int, limit time.Duration) (trips []time.Duration, err error) {
	there, err := newPath()
	if err != nil {
		return nil, err
	}
	back, err := newPath()
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for i := 1; ; i++ {
			epoch, err := there.await(float64(i))
			if err != nil || math.IsInf(epoch, 1) {
				done <- err
				return
			}
			back.sender.Promise(epoch, 0)
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	trips = make([]time.Duration, 0, most)
	for start := time.Now(); len(trips) == 0 || len(trips) < most && time.Since(start) < limit; {
		began, epoch := time.Now(), float64(len(trips)+1)
		there.sender.Promise(epoch, 0)
		if _, err := back.await(epoch); err != nil {
			return nil, err
		}
		trips = append(trips, time.Since(began))
	}
	there.sender.Promise(math.Inf(1), 0) // the other side stops waiting
	return trips, <-done
}

// path is a lane for Measure.
type path struct {
	sender   *lane.Sender
	receiver *lane.Receiver
}

func newPath() (*path, error) {
	plan, err := worker.SegmentLayout(2, worker.DefaultTuning())
	if err != nil {
		return nil, err
	}
	seg, err := shm.Heap(plan.Lane)
	if err != nil {
		return nil, err
	}
	if err := plan.FormatLane(seg.Body()); err != nil {
		return nil, err
	}
	p := &path{}
	if p.sender, err = lane.OpenSender(seg.Body()); err != nil {
		return nil, err
	}
	p.receiver, err = lane.OpenReceiver(seg.Body())
	return p, err
}

// await spins until the promise, or a later one, has come, and yields where that takes
// long.
func (p *path) await(epoch float64) (came float64, err error) {
	const passes = 1 << 12
	for began := time.Now(); ; {
		for range passes {
			got, _, err := p.receiver.Promise()
			if err != nil {
				return 0, err
			}
			if got.Epoch >= epoch {
				return got.Epoch, nil
			}
			shm.Pause()
		}
		if time.Since(began) > 10*time.Second {
			return 0, fmt.Errorf("latency: a promise of %v has not come for 10 s", epoch)
		}
		shm.Yield()
	}
}

// Coupling says how much a worker has to do between two promises: lookahead × events per
// simulated second ÷ (latency × events per second of wall time). Over 10 is good, under 1
// hopeless (Varga, Şekercioğlu and Egan, A Practical Efficiency Criterion for the Null
// Message Algorithm, European Simulation Symposium, 2003). 0 where something isn't known.
func Coupling(lookahead, eventsPerSimulated, latency, eventsPerSecond float64) float64 {
	for _, known := range [...]float64{lookahead, eventsPerSimulated, latency, eventsPerSecond} {
		if !(known > 0 && known <= math.MaxFloat64) {
			return 0
		}
	}
	// Quotients first: the least lookahead times a rate has no digits left. What then is
	// still out of range is known to be very little, or very much.
	c := lookahead * (eventsPerSimulated / eventsPerSecond / latency)
	return max(math.SmallestNonzeroFloat64, min(c, math.MaxFloat64))
}
