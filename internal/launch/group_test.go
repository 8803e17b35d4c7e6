// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/memorygroup"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/model/phold"
)

// groupEnv has the groupRun that a process of these tests is to do, in JSON.
const groupEnv = "DISCO_TEST_GROUP"

// groupRun is a run in a control group of memory.
type groupRun struct {
	Dir     string // of the group
	Workers int
	File    string // of the scenario, for what it refers to; empty: any
	Text    string
	Horizon float64 // 0: the scenario's own
	Tuning  worker.Tuning
	Store   string  // directory of checkpoints; empty: none
	Every   float64 // simulated seconds from one to the next; 0: only where it has to end
}

// runInGroup joins the group, runs, and prints the trace hash.
func runInGroup(order string) error {
	var g groupRun
	if err := json.Unmarshal([]byte(order), &g); err != nil {
		return err
	}
	if err := memorygroup.Join(g.Dir); err != nil {
		return err
	}
	cfg := config(TransportShm, g.Workers, g.Text)
	cfg.Tuning, cfg.Horizon = g.Tuning, g.Horizon
	if g.File != "" {
		cfg.File, cfg.Partition = g.File, partition.MinCut
	}
	l, err := Prepare(cfg)
	if err == nil && g.Store != "" {
		l, err = saveIn(g.Store, g.Every, cfg, l)
	}
	if err != nil {
		return err
	}
	out, err := l.Run(context.Background())
	if err == nil {
		fmt.Println(out.TraceHash)
	}
	return err
}

// memoryGroup is a control group of memory, for runs.
type memoryGroup struct{ *memorygroup.Group }

func newMemoryGroup(t *testing.T) memoryGroup {
	t.Helper()
	return memoryGroup{memorygroup.New(t)}
}

// start is a process that does a run in the group, of so many bytes; 0: as many as there are.
func (g memoryGroup) start(t *testing.T, r groupRun, limit int64) *exec.Cmd {
	t.Helper()
	if limit > 0 {
		g.Limit(limit)
	}
	r.Dir = g.Dir
	order, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), groupEnv+"="+string(order))
	return cmd
}

// fails runs in the group, which ends with an error, and returns what that says.
func (g memoryGroup) fails(t *testing.T, r groupRun, limit int64) string {
	t.Helper()
	out, err := g.start(t, r, limit).CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v: want exit status 1: %s", err, out)
	}
	return string(out)
}

// run runs in the group and returns the trace hash and the most memory that all processes had together.
func (g memoryGroup) run(t *testing.T, r groupRun, limit int64) (hash string, peak int64) {
	t.Helper()
	cmd := g.start(t, r, limit)
	var text bytes.Buffer
	cmd.Stderr = &text
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%d workers, limit %d: %v\n%s", r.Workers, limit, err, text.Bytes())
	}
	return string(out), g.Peak()
}

// The memory of a run over many workers is at most that of one, and worker.MemoryMax for each, also where every worker
// could run ahead of the next one without end; a group that allows no more lets it finish.
func TestMemoryOfRun(t *testing.T) {
	if race.Enabled || invariants.Enabled {
		t.Skip("the memory of the plain build is what is promised")
	}
	text := launchtest.StreamScenario(8, 100, 1000, 2000, 2)
	hash, one := newMemoryGroup(t).run(t, groupRun{Workers: 1, Text: text}, 0)
	t.Logf("1 worker: %d MiB", one>>20)
	for _, workers := range []int{2, 3, 8} {
		allowed := one + int64(workers)*worker.MemoryMax
		r := groupRun{Workers: workers, Text: text}
		got, peak := newMemoryGroup(t).run(t, r, 0)
		t.Logf("%d workers: %d MiB of %d", workers, peak>>20, allowed>>20)
		if got != hash || peak > allowed {
			t.Errorf("%d workers: peak of %d bytes, at most %d are allowed; trace hash %s, want %s", workers, peak,
				allowed, got, hash)
		}
		if got, _ := newMemoryGroup(t).run(t, r, allowed); got != hash {
			t.Errorf("%d workers with a limit: trace hash %s, want %s", workers, got, hash)
		}
	}
}

// So it is for events of any size, in rings, blocks and parts, whoever takes them in and whatever is promised.
func TestMemoryOfPayloads(t *testing.T) {
	if testing.Short() {
		t.Skip("15 s")
	}
	for _, c := range []struct {
		payload       int
		horizon, rate float64
		effort        int
		workers       int
		ingress, sync string
	}{
		{100, 40, 1000, 40, 16, worker.IngressGoroutine, worker.SyncLane},
		{worker.InlineMaxDefault, 8, 150, 1, 16, worker.IngressGoroutine, worker.SyncLink},
		{worker.InlineMaxDefault + 1, 8, 150, 1, 16, worker.IngressDuty, worker.SyncLane},
		{worker.InlineMaxDefault + 1, 8, 150, 1, 4, worker.IngressGoroutine, worker.SyncLink},
		{1 << 20, 4, 30, 1, 4, worker.IngressGoroutine, worker.SyncLink},
		{1 << 20, 4, 30, 1, 8, worker.IngressDuty, worker.SyncLane},
	} {
		text := launchtest.StreamScenario(16, c.horizon, c.rate, c.payload, c.effort)
		hash, one := newMemoryGroup(t).run(t, groupRun{Workers: 1, Text: text}, 0)
		allowed := one + int64(c.workers)*worker.MemoryMax
		got, peak := newMemoryGroup(t).run(t, groupRun{Workers: c.workers, Text: text,
			Tuning: worker.Tuning{Ingress: c.ingress, Sync: c.sync}}, 0)
		t.Logf("%+v: %d MiB of %d, %d on one worker", c, peak>>20, allowed>>20, one>>20)
		if got != hash || peak > allowed {
			t.Errorf("%+v: peak of %d bytes, at most %d are allowed; trace hash %s, want %s", c, peak, allowed, got,
				hash)
		}
	}
}

// So it is for models as they are, whoever takes events in and whatever is promised.
func TestMemoryOfExamples(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("30 s")
	}
	for _, c := range []struct {
		file    string
		horizon float64
		syncs   []string
	}{
		{"shop.yml", 30, []string{worker.SyncLane, worker.SyncLink}},
		{"backbone.yml", 1, []string{worker.SyncLane, worker.SyncLink}},
		{"phold.yml", 20, []string{worker.SyncLane}}, // a link between any two: docs/sync.md, "When which is better"
	} {
		file := filepath.Join("..", "..", "examples", c.file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := groupRun{Workers: 1, File: file, Text: string(text), Horizon: c.horizon}
		hash, one := newMemoryGroup(t).run(t, r, 0)
		most := int64(0) // for each worker
		for _, r.Workers = range []int{2, 5, 16} {
			for _, r.Tuning.Ingress = range []string{worker.IngressDuty, worker.IngressGoroutine} {
				for _, r.Tuning.Sync = range c.syncs {
					allowed := one + int64(r.Workers)*worker.MemoryMax
					got, peak := newMemoryGroup(t).run(t, r, allowed)
					most = max(most, (peak-one)/int64(r.Workers))
					if got != hash || peak > allowed {
						t.Errorf("%s, %d workers, %+v: peak of %d bytes, at most %d are allowed; hash %s, want %s",
							c.file, r.Workers, r.Tuning, peak, allowed, got, hash)
					}
				}
			}
		}
		t.Logf("%s: one worker %d MiB, at most %d KiB more for each of many, allowed are %d", c.file, one>>20, most>>10,
			worker.MemoryMax>>10)
	}
}

// manyMax is the most that 64 workers may take together, launcher included, where all of them send to each other and
// the scenario itself is small (docs/running.md, "Memory of a run").
const manyMax = 200_000_000

func TestMemoryOfManyWorkers(t *testing.T) {
	if race.Enabled || invariants.Enabled {
		t.Skip("the memory of the plain build is what is promised")
	}
	text := string(phold.Params{LPs: 1024, Events: 16, Remote: 0.1, Lookahead: 0.1, End: 2, RNG: phold.Default}.YAML())
	hash, _ := newMemoryGroup(t).run(t, groupRun{Workers: 1, Text: text}, 0)
	got, peak := newMemoryGroup(t).run(t, groupRun{Workers: worker.WorkersMax, Text: text}, manyMax)
	t.Logf("%d workers: %d MB of %d", worker.WorkersMax, peak/1_000_000, manyMax/1_000_000)
	if got != hash || peak > manyMax {
		t.Errorf("peak of %d bytes, at most %d are allowed; trace hash %s, want %s", peak, manyMax, got, hash)
	}
}
