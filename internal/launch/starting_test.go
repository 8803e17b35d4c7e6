// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// A worker that dies while others are only being started, or another worker set's memory is made,
// ends the start, and is named.
func TestDeathWhileStarting(t *testing.T) {
	for _, spread := range []string{SpreadNodes, SpreadReplications} {
		cfg := config(TransportShm, 16, launchtest.Scenario(16, 1e9, ""))
		cfg.Partition, cfg.Spread, cfg.Replications = "", spread, 16
		cfg.Tuning.RingBytes, cfg.Tuning.PoolBytes = 4<<10, 64<<10
		killed := make(chan int, 1)
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		go func() {
			for ctx.Err() == nil {
				if pids := children(t, os.Getpid()); len(pids) > 0 {
					_ = syscall.Kill(pids[0], syscall.SIGKILL)
					killed <- pids[0]
					return
				}
			}
		}()
		_, err := Run(ctx, cfg)
		cancel()
		var w *WorkerError
		if !errors.As(err, &w) || !w.Died || !strings.Contains(w.Status, "SIGKILL") {
			t.Errorf("%s: error is %v, want the death of a worker by SIGKILL", spread, err)
		}
		<-killed
	}
	nothingLeft(t, t.TempDir())
}

// A run that is to stop while its memory is made, or its workers are started, has simulated
// nothing; one whose context has ended fails.
func TestStopWhileStarting(t *testing.T) {
	for _, transport := range transports() {
		stop := make(chan struct{})
		close(stop)
		cfg := config(transport, 4, launchtest.Scenario(4, 1e9, ""))
		cfg.Stop = stop
		out, err := run(t, cfg)
		if err != nil || !out.Interrupted || len(out.Replications) != 0 || out.Summary != nil {
			t.Errorf("%s: %+v, %v", transport, out, err)
		}
		cfg.Stop = nil
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := Run(ctx, cfg); !errors.Is(err, ErrEnded) {
			t.Errorf("%s: error is %v, want ErrEnded", transport, err)
		}
	}
	nothingLeft(t, t.TempDir())
}

// A run that is stopped before anything was simulated, in whatever phase, leaves the trace file as it was.
func TestStopBeforeAnythingLeavesTrace(t *testing.T) {
	for _, transport := range everywhere() {
		for _, point := range []string{"started", "sent, waiting for " + worker.TypeReady.String(),
			"received " + worker.TypeReady.String()} {
			name := filepath.Join(t.TempDir(), "trace.txt")
			if err := os.WriteFile(name, []byte("before"), 0o644); err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			var once sync.Once
			cfg := config(transport, 2, launchtest.Scenario(4, 1e9, ""))
			cfg.Stop, cfg.Trace = stop, name
			out, err := runWithSteps(t, cfg, func(_ *supervisor, at string) {
				if at == point {
					once.Do(func() { close(stop) })
				}
			})
			if err != nil || !out.Interrupted || len(out.Replications) != 0 {
				t.Errorf("%s, %s: %+v, %v", transport, point, out, err)
			}
			if text, err := os.ReadFile(name); err != nil || string(text) != "before" {
				t.Errorf("%s, %s: the trace file has %q, %v", transport, point, text, err)
			}
		}
	}
}

// Workers that are goroutines have one CPU time: the first has that of all.
func TestCPUOfGoroutines(t *testing.T) {
	out, err := run(t, config(TransportInproc, 3, launchtest.Scenario(6, 500, "")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range out.Workers {
		if (w.CPUSeconds > 0) != (w.Worker == 0) {
			t.Errorf("worker %d used %v s of CPU", w.Worker, w.CPUSeconds)
		}
	}
}
