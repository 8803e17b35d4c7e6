// SPDX-License-Identifier: Apache-2.0

package cputime_test

import (
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/cputime"
	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Work counts, and a figure never falls.
func TestWorkCounts(t *testing.T) {
	first := cputime.Self()
	last := first
	for began := time.Now(); last < first+0.01; {
		now := cputime.Self()
		if now < last {
			t.Fatalf("%v s after %v s", now, last)
		}
		if last = now; time.Since(began) > time.Minute {
			t.Fatalf("a minute of work counts %v s", last-first)
		}
	}
}

// The monotonic clock goes on as Go's does.
func TestMonotonic(t *testing.T) {
	began, before := time.Now(), cputime.Monotonic()
	time.Sleep(2 * time.Millisecond)
	after := cputime.Monotonic()
	if took := time.Duration(after - before); before <= 0 || took < 2*time.Millisecond || took > time.Since(began) {
		t.Errorf("%d, then %d, want 2 ms to %v more", before, after, time.Since(began))
	}
}
