// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/disco-sim/disco/fleet"
)

// stillEvery is how often a run is reported on whose figures are those of the last report: for how long they have been
// so is what a leader decides by, a new one too.
const stillEvery = 5 * time.Second

// pace is how a run gets on, by this machine's clock.
type pace struct {
	before   time.Duration // that it ran before
	began    time.Time
	now      float64   // simulated time, when it moved last
	moved    time.Time // then
	events   uint64    // then
	reported time.Time
	said     fleet.Progress
}

// newPace begins for a run that has run for a time before a pause.
func newPace(before time.Duration) *pace {
	now := time.Now()
	return &pace{before: before, began: now, moved: now, now: -1, said: fleet.Progress{Now: -1}}
}

// ran is how long the attempt has simulated.
func (p *pace) ran() time.Duration { return p.before + time.Since(p.began) }

// of completes how far the run says that it is, and tells whether that is to be reported.
func (p *pace) of(x fleet.Progress) (y fleet.Progress, tell bool) {
	now := time.Now()
	if x.Now > p.now || x.Anew(p.now, p.events) {
		p.now, p.moved, p.events = x.Now, now, x.Events
	}
	tell = x != p.said || now.Sub(p.reported) >= stillEvery
	if tell {
		p.said, p.reported = x, now
	}
	x.Ran, x.Still, x.MovedEvents = p.ran(), now.Sub(p.moved), p.events
	return x, tell
}
