// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// awaitVitals waits for vitals of the agent.
func (f *fixture) awaitVitals(what string, ok func(v *fleet.Vitals) bool) fleet.Vitals {
	f.Helper()
	for {
		all, malformed, err := f.client.Vitals(f.ctx)
		f.must(errors.Join(append(malformed, err)...))
		if v, there := all["h1"]; there && ok(&v) {
			return v
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-f.ctx.Done():
			f.Fatalf("%s don't come: found %+v", what, all)
		}
	}
}

// TestVitals has an agent write how its machine is, until its session ends.
func TestVitals(t *testing.T) {
	f := setUp(t)
	v := f.awaitVitals("vitals", func(*fleet.Vitals) bool { return true })
	if v.Memory <= 0 || v.Disk <= 0 || v.Refuses != "" || v.Trial {
		t.Errorf("found %+v", v)
	}
	f.own.EndSession()
	f.awaitVitals("vitals in another session", func(now *fleet.Vitals) bool { return now.Number > v.Number })
	f.mu.Lock()
	f.problems = nil // that the session was lost
	f.mu.Unlock()
	f.end()
}

// broken is an executor that prepares nothing, as long as it is broken.
type broken struct {
	executor.Executor
	is    atomic.Bool
	tried atomic.Int32
}

func (b *broken) Vitals(v *fleet.Vitals) { v.Memory = 0.5 }

func (b *broken) Prepare(ctx context.Context, j *executor.Job) error {
	if b.tried.Add(1); b.is.Load() {
		return errors.New("srun isn't there:\nask who runs it")
	}
	return b.Executor.Prepare(ctx, j)
}

// TestStartsNothing has an executor that starts nothing not be tried any more, and the leader be told.
func TestStartsNothing(t *testing.T) {
	b := &broken{}
	b.is.Store(true)
	f := setUpWith(t, func(e executor.Executor) executor.Executor { b.Executor = e; return b })
	id := f.submit(launchtest.Scenario(6, 60, slow))
	for attempt := 1; attempt <= 5; attempt++ {
		f.dispatch(id, attempt, "h1-0")
		f.applied(f.ask("h1-0", id, attempt, 0, cluster.Reserved))
		if ack := f.ask("h1-0", id, attempt, 0, cluster.Ready); ack.Phase != cluster.Failed {
			t.Fatalf("found %+v", ack)
		}
		r := f.await(id, "that it failed", func(r *fleet.Report) bool { return r.Attempt == attempt })
		if r.State != fleet.Held || (attempt > 3) != strings.Contains(r.Error.Message, "has failed 3 times") ||
			(attempt > 3) != (r.Error.Type == fleet.ErrorRefused) {
			t.Errorf("attempt %d: found %+v", attempt, r.Error)
		}
		f.free("h1-0")
	}
	if n := b.tried.Load(); n != 3 {
		t.Errorf("it was tried %d times, want 3", n)
	}
	v := f.awaitVitals("vitals", func(v *fleet.Vitals) bool { return v.Refuses != "" })
	if v.Refuses != "srun isn't there: ask who runs it" {
		t.Errorf("found %+v", v)
	}
	f.end()
}

// TestPlaceOfOne has an experiment whose place can't be used fail again and again, and keep no other one from the
// machine.
func TestPlaceOfOne(t *testing.T) {
	f := setUp(t)
	file := filepath.Join(t.TempDir(), "file")
	f.must(os.WriteFile(file, nil, 0o600))
	bad := f.submitTo(file, launchtest.Scenario(6, 60, ""))
	ends := func(id string, attempt int, state fleet.PieceState) *fleet.Report {
		f.begin(id, attempt)
		r := f.await(id, "the end", func(r *fleet.Report) bool { return r.Attempt == attempt && r.State == state })
		f.free("h1-0", "h1-1")
		return r
	}
	for attempt := 1; attempt <= 4; attempt++ {
		r := ends(bad, attempt, fleet.Held)
		if r.Error.Type != fleet.ErrorMachine || !strings.Contains(r.Error.Message, "no directory") {
			t.Fatalf("attempt %d: found %+v", attempt, r.Error)
		}
	}
	lost := f.submit("model: tiny\nhorizon: 59\nnodes: 6\n")
	f.must(f.store.DeleteTree(f.ctx, "fleet/blobs"))
	for attempt := 1; attempt <= 4; attempt++ { // the scenario isn't there any more
		f.dispatch(lost, attempt, "h1-0")
		f.applied(f.ask("h1-0", lost, attempt, 0, cluster.Reserved))
		if ack := f.ask("h1-0", lost, attempt, 0, cluster.Ready); ack.Phase != cluster.Failed {
			t.Fatalf("found %+v without the scenario", ack)
		}
		f.free("h1-0")
	}
	ends(f.submit(launchtest.Scenario(6, 60, "")), 1, fleet.Finished)
	if v := f.awaitVitals("vitals", func(*fleet.Vitals) bool { return true }); v.Refuses != "" {
		t.Errorf("found %+v", v)
	}
	f.end()
}
