package launch

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/disco-sim/disco/lane"
	"github.com/disco-sim/disco/shm"
	"github.com/disco-sim/disco/worker"
)

// latencyTrips is how many round trips are timed: some milliseconds.
const latencyTrips = 5000

// Latency measures how long a promise takes from one thread to another through the slot
// of a lane, in seconds: half of a round trip that only a tenth are faster than, because
// what interrupts the slower ones is seldom the memory. It keeps two CPUs busy for some
// milliseconds; on a machine with one CPU it measures the scheduler.
func Latency() (seconds float64, err error) {
	there, err := newPath()
	if err != nil {
		return 0, err
	}
	back, err := newPath()
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		for i := 1; i <= latencyTrips && err == nil; i++ {
			if err = there.await(float64(i)); err == nil {
				back.sender.Promise(float64(i), 0)
			}
		}
		done <- err
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	trips := make([]time.Duration, latencyTrips)
	for i := range trips {
		began := time.Now()
		there.sender.Promise(float64(i+1), 0)
		if err := back.await(float64(i + 1)); err != nil {
			return 0, err
		}
		trips[i] = time.Since(began)
	}
	slices.Sort(trips)
	return trips[latencyTrips/10].Seconds() / 2, <-done
}

// path is a lane for Latency.
type path struct {
	sender   *lane.Sender
	receiver *lane.Receiver
}

func newPath() (*path, error) {
	plan, err := worker.SegmentPlan(2, worker.DefaultTuning())
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

// await spins until the promise has come, and yields where that takes long.
func (p *path) await(epoch float64) error {
	const passes = 1 << 12
	for began := time.Now(); ; {
		for range passes {
			got, _, err := p.receiver.Promise()
			if err != nil {
				return err
			}
			if got.Epoch >= epoch {
				return nil
			}
			shm.Pause()
		}
		if time.Since(began) > 10*time.Second {
			return fmt.Errorf("launch: a promise of %v has not come for 10 s", epoch)
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
