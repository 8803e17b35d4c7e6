// SPDX-License-Identifier: Apache-2.0

package service

import "github.com/disco-sim/disco/internal/invariants"

// The levels that a server keeps account of.
const (
	levelWhole   = iota // requests in the server
	levelRAMWait        // waiting for memory
	levelReady          // waiting for a core: ready_queue_len
	levelCPU            // holding a core
	levelIO             // in I/O, holding no core: event_loop_io_sleep
	levelRAM            // memory in use, in ramUnits: ram_in_use
	levelCount
)

// gauges keeps the time integral, the peak and the samples of levels that change
// at activations only. settle is called before anything changes.
//
// The peak counts levels that lasted: what rises and falls within one epoch was
// never there for any time.
//
// What every call writes stands in front.
type gauges struct {
	last  float64 // when settled
	warm  float64 // when the accounts begin; +Inf: they have
	level [levelCount]int64
	ticks ticks
	area  [levelCount]float64 // integral of level over time
	peak  [levelCount]int64
	sum   [levelCount]float64 // of level over the ticks
	top   [levelCount]int64   // greatest level at a tick
	terms int64               // that an area is the sum of; checked build only
}

// forget begins the accounts anew at a time that is settled.
func (g *gauges) forget() {
	g.area, g.peak, g.sum, g.top, g.terms = [levelCount]float64{}, [levelCount]int64{}, [levelCount]float64{},
		[levelCount]int64{}, 0
}

// settle accounts for the time since the last call.
func (g *gauges) settle(now float64) {
	dt := now - g.last
	if dt <= 0 {
		return
	}
	g.last = now
	if invariants.Enabled {
		g.terms++
	}
	for i, l := range &g.level {
		g.area[i] += float64(l) * dt
		g.peak[i] = max(g.peak[i], l)
	}
	if g.ticks.at >= now {
		return
	}
	n := g.ticks.pass(now)
	for i, l := range &g.level {
		g.sum[i] += float64(l) * float64(n)
		g.top[i] = max(g.top[i], l)
	}
}
