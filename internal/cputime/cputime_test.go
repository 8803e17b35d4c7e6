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
