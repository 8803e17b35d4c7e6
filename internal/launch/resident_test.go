// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"testing"

	"github.com/disco-sim/disco/internal/child/childtest"
	"github.com/disco-sim/disco/internal/worker"
)

// checkLeft checks that nodes have left memory, where a worker had more than one, and that no more came back than had
// left.
func checkLeft(t *testing.T, out *Outcome) {
	t.Helper()
	var left, came uint64
	several := false
	for _, w := range out.Workers {
		left, came, several = left+w.Left, came+w.Came, several || w.Nodes > 1
	}
	if several && (left == 0 || came == 0) || came > left {
		t.Errorf("%d nodes left memory and %d came back, want some, and no more than left", left, came)
	}
}

// Where next to nothing may stay in memory, all kinds of models give what they give with all nodes there.
func TestResidentOfKinds(t *testing.T) {
	for i, c := range examples {
		cfg := example(t, c.file, c.horizon, c.set)
		want, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for workers := 1; workers <= 4; workers++ {
			for j, transport := range []string{TransportShm, TransportInproc} {
				if (i+j+workers)%2 != 0 || testing.Short() && (i+workers)%3 != 0 { // any two still meet
					continue
				}
				cfg.Workers, cfg.Transport = workers, transport
				cfg.Tuning = worker.Tuning{}
				if (i/2+j)%2 == 0 {
					cfg.Tuning = smallest
				}
				cfg.Tuning.Sync = []string{worker.SyncLane, worker.SyncLink}[(i+workers/2)%2]
				cfg.Tuning.Resident = 1
				out, err := run(t, cfg)
				if err != nil {
					t.Fatalf("%s, %d workers, %s: %v", c.file, workers, transport, err)
				}
				if out.TraceHash != want.TraceHash || out.Events != want.Events {
					t.Errorf("%s, %d workers, %s: another hash, or other events", c.file, workers, transport)
				}
				checkLeft(t, out)
			}
		}
	}
}

// Checkpoints have the nodes that aren't in memory, too, and runs go on from them with as little memory.
func TestResidentAndResume(t *testing.T) {
	for _, transport := range []string{TransportShm, TransportInproc} {
		checkResumes(t, transport, func(cfg *Config) { cfg.Tuning.Resident = 1 },
			func(out *Outcome) { checkLeft(t, out) })
	}
	nothingLeft(t, t.TempDir())
}

// So does a run over two machines.
func TestResidentOverMachines(t *testing.T) {
	cfg := example(t, "shop.yml", 2, "")
	want, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Workers, cfg.Tuning.Resident = 3, 1
	cfg, end, _ := joined(t, cfg, childtest.Options{Machines: 2})
	defer end()
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if out.TraceHash != want.TraceHash || out.Events != want.Events {
		t.Errorf("another hash, or other events")
	}
	checkLeft(t, out)
}
