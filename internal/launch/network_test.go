// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/child/childtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// phases are steps of the protocol, and how often each is passed before the one that is meant.
var phases = []struct {
	point string
	skip  int
}{
	{"started", 0},
	{"sent, waiting for " + worker.TypeReady.String(), 0},
	{"sent, waiting for " + worker.TypeReady.String(), 1},
	{"sent, waiting for " + worker.TypeDone.String(), 0},
	{"sent, waiting for " + worker.TypeReady.String(), 2},
	{"sent, waiting for " + worker.TypeDone.String(), 1},
}

// Connections that end or fall silent at any message, and messages that come late, change nothing.
func TestFaultyNetwork(t *testing.T) {
	cfg := example(t, "phold.yml", 8, "lps=24")
	want, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		machines int
		sync     string
		small    bool
		network  childtest.Network
	}{
		{2, worker.SyncLane, false, childtest.Network{Faults: 10}},
		{3, worker.SyncLink, false, childtest.Network{Faults: 20}},
		{3, worker.SyncLane, true, childtest.Network{Faults: 20, DelayMax: time.Millisecond}},
		{2, worker.SyncLink, true, childtest.Network{Faults: 10, DelayMax: time.Millisecond}},
	} {
		if testing.Short() && i%2 == 0 {
			continue
		}
		var said lines
		cfg := cfg
		cfg.Workers, cfg.Stderr = 3, &said
		if c.small {
			cfg.Tuning, cfg.BridgeBytes = smallest, 1
		}
		cfg.Tuning.Sync = c.sync
		c.network.Seed, c.network.PeerTimeout = uint64(i), 200*time.Millisecond
		p := startChild(t, cfg, childtest.Options{Machines: c.machines, Network: c.network})
		cfg.Machines = p
		sameHash(t, cfg, want)
		p.Close()
		if !strings.Contains(said.String(), childtest.AgainText) {
			t.Errorf("%+v: no connection was made again", c.network)
		}
	}
	nothingLeft(t, t.TempDir())
}

// All connections end at once, in any phase, and others take their places: nothing changes.
func TestCutInEveryPhase(t *testing.T) {
	cfg := config(TransportShm, 3, launchtest.Scenario(6, 20, ""))
	cfg.Replications = 2
	want, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range phases {
		t.Run(fmt.Sprintf("%s %d", at.point, at.skip), func(t *testing.T) {
			cfg, skip := cfg, at.skip
			var said lines
			cfg.Stderr = &said
			p := startChild(t, cfg, childtest.Options{Machines: 3})
			defer p.Close()
			cfg.Machines = p
			got, err := runWithSteps(t, cfg, func(_ *supervisor, point string) {
				if point != at.point {
					return
				}
				if skip--; skip == -1 {
					signalChild(t, childtest.Interrupt)
				}
			})
			if err != nil || got.TraceHash != want.TraceHash {
				t.Errorf("%+v, %v; want the hash %s", got, err, want.TraceHash)
			}
		})
	}
}

// signalChild sends a signal to the one child of these tests.
func signalChild(t *testing.T, s syscall.Signal) {
	t.Helper()
	for _, pid := range children(t, os.Getpid()) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Error(err)
		}
	}
}

// A machine that can't be reached for longer than the window ends the run, in any phase, with its name, and nothing is
// left.
func TestIsolatedInEveryPhase(t *testing.T) {
	for _, at := range phases {
		t.Run(fmt.Sprintf("%s %d", at.point, at.skip), func(t *testing.T) {
			skip := at.skip
			cfg := config(TransportShm, 3, launchtest.Scenario(6, 100, "")) // which needs the network all the time
			cfg.Replications = 2
			p := startChild(t, cfg, childtest.Options{Machines: 3, Network: childtest.Network{
				Window: 500 * time.Millisecond}})
			defer p.Close()
			cfg.Machines = p
			_, err := runWithSteps(t, cfg, func(s *supervisor, point string) {
				if point != at.point {
					return
				}
				if skip--; skip == -1 {
					signalChild(t, childtest.Isolate)
				}
			})
			var w *WorkerError
			if !errors.As(err, &w) || !w.Lost || w.Died || len(w.Others) > 0 ||
				!strings.Contains(err.Error(), "h2") || !strings.Contains(err.Error(), ": no connection for ") {
				t.Errorf("error is %v, want that h2 was lost", err)
			}
		})
	}
	nothingLeft(t, t.TempDir())
}
