// SPDX-License-Identifier: Apache-2.0

// Package speedup says how many times as fast as one worker several of them are, before they run.
//
// It is the formula of docs/scale.md, "The model", for any placement of nodes.
//
// Guarantee: it is finite and > 0 whatever finite, positive costs and loads there are, and never more than there are
// workers. It is an upper limit: measured runs were up to a quarter slower (docs/scale.md).
//
//	f := speedup.Of(speedup.Usual(event, 4), speedup.Load{Workers: 4, Events: 1200, Away: 0.1, Balance: 1.05})
//	fmt.Println(f.Rate * event / 1e9) // times as fast as one worker
package speedup

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// BatchMax is the most events of a pass of the duty cycle.
const BatchMax = 256

// Costs are nanoseconds.
type Costs struct {
	Event float64 // to handle an event within a worker that has peers
	Cross float64 // to send one to another worker, and to receive it there, together
	Turn  float64 // of a pass over the lanes of all peers
	Wait  float64 // from a promise until the worker that waits for it begins its next pass
}

// What docs/scale.md has measured, in nanoseconds: cores that are near to each other.
const (
	peersNanos   = 1.246
	crossNanos   = 48.8
	passNanos    = 28.14
	peerNanos    = 75.54
	wakeNanos    = 79.65
	latencyNanos = 50
)

// Usual is what docs/scale.md has measured for so many workers, where an event takes one worker alone so many
// nanoseconds.
func Usual(event float64, workers int) Costs {
	return Costs{Event: event + peersNanos, Cross: crossNanos, Turn: passNanos + peerNanos*float64(workers-1),
		Wait: latencyNanos + wakeNanos}
}

// Load is what workers have to do.
type Load struct {
	Workers int
	Events  float64 // that each has in the mean while simulated time moves by a lookahead: a window; +Inf: no end of it
	Away    float64 // the share of events that go to another worker
	Balance float64 // the busiest worker's work over the mean
}

// Forecast is what the formula says.
type Forecast struct {
	Busy      float64 // nanoseconds that a worker handles the events of a window, sends, receives and makes passes
	Imbalance float64 // the most loaded worker's events over the mean of all, in a window
	Exposed   float64 // nanoseconds of a window in which there is nothing to do but wait for a promise
	Window    float64 // nanoseconds in which every worker comes a window further
	Rate      float64 // events a second, of all workers
}

// Of is the formula of docs/scale.md. Where windows have no end, Busy and Window are those of one event.
func Of(c Costs, l Load) Forecast {
	events, endless := l.Events, math.IsInf(l.Events, 1)
	batch := float64(BatchMax)
	if !endless {
		batch = max(1, min(BatchMax, events/2))
	}
	each := c.Event + l.Away*c.Cross + c.Turn/batch
	f := Forecast{Imbalance: l.Balance}
	if endless {
		events = 1
	} else {
		f.Imbalance *= Imbalance(l.Workers, events)
	}
	f.Busy = events * each
	f.Window = f.Busy * f.Imbalance
	if !endless && l.Workers > 1 {
		wait := f.Busy/2*l.Balance*Imbalance(l.Workers, events/2) + c.Wait + c.Turn
		f.Exposed = max(0, wait-f.Window)
		f.Window += f.Exposed
	}
	f.Rate = float64(l.Workers) * events / f.Window * 1e9
	return f
}

// exactMax is up to which mean Imbalance adds up; beyond, what it is more than 1 falls as the root of the mean rises.
const exactMax = 1e6

// Imbalance is the mean of the greatest of n independent Poisson numbers of the given mean, over that mean: the sum of
// 1 - F(k)^n over all k from 0 on.
func Imbalance(n int, mean float64) float64 {
	if n == 1 || mean <= 0 {
		return 1
	}
	if mean > exactMax {
		return 1 + (Imbalance(n, exactMax)-1)*math.Sqrt(exactMax/mean)
	}
	// From so far below the mean on F is not 0, and up to so far above it it is not 1.
	spread := 12*math.Sqrt(mean) + 40
	from := math.Floor(max(0, mean-spread))
	greatest := from
	for k := from; k < mean+spread; k++ {
		greatest += 1 - math.Pow(mathext.GammaIncRegComp(k+1, mean), float64(n))
	}
	return greatest / mean
}
