// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/child/childtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// A run that is asked to end while a machine is cut off ends when that is back, with results: its workers couldn't
// answer. So does one whose progress is watched, and one that is to save its state.
func TestStopWhileCut(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"results": func(*Config) {},
		"stall":   func(cfg *Config) { cfg.Stall, cfg.EndStalled = time.Second, true },
		"checkpoint": func(cfg *Config) {
			cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, *cfg, checkpointtest.NewMem()), Keep: 100}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(TransportShm, 3, launchtest.Scenario(6, 1e9, ""))
			change(&cfg)
			stop := make(chan struct{})
			cfg.Stop = stop
			p := startChild(t, cfg, childtest.Options{Machines: 3, Network: childtest.Network{
				PeerTimeout: 300 * time.Millisecond}})
			defer p.Close()
			cfg.Machines = p
			cutAt := false
			cfg.Progress = func(now Progress) {
				if cutAt || now.Events < 1000 {
					return
				}
				cutAt = true
				signalChild(t, childtest.Isolate)
				time.AfterFunc(100*time.Millisecond, func() { close(stop) })
				time.AfterFunc(3*time.Second, func() { signalChild(t, childtest.Heal) })
			}
			l, err := Prepare(cfg)
			if err != nil {
				t.Fatal(err)
			}
			l.timeouts.stop = 300 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			if out, err := l.Run(ctx); err != nil || !out.Interrupted || out.Events < 1000 {
				t.Errorf("found %+v, %v, want results", out, err)
			}
		})
	}
	nothingLeft(t, t.TempDir())
}
