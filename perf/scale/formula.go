// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/disco-sim/disco/internal/speedup"

// predict is the formula of docs/scale.md for a machine.
func predict(p engineParams) speedup.Forecast {
	n := float64(p.workers)
	latency := p.Latency
	if p.workers > p.near {
		latency = p.Far
	}
	// In a window each worker has the events of a lookahead: the mean time between two is 1 s.
	return speedup.Of(
		speedup.Costs{Event: p.event(), Cross: p.Send + p.Receive, Turn: p.turn(), Wait: latency + p.Wake},
		speedup.Load{Workers: p.workers, Events: float64(p.pending) * p.lookahead, Away: p.remote * (n - 1) / n,
			Balance: 1})
}
