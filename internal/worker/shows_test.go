// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"
	"time"
)

// However long calls take, the board is shown again within some tenth of a second, or as soon as a call has ended; also
// where they become slow. Where they are short the clock isn't looked at for each, and the board isn't shown for it.
func TestShows(t *testing.T) {
	for _, c := range []struct {
		each         []time.Duration // of one second each
		apart        time.Duration   // between two times that it is shown, at most
		looks, shown int             // at most, in a thousand calls
	}{
		{[]time.Duration{10 * time.Second, 10 * time.Second}, 10 * time.Second, 1000, 1000},
		{[]time.Duration{time.Millisecond}, 100 * time.Millisecond, 100, 100},
		{[]time.Duration{100 * time.Microsecond}, 110 * time.Millisecond, 10, 10},
		// The passes of the first second show it, too.
		{[]time.Duration{10 * time.Microsecond, time.Millisecond}, 2100 * time.Millisecond, 100, 100},
		{[]time.Duration{100 * time.Nanosecond}, time.Minute, 1, 0},
	} {
		now := time.Time{}.Add(time.Hour)
		var s shows
		s.start(now)
		last, calls, looks, shown := now, 0, 0, 0
		clock := func() time.Time { looks++; return now }
		for _, each := range c.each {
			for end := now.Add(time.Second); now.Before(end); {
				n := min(256, s.left)
				if n < 1 {
					t.Fatalf("%v: a batch of %d calls", c.each, n)
				}
				now = now.Add(time.Duration(n) * each)
				calls += n
				if s.due(n, clock) {
					if d := now.Sub(last); d > c.apart {
						t.Errorf("%v: shown after %v, want %v at most", c.each, d, c.apart)
					}
					last = now
					shown++
				}
			}
		}
		if d := now.Sub(last); d > c.apart {
			t.Errorf("%v: not shown for the last %v, want %v at most", c.each, d, c.apart)
		}
		const first = 20 // while it finds out
		if looks > first+calls*c.looks/1000+1 || shown > first+calls*c.shown/1000 {
			t.Errorf("%v: %d looks at the clock and shown %d times in %d calls", c.each, looks, shown, calls)
		}
	}
}
