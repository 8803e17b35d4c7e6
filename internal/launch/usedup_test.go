// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/model/phold"
)

// A run whose memory is used up ends at a checkpoint, says for whom most is pending, and goes on from there with the
// results of one that had enough.
func TestMemoryUsedUp(t *testing.T) {
	for _, spread := range []string{SpreadNodes, SpreadReplications} {
		cfg := config("", 2, launchtest.Scenario(6, 80, trouble(1, 0, launchtest.Flood)))
		cfg.Replications, cfg.Spread, cfg.Partition = 2, spread, ""
		out, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, transport := range transports() {
			for _, saves := range []bool{true, false} {
				t.Run(fmt.Sprint(transport, " ", spread, " ", saves), func(t *testing.T) {
					cfg := cfg
					cfg.Transport = transport
					testMemoryUsedUp(t, cfg, saves, text(t, out))
				})
			}
		}
	}
}

func testMemoryUsedUp(t *testing.T, cfg Config, saves bool, want string) {
	if saves {
		cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Keep: 9}
	}
	cfg.Memory = math.MaxInt64
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var looks atomic.Int64 // by whoever leads a set, too
	share := int64(900)
	if !saves {
		share = 990
	}
	l.memory.used = func() (int64, int64) {
		if looks.Add(1) < 3 {
			return 400 << 20, 600 << 20
		}
		return share << 20, (1000 - share) << 20
	}
	out, err := l.Run(context.Background())
	var full *MemoryError
	if !errors.As(err, &full) || out == nil || !out.Interrupted || !out.Full || full.Allowed ||
		!(full.Epoch > 0) || full.Pending == 0 || len(full.Largest) == 0 || full.Largest[0].Simproc != "n1/token" ||
		!strings.Contains(err.Error(), "most of them for n1/token ") {
		t.Fatalf("found %v, want the end of memory, and most for n1/token", err)
	}
	if saves {
		resumesAs(t, cfg, want)
	}
}

// resumesAs goes on from the last checkpoint with another number of workers.
func resumesAs(t *testing.T, cfg Config, want string) {
	t.Helper()
	var err error
	if cfg.Resume, err = ResumeAt(t.Context(), cfg.Checkpoint.Repo, "latest"); err != nil {
		t.Fatal(err)
	}
	if cfg.Resume.from(0) == nil {
		t.Error("found no checkpoint")
	}
	cfg.Workers, cfg.Progress = 1, nil
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, out); got != want {
		t.Errorf("resumed: found\n%s, want\n%s", got, want)
	}
}

// saveIn has a run make checkpoints in a directory, each so many seconds, 0: none but at its end.
func saveIn(dir string, every float64, cfg Config, l *Launch) (*Launch, error) {
	repo, err := checkpoint.Create(context.Background(), checkpoint.NewDir(dir), checkpoint.Run{Disco: "test",
		Kind: "test", Text: cfg.Text, Replications: cfg.Replications, Seed: cfg.Seed, Horizon: l.Scenario().Horizon(),
		Nodes: int64(l.Structure().NumNodes()), Simprocs: int64(l.Structure().NumSimprocs()), GroupNodes: 2})
	if err != nil {
		return nil, err
	}
	cfg.Checkpoint = &Checkpoint{Repo: repo, Keep: 1, Every: every}
	return Prepare(cfg)
}

// A run with checkpoints isn't killed by the kernel in a control group that has too little memory for a copy of what is
// pending: it ends by itself, or comes to its end. It comes to its end where the group has twice the memory that the
// run takes without checkpoints, and what memory.go says that a checkpoint takes.
func TestCheckpointsInGroup(t *testing.T) {
	if testing.Short() || race.Enabled || invariants.Enabled {
		t.Skip("the memory of the plain build is what is looked at; half a minute")
	}
	for _, p := range []phold.Params{
		{LPs: 64, Events: 40, Payload: 60000, Remote: 0.5, Lookahead: 0.5, End: 3, RNG: phold.Default},
		{LPs: 1000, Events: 400, Payload: 64, Remote: 0.5, Lookahead: 0.5, End: 3, RNG: phold.Default},
	} {
		for workers := 1; workers <= 2; workers++ {
			r := groupRun{Workers: workers, Text: string(p.YAML())}
			hash, peak := newMemoryGroup(t).run(t, r, 0)
			for _, share := range []float64{1.5, 2} {
				r.Store, r.Every = filepath.Join(t.TempDir(), "store"), 0.5
				limit := int64(share * float64(peak))
				if share == 2 {
					limit += int64(p.LPs*p.Events)*savedEntryBytes + int64(workers)*savingBytes
				}
				out, err := newMemoryGroup(t).start(t, r, limit).CombinedOutput()
				got := string(out)
				ended := share < 2 && strings.Contains(got, "memory: the run took ") && !strings.Contains(got, "killed")
				t.Logf("%d events with %d bytes, %d workers, %.1f of %d MiB: %v, %s", p.Events, p.Payload, workers,
					share, peak>>20, err, got)
				if got != hash && !ended {
					t.Errorf("found %v, want the trace hash %s, or an end by itself", err, hash)
				}
			}
		}
	}
}

// A run in a control group that has too little memory for what becomes pending ends at a checkpoint, and the kernel
// kills nothing.
func TestMemoryOfGroupUsedUp(t *testing.T) {
	if testing.Short() {
		t.Skip("15 s")
	}
	text := launchtest.Scenario(6, 2000, trouble(1, 0, launchtest.Flood))
	store := filepath.Join(t.TempDir(), "store")
	g := newMemoryGroup(t)
	err := g.fails(t, groupRun{Workers: 2, Text: text, Store: store}, 200<<20)
	if !strings.Contains(err, "memory: the run took ") || !strings.Contains(err, "n1/token") {
		t.Fatalf("it says %s, want the end of memory", err)
	}
	t.Log(err)
	repo, errOpen := checkpoint.Open(t.Context(), checkpoint.NewDir(store))
	if errOpen != nil {
		t.Fatal(errOpen)
	}
	points, errPoints := repo.Points(t.Context())
	if errPoints != nil || len(points) != 1 || !(points[0].Epoch > 0) {
		t.Fatalf("found the checkpoints %v, %v; want one", points, errPoints)
	}
}

// A run is ended at the shares that are named, and a larger one where it was expected to take more.
func TestMemoryShares(t *testing.T) {
	for _, c := range []struct {
		allowed, used, available int64
		expected                 float64
		saves, ends              bool
	}{
		{1000, 799, 9000, 0, true, false}, {1000, 800, 9000, 0, true, true},
		{1000, 949, 9000, 0, false, false}, {1000, 950, 9000, 0, false, true},
		{0, 979, 21, 0, false, false}, {0, 980, 20, 0, false, true}, {0, 799, 201, 0, true, false},
		{0, 800, 200, 0, true, true}, {5000, 980, 20, 0, false, true}, // more is allowed than there is
		{1000, 899, 9000, 800, true, false}, {1000, 900, 9000, 800, true, true}, {1000, 960, 9000, 990, true, true},
	} {
		l := &Launch{cfg: Config{Memory: c.allowed}, placement: &partition.Partition{}}
		if c.saves {
			l.cfg.Checkpoint = &Checkpoint{}
		}
		m := newMemory(l, c.expected)
		m.used = func() (int64, int64) { return c.used, c.available }
		if e, left := m.check(nil); (e != nil) != c.ends || (left <= 0) != c.ends {
			t.Errorf("%+v: found %v", c, e)
		}
	}
}

// Memory is looked at before all that is left can be taken, ten times a second at most and once at least.
func TestNextLook(t *testing.T) {
	rate := float64(takenAtMost) * float64(runtime.NumCPU())
	for _, c := range []struct {
		left float64
		want time.Duration
	}{{0, memoryEvery}, {-1, memoryEvery}, {rate / 100, memoryEvery}, {rate / 2, time.Second / 2}, {rate, time.Second},
		{10 * rate, memoryMost}, {math.Inf(1), memoryMost}} {
		if got := nextLook(c.left); got != c.want {
			t.Errorf("with %v bytes left: after %v, want %v", c.left, got, c.want)
		}
	}
}
