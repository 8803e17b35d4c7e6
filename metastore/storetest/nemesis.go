// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// fault is something that can be brought about, and undone.
type fault struct {
	name  string
	begin func()
	end   func()
}

// faults lists what an engine's hooks can do to servers and to these clients.
func (e *env) faults(clients []metastore.Backend) (all []fault) {
	kills, pauses := e.engine.has(kill) == "", e.engine.has(pause) == ""
	for i := range max(e.engine.Servers, 1) {
		if kills {
			all = append(all, fault{"kill", func() { e.engine.Kill(e, i) }, func() { e.engine.Restart(e, i) }})
		}
		if pauses {
			all = append(all, fault{"stop", func() { e.engine.Pause(e, i) }, func() { e.engine.Continue(e, i) }})
		}
	}
	for _, b := range clients {
		if e.engine.has(disconnect) == "" {
			all = append(all, fault{"cut off", func() { e.engine.Disconnect(e, b) },
				func() { e.engine.Reconnect(e, b) }})
		}
		if e.engine.has(expire) == "" {
			all = append(all, fault{"expire", func() { e.engine.Expire(e, b) }, func() {}})
		}
	}
	return all
}

// trouble brings about faults, one at a time and in an order that the random source gives, and ends with all healed.
// Each kind comes as often as the others.
func (e *env) trouble(r *rand.Rand, faults []fault, n int) {
	kinds := map[string][]fault{}
	for _, f := range faults {
		kinds[f.name] = append(kinds[f.name], f)
	}
	names := slices.Sorted(maps.Keys(kinds))
	wait(e.ctx, 100*time.Millisecond)
	for range n {
		if len(faults) == 0 || e.ctx.Err() != nil {
			break
		}
		same := kinds[names[r.IntN(len(names))]]
		f := same[r.IntN(len(same))]
		e.Logf("%s", f.name)
		f.begin()
		lasts := 50 + r.IntN(400)
		if r.IntN(4) == 0 {
			lasts *= 8 // longer than it takes to elect another leader, and than a session may live
		}
		wait(e.ctx, time.Duration(lasts)*time.Millisecond)
		f.end()
		wait(e.ctx, time.Duration(50+r.IntN(400))*time.Millisecond)
	}
}

// wait lets time go by, in which others do something.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
