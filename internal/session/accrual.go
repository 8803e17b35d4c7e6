// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"github.com/disco-sim/disco/internal/phi"
)

// Silence is an unusually long time in which nothing has come.
type Silence struct {
	For time.Duration // less than the peer's timeout
	Phi float64       // -log10 of the probability that something still comes; phi.Threshold at least
}

// accrual judges by phi accrual how unusual it is that nothing comes on a session. It counts at most one arrival in a
// tick, and its time is that of ticks, so that a process that was stopped doesn't take its peers for silent when it
// resumes. One goroutine has it.
type accrual struct {
	detector    phi.Detector
	now, last   time.Duration // of the last arrival
	unreachable bool
}

// tick passes time, in which the session was up at the end, and something arrived or not. changed is whether the peer
// has become unreachable (s isn't nil), or is reachable again.
func (a *accrual) tick(passed time.Duration, up, arrived bool) (s *Silence, changed bool) {
	a.now += passed
	switch {
	case !up: // the next connection has intervals of its own
		*a = accrual{detector: phi.Detector{Resolution: a.detector.Resolution}}
		return nil, false
	case arrived:
		if changed = a.unreachable; changed {
			a.detector.Resumed(a.now)
		} else {
			a.detector.Arrived(a.now)
		}
		a.last, a.unreachable = a.now, false
		return nil, changed
	case a.unreachable:
		return nil, false
	}
	if v := a.detector.Phi(a.now); v >= phi.Threshold {
		a.unreachable = true
		return &Silence{For: a.now - a.last, Phi: v}, true
	}
	return nil, false
}
