// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

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

// A run that is looked at again and again shows what has changed since the look before, in workers and lanes, and its
// end.
func TestLive(t *testing.T) {
	stop := make(chan struct{})
	cfg := config(TransportShm, 3, launchtest.Scenario(6, 1e9, ""))
	cfg.Stop = stop
	begun := make(chan struct{})
	var once sync.Once
	cfg.Progress = func(p Progress) {
		if p.Events > 1000 {
			once.Do(func() { close(begun) })
		}
	}
	over := make(chan error)
	go func() {
		_, err := runQuick(t, cfg)
		over <- err
	}()
	<-begun
	l, err := inspect.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if first, err := l.Look(); err != nil || first.Before != nil || first.PerSecond(0, worker.NumberEvents) != 0 {
		t.Errorf("the first look: %+v, %v", first, err)
	}
	for range 50 {
		l.Sample()
		time.Sleep(10 * time.Millisecond)
	}
	v, err := l.Look()
	if err != nil {
		t.Fatal(err)
	}
	checkView(t, v)
	close(stop)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if _, err := l.Look(); !errors.Is(err, inspect.ErrNoRun) {
		t.Errorf("behind the run: %v, want ErrNoRun", err)
	}
	if _, err := inspect.Open(os.Getpid()); !errors.Is(err, inspect.ErrNoRun) {
		t.Errorf("opened behind the run: %v, want ErrNoRun", err)
	}
}

func checkView(t *testing.T, v *inspect.View) {
	t.Helper()
	if v.Seconds < 0.5 || v.Age <= 0 || v.Scenario != "tiny.yml" || len(v.Workers) != 3 || len(v.Shares) != 3 {
		t.Fatalf("found %+v, want a run of tiny.yml with 3 workers", v)
	}
	for i := range v.Workers {
		s := v.Shares[i]
		sum := s.Busy + s.Blocked + s.Room + s.Outside
		if v.PerSecond(i, worker.NumberEvents) <= 0 || v.CPU(i) < 0 || sum <= 0 || sum > 1.000001 || s.Parked > 1 {
			t.Errorf("worker %d: %v events/s, CPU %v, shares %+v", i, v.PerSecond(i, worker.NumberEvents), v.CPU(i), s)
		}
	}
	moved := 0.0
	for _, lane := range v.Lanes {
		moved += lane.PerSecond
		if lane.From == lane.To || lane.From > 2 || lane.To > 2 || lane.Held < 0 || lane.Held > lane.Capacity {
			t.Errorf("found the lane %+v", lane)
		}
	}
	if len(v.Lanes) < 2 || moved <= 0 {
		t.Errorf("found the lanes %+v, want some with traffic", v.Lanes)
	}
	if s := v.Slowest; s != nil && (s.Through < s.Directly || s.Directly < 1 || s.Handler == "") {
		t.Errorf("the slowest is %+v, want a handler", s)
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
		l, err := inspect.Open(os.Getpid())
		if err == nil {
			_, err = l.Look()
			l.Close()
		}
		if err != nil && !errors.Is(err, inspect.ErrNoRun) {
			t.Fatal(err)
		}
	}
}
