// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// prediction is what the formula says of a machine: nanoseconds in which every worker comes one lookahead further, and
// what they are made of.
type prediction struct {
	busy      float64 // handling a window's events, sending, receiving, passes
	imbalance float64 // the mean of the most loaded worker's events over the mean of all, in one window
	exposed   float64 // a promise's way, the end of the wait and a pass, where there is too little to do meanwhile
	window    float64 // all together
	rate      float64 // events a second, of all workers
}

// predict is the formula of docs/scale.md.
func predict(p engineParams) prediction {
	n := float64(p.workers)
	events := float64(p.pending) * p.lookahead // of one worker in a window: the mean time between two is 1 s
	away := p.remote * (n - 1) / n
	pass := p.turn()
	batch := max(1, min(batchMax, events/2))
	var r prediction
	r.busy = events * (p.event() + away*(p.Send+p.Receive) + pass/batch)
	r.imbalance = imbalance(p.workers, events)
	half := r.busy / 2 * imbalance(p.workers, events/2)
	latency := p.Latency
	if p.workers > p.near {
		latency = p.Far
	}
	if p.workers == 1 {
		latency, pass = 0, 0
	}
	wait := half + latency + p.Wake + pass
	r.window = max(r.busy*r.imbalance, wait)
	r.exposed = max(0, wait-r.busy*r.imbalance)
	r.rate = n * events / r.window * 1e9
	return r
}

// imbalance is the mean of the greatest of n independent Poisson numbers of the given mean, over that mean: the sum of
// 1 - F(k)^n over all k from 0 on.
func imbalance(n int, mean float64) float64 {
	if n == 1 || mean <= 0 {
		return 1
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
