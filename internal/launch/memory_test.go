// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/worker"
)

// A terabyte of pools on the heap is refused before anything is started, with what to do about it.
func TestLimits(t *testing.T) {
	tuning := worker.DefaultTuning()
	check := func(transport string, workers int) error {
		even := make([][]float64, workers)
		for from := range even {
			even[from] = slices.Repeat([]float64{1}, workers)
			even[from][from] = 0
		}
		plan := machine.NewPlan(make([]int32, workers), even, tuning, machine.WindowBytesDefault)
		bytes, segments, err := plan.Needs(0, transport == TransportInproc)
		if err != nil {
			t.Fatal(err)
		}
		f := footprint{sets: 1, workers: workers, shared: transport == TransportShm}
		return errors.Join(new(Config).checkMemory(f.needs(false, 0, bytes)), checkFiles(workers, segments, 1))
	}
	if err := check(TransportShm, 2); err != nil {
		t.Errorf("two workers: %v", err)
	}
	tuning.PoolBytes = worker.PoolBytesMax
	if err := check(TransportShm, WorkersMax); err != nil {
		t.Errorf("pools that take memory when it is needed: %v", err)
	}
	err := check(TransportInproc, WorkersMax)
	const advice = "are available: use fewer --workers, smaller --ring-bytes"
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), advice) {
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
