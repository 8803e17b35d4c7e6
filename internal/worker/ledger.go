// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"time"
)

// activity is what a worker does at a moment: always exactly one thing.
type activity uint8

const (
	working     activity = iota // takes in, handles, sends
	blocked                     // nothing can be handled before a peer says more
	shortOfRoom                 // what there is to do wants room in a lane
	reporting                   // the replication is over: results are gathered
	asking                      // a handler waits for the outside world
	activities
)

// ledger divides a replication's wall time among activities. It looks at the clock when the
// activity changes and at no other time, so that the shares add up to the whole and a busy
// worker pays nothing.
//
// Owned by the cycle.
type ledger struct {
	now     func() time.Time
	is      activity
	since   time.Time // when it began
	seconds [activities]float64
	began   [activities]uint64 // how often each has begun
}

// start begins a replication, working.
func (l *ledger) start(now func() time.Time) {
	*l = ledger{now: now, since: now()}
}

// change ends one activity and begins another.
func (l *ledger) change(to activity) {
	now := l.now()
	l.seconds[l.is] += now.Sub(l.since).Seconds()
	l.is, l.since = to, now
	l.began[to]++
}

// enter begins an activity, if it isn't the one under way.
func (c *cycle) enter(a activity) {
	if c.ledger.is != a {
		c.ledger.change(a)
		c.showActivity()
		if a == working {
			c.showState(StateWork, -1)
		}
		if a != shortOfRoom {
			c.counters.At(showRoomAt).SetFloat(math.Inf(1))
		}
	}
}

// charge ends the replication and puts its shares into s. They add up to its wall time.
func (c *cycle) charge(s *Stats) {
	l := &c.ledger
	l.change(reporting)
	s.WorkingSeconds, s.BlockedSeconds = l.seconds[working], l.seconds[blocked]
	s.RoomSeconds, s.ReportSeconds = l.seconds[shortOfRoom], l.seconds[reporting]
	s.OutsideSeconds = l.seconds[asking]
	s.WallSeconds = s.WorkingSeconds + s.BlockedSeconds + s.RoomSeconds + s.ReportSeconds + s.OutsideSeconds
	s.FullWaits = l.began[shortOfRoom]
}
