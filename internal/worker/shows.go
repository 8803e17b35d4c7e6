// SPDX-License-Identifier: Apache-2.0

package worker

import "time"

// shows tells when a worker that is never blocked puts its numbers on the board beside the passes at which it does so
// anyway: where calls of handlers take long, these are many seconds apart. It looks at the clock once in so many
// calls as take about showTime, and no batch has more than are left of them, so that a call of any length is shown
// soon behind its end.
//
// Owned by the cycle.
type shows struct {
	left  int // calls until the next look at the clock
	every int // calls from one look to the next
	at    time.Time
}

const (
	// showTime is the time from one look to the next that is aimed at, at most.
	showTime = 50 * time.Millisecond
	// showMost is how many calls there are at most from one look to the next: one look at the clock in so many takes no
	// time, and where calls become slow it is soon seen.
	showMost = 1024
)

// start begins a replication.
func (s *shows) start(now time.Time) {
	s.every = max(s.every, 1)
	s.left, s.at = s.every, now
}

// due takes in that so many calls were done, and tells whether the board is to show that.
func (s *shows) due(done int, clock func() time.Time) bool {
	if s.left -= done; s.left > 0 {
		return false
	}
	now := clock()
	took := now.Sub(s.at)
	switch {
	case took < showTime/2:
		s.every = min(2*s.every, showMost)
	case took > showTime:
		s.every = max(1, int(float64(s.every)*float64(showTime)/float64(took)))
	}
	s.left, s.at = s.every, now
	return took >= showTime/4
}
