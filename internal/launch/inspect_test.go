// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// A run can be looked at from outside, by its launcher's process or any worker's.
func TestInspect(t *testing.T) {
	stop := make(chan struct{})
	var once sync.Once
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 1e9, ""))
	cfg.Stop = stop
	cfg.Progress = func(p Progress) {
		if p.Events < 1000 {
			return
		}
		once.Do(func() {
			defer close(stop)
			for _, pid := range append(children(t, os.Getpid()), os.Getpid()) {
				checkLive(t, pid)
			}
			if runs, err := inspect.Runs(); err != nil || !slices.Contains(runs, os.Getpid()) {
				t.Errorf("Runs() = %v, %v; want %d among them", runs, err, os.Getpid())
			}
		})
	}
	if _, err := runQuick(t, cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect.Process(os.Getpid()); !errors.Is(err, inspect.ErrNoRun) {
		t.Errorf("after the run: %v, want ErrNoRun", err)
	}
}

func checkLive(t *testing.T, pid int) {
	t.Helper()
	live, err := inspect.Process(pid)
	if err != nil {
		t.Error(err)
		return
	}
	if live.PID != os.Getpid() || len(live.Workers) != 2 {
		t.Fatalf("process %d is in the run of %d with %d workers, want %d with 2", pid, live.PID, len(live.Workers),
			os.Getpid())
	}
	var events float64
	for i, w := range live.Workers {
		if !slices.Contains(children(t, live.PID), w.PID) || w.State == "" || w.State == "dead" {
			t.Errorf("worker %d is process %d, %q", i, w.PID, w.State)
		}
		events += w.Number(worker.NumberEvents)
	}
	if events < 1000 {
		t.Errorf("%v events on the boards, want at least 1000", events)
	}
}

// Runs that end while they are looked at are no error but that of a run that isn't there,
// and no panic.
func TestInspectEndingRuns(t *testing.T) {
	over := make(chan struct{})
	looks := 0
	go func() {
		defer close(over)
		for range 10 {
			if _, err := Run(context.Background(), config(TransportShm, 2, launchtest.Scenario(4, 1, ""))); err != nil {
				t.Error(err)
			}
		}
	}()
	for {
		select {
		case <-over:
			if looks == 0 {
				t.Error("no run was ever seen")
			}
			return
		default:
		}
		live, err := inspect.Process(os.Getpid())
		if err != nil && !errors.Is(err, inspect.ErrNoRun) {
			t.Fatal(err)
		}
		if err == nil && len(live.Workers) > 0 {
			looks++
		}
	}
}
