// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// A run that is stopped has the results of one worker up to the same time, whatever the workers promise each other and
// however small their rings are: also where the first worker waits for nobody, and each is slower than the one before.
func TestStopOfUnequalWorkers(t *testing.T) {
	text := launchtest.StreamScenario(5, 1e6, 5000, 64, 3)
	for _, c := range []struct {
		transport, sync string
		workers         int
	}{
		{TransportShm, worker.SyncLink, 5},
		{TransportShm, worker.SyncLane, 3},
		{TransportInproc, worker.SyncLink, 3},
		{TransportInproc, worker.SyncLane, 5},
	} {
		t.Run(fmt.Sprintf("%s/%s/%d", c.transport, c.sync, c.workers), func(t *testing.T) {
			stop := make(chan struct{})
			var once sync.Once
			cfg := config(c.transport, c.workers, text)
			cfg.Tuning = worker.Tuning{Sync: c.sync, RingBytes: worker.RingBytesMin}
			cfg.Stop = stop
			began := time.Now()
			cfg.Progress = func(p Progress) {
				if p.Events > 1000 && time.Since(began) > 100*time.Millisecond {
					once.Do(func() { close(stop) })
				}
			}
			out, err := runQuick(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			stopped := out.Replications[0]
			if !out.Interrupted || stopped.Reached <= 0 {
				t.Fatalf("interrupted %v at %v", out.Interrupted, stopped.Reached)
			}
			alone := config(TransportInproc, 1, text)
			alone.Horizon = stopped.Reached
			want, err := run(t, alone)
			if err != nil {
				t.Fatal(err)
			}
			if want.TraceHash != stopped.TraceHash || want.Events != out.Events {
				t.Errorf("stopped at %v: %d events, trace hash %s; one worker has %d events, %s", stopped.Reached,
					out.Events, stopped.TraceHash, want.Events, want.TraceHash)
			}
		})
	}
}
