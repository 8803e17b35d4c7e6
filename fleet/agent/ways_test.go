// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/agent"
)

// fakeWays are ways to two machines, one of which can be cut off.
type fakeWays struct {
	mu    sync.Mutex
	cut   bool
	asked map[string]int
	rates int
}

func (w *fakeWays) Peers() []cluster.Member {
	return []cluster.Member{{Name: "h2", Address: "h2:1"}, {Name: "h3", Address: "h3:1"}}
}

func (w *fakeWays) Measure(_ context.Context, address string, rate bool) (time.Duration, float64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[address]++
	if w.cut && address == "h3:1" {
		return 0, 0, errors.New("no route to h3:1")
	}
	if rate {
		w.rates++
	}
	return 210 * time.Microsecond, 1.1e8, nil
}

// TestWays has an agent measure the ways to others, all of them in turn, and write that into its vitals; one that can't
// be reached any more has no distance.
func TestWays(t *testing.T) {
	w := &fakeWays{asked: map[string]int{}}
	f := setUpAs(t, func(o *agent.Options) { o.Ways, o.Pairs = w, 10*time.Millisecond })
	f.awaitVitals("distances", func(v *fleet.Vitals) bool {
		return len(v.Far) == 2 && v.Far["h3"] == 0.00021 && v.Rates["h2"] == 1.1e8 && len(v.Unreachable) == 0
	})
	w.mu.Lock()
	w.cut = true
	w.mu.Unlock()
	f.awaitVitals("a cut", func(v *fleet.Vitals) bool {
		return len(v.Far) == 1 && v.Far["h2"] > 0 && v.Unreachable["h3"] == "no route to h3:1" && v.Rates["h3"] == 0
	})
	w.mu.Lock()
	if w.asked["h2:1"] == 0 || w.asked["h3:1"] == 0 {
		t.Errorf("found %v, want both machines to be measured", w.asked)
	}
	if w.rates != 2 {
		t.Errorf("the rate was measured %d times, want once for each machine", w.rates)
	}
	w.cut = false
	w.mu.Unlock()
	f.end()
}
