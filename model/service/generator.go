// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"math/rand/v2"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/node"
)

// generator makes the requests. At the start of every window it draws how many
// users are active; while the window lasts, requests come with exponential gaps at
// users × rate. A gap that would cross the window's end is thrown away.
type generator struct {
	out       outbox
	users     sampler
	gaps      rand.PCG // of exponentials of rate 1
	rate      float64  // requests per second and user
	window    float64  // seconds
	horizon   float64
	started   bool
	windows   int64           // windows that have begun
	windowEnd float64         // of the newest
	active    float64         // users in it
	due       float64         // next arrival, +Inf: none in this window
	made      int64           // requests
	userSum   float64         // of active over the windows
	before    generatorReport // what of that the warm-up has
}

// Handle is called by the engine only.
func (g *generator) Handle(p *node.Simproc, events []node.Event) error { return g.handle(p, events) }

// Report is called by the engine only, once, after the last Handle.
func (g *generator) Report(p *node.Simproc) ([]byte, error) { return reportOn(g, p, g.out.reporter) }

func (g *generator) handle(p simproc, _ []node.Event) error {
	now := p.Now()
	if now >= g.out.warm {
		g.forget(g.out.warm)
	}
	switch {
	case !g.started:
		g.started = true
		g.begin()
	case now == g.due:
		r := request{born: now, number: uint64(g.made)}
		g.made++
		g.out.windows.At(now, madeHere, 1)
		record(p, recordMade, r.number, 0)
		if invariants.Enabled {
			g.out.audit.Came.add(1, now)
		}
		if err := g.out.send(p, 0, now, r); err != nil {
			return err
		}
	case now >= g.windowEnd:
		g.begin()
	}
	return g.schedule(p, now)
}

// begin opens the next window.
func (g *generator) begin() {
	g.windows++
	g.windowEnd = float64(g.windows) * g.window
	g.active = g.users.draw()
	g.userSum += g.active
}

// schedule requests an activation at the next arrival, or at the window's end when there is
// none before.
func (g *generator) schedule(p simproc, now float64) error {
	g.due = math.Inf(1)
	if rate := g.active * g.rate; rate > 0 {
		if at := later(now, rand.New(&g.gaps).ExpFloat64()/rate); at < g.windowEnd {
			g.due = at
		}
	}
	if at := min(g.due, g.windowEnd); at < g.horizon {
		return p.Wakeup(at)
	}
	return nil
}

// later is now + d, or the next time after now where d is too small to count.
func later(now, d float64) float64 {
	return max(now+d, math.Nextafter(now, math.Inf(1)))
}

func (g *generator) report(end float64, r *reporter) {
	if at, begins := closing(g.out.warm, end); begins {
		g.forget(at)
	}
	counted := g.counted()
	r.boxReport = boxReport{
		End: end, Received: counted.Made, Passed: counted.Made, Generator: &counted,
		Edges: g.out.report(end, r), Audit: g.out.audit, Windows: closed(g.out.windows, end),
	}
}
