// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/worker"
)

// A terabyte of pools is refused before anything is started, with what to do about it.
func TestLimits(t *testing.T) {
	tuning := worker.DefaultTuning()
	if err := checkLimits(TransportShm, 1, 2, tuning); err != nil {
		t.Errorf("two workers: %v", err)
	}
	tuning.PoolBytes = worker.PoolBytesMax
	err := checkLimits(TransportInproc, 1, WorkersMax, tuning)
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "MiB are available: use fewer workers") {
		t.Errorf("%v, want a refusal that says what to do", err)
	}
}

// What can't be started leaves nothing behind, and no panic.
func TestTeamThatFails(t *testing.T) {
	l, err := Prepare(Config{File: "t.yml", Text: []byte("model: tiny\nhorizon: 1\nnodes: 2\n"), Registry: kinds(),
		Workers: 1, Replications: 1, Transport: TransportInproc})
	if err != nil {
		t.Fatal(err)
	}
	l.cfg.Trace = "/nowhere/at/all/trace" // gone since Prepare looked
	if _, err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "/nowhere/at/all") {
		t.Errorf("%v, want an error about the trace's folder", err)
	}
}
