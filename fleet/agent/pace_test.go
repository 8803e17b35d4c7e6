// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/disco-sim/disco/fleet"
)

// TestPace: what a run says is reported when it says something else, and each stillEvery where it doesn't, with how
// long it has run, how long simulated time has stood, and what had been handled when it moved.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(time.Minute)
		is := func(now float64, events uint64, tell bool, still time.Duration, then uint64) {
			t.Helper()
			time.Sleep(time.Second)
			x, told := p.of(fleet.Progress{Now: now, Events: events})
			if told != tell || x.Still != still || x.MovedEvents != then || x.Ran != p.ran() {
				t.Errorf("found %+v, told %v; want %v, standing for %v with %d events", x, told, tell, still, then)
			}
		}
		is(0, 0, true, 0, 0)
		is(1, 5, true, 0, 5)
		is(1, 6, true, time.Second, 5)
		for i := range 4 {
			is(1, 6, false, time.Duration(i+2)*time.Second, 5)
		}
		is(1, 6, true, 6*time.Second, 5)
		is(1, 6, false, 7*time.Second, 5)
		is(2, 7, true, 0, 7)
		is(0.5, 8, true, time.Second, 7) // it says something else, but hasn't begun anew
		is(0.5, 3, true, 0, 3)
		is(0.5, 3, false, time.Second, 3)
		is(0.75, 4, true, 0, 4)
		if got := p.ran(); got != time.Minute+14*time.Second {
			t.Errorf("it ran for %v", got)
		}
	})
}
