// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// A worker that writes random bytes over its lanes, again and again, costs the run, and
// nothing else: a worker reports which lane is damaged and where, no survivor crashes or
// hangs, and nothing is left.
func TestWorkerThatOverwritesLanes(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for _, workers := range []int{2, 4} {
		for _, part := range []string{"lane", "promise", "return"} {
			for round := range rounds {
				cfg := hostileConfig(t, workers, part, round, 1e9)
				began := time.Now()
				_, err := run(t, cfg)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("the end took %v", took)
				}
				damaged(t, err)
			}
		}
	}
	nothingLeft(t, t.TempDir())
}

// hostileConfig is a run of which worker 1 overwrites some part of its memory from
// simulated second 3 on: with payloads in blocks in every other round, with an ingress
// goroutine in every fourth.
func hostileConfig(t *testing.T, workers int, part string, round int, horizon float64) Config {
	t.Helper()
	text := launchtest.Scenario(2*workers, horizon, trouble(2, 3, launchtest.Garble+part))
	if round%2 == 1 {
		text += "payload: 100000\n"
	}
	cfg := config(TransportShm, workers, text)
	if round%4 == 2 {
		cfg.Tuning.Ingress = worker.IngressGoroutine
	}
	cfg.Seed = rand.Uint64() >> 1
	if seed, err := strconv.ParseUint(os.Getenv("DISCO_SEED"), 0, 64); err == nil {
		cfg.Seed = seed
	}
	t.Logf("%d workers, %s, round %d: DISCO_SEED=%d", workers, part, round, cfg.Seed)
	return cfg
}

// damaged checks that an error is about damaged memory and not about a crash.
func damaged(t *testing.T, err error) {
	t.Helper()
	var w *WorkerError
	if !errors.As(err, &w) {
		t.Errorf("the error is %v, want a WorkerError", err)
		return
	}
	said := err.Error()
	for _, crash := range []string{"panic", "SIG", "goroutine ", "deadlock"} {
		if strings.Contains(said, crash) {
			t.Errorf("a worker crashed:\n%s", said)
			return
		}
	}
	if w.Died || !strings.Contains(said, "position") && !strings.Contains(said, "overwritten") {
		t.Errorf("the error doesn't say what is damaged:\n%s", said)
	}
}

// Bytes in a worker's own pool are its own words: its peers take the references that
// still hold, and refuse the others. A board is written anew before a worker relies on
// it, or found to be overwritten. So a run goes on to its end, or ends with what was
// found; it never crashes or hangs.
func TestWorkerThatOverwritesItsOwn(t *testing.T) {
	for _, part := range []string{"pool", "board"} {
		for round := range 4 {
			if _, err := run(t, hostileConfig(t, 2, part, round, 10)); err != nil {
				damaged(t, err)
			}
		}
	}
	nothingLeft(t, t.TempDir())
}
