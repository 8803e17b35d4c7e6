// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"math"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// TestPhasesAddUp: phases follow one another, so they are no longer than the run together, and those of the
// replications are the time in which these were under way.
func TestPhasesAddUp(t *testing.T) {
	began := time.Now()
	cfg := config(TransportShm, 2, launchtest.Scenario(6, 20, ""))
	cfg.Replications = 3
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	all, p := time.Since(began).Seconds(), out.Phases
	before := p.Read + p.Compile + p.Partition + p.Write + p.Start + p.Wire
	during := p.First + p.Simulate + p.Gather
	for _, x := range []float64{p.Read, p.Compile, p.Partition, p.Write, p.Start, p.Wire, p.First, p.Results} {
		if x <= 0 {
			t.Errorf("a phase took %v s: %+v", x, p)
		}
	}
	if sum := before + during + p.Results; sum > all {
		t.Errorf("%v s together, but the run took %v: %+v", sum, all, p)
	}
	// The schedule reads the clock beside the phases: before the last of them and after the first.
	if math.Abs(during-out.WallSeconds) > 0.1 {
		t.Errorf("%v s of simulation, but wall_s is %v: %+v", during, out.WallSeconds, p)
	}
}

// TestPhasesOfWorkers: of several workers, the first event of all ends the one phase, and the last to be through the
// other.
func TestPhasesOfWorkers(t *testing.T) {
	done := func(first, wall, report float64) *worker.Message {
		return &worker.Message{Done: &worker.Done{First: first, Stats: worker.Stats{WallSeconds: wall,
			ReportSeconds: report}}}
	}
	for _, test := range []struct {
		what                    string
		answers                 []*worker.Message
		first, simulate, gather float64
	}{
		{"two", []*worker.Message{done(3, 8, 1), done(2, 9, 4)}, 2, 5, 3},
		{"one without events", []*worker.Message{done(0, 8, 1), done(4, 9, 4)}, 4, 3, 3},
		{"none has events", []*worker.Message{done(0, 8, 1)}, 7, 0, 3},
		{"a worker's clock is ahead", []*worker.Message{done(12, 14, 0)}, 10, 0, 0},
	} {
		c := &clock{since: time.Now().Add(-10 * time.Second)}
		c.simulated(test.answers)
		near := func(a, b float64) bool { return math.Abs(a-b) < 0.5 }
		if !near(c.First, test.first) || !near(c.Simulate, test.simulate) || !near(c.Gather, test.gather) {
			t.Errorf("%s: %+v, want first event %v, simulate %v, gather %v", test.what, c.Phases, test.first,
				test.simulate, test.gather)
		}
	}
}
