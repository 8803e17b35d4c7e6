// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/child/childtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// joined has the machines of a run for its time, and joins those that are left.
func joined(t *testing.T, cfg Config, o childtest.Options) (_ Config, end func(), lost *[]string) {
	t.Helper()
	p := startChild(t, cfg, o)
	lost = new([]string)
	cfg.Machines = p
	cfg.Rejoin = func(name string, workers int) (*child.Process, error) {
		p.Close()
		if *lost = append(*lost, name); name != "" {
			o.Machines--
		}
		c := cfg
		c.Workers = workers
		p = startChild(t, c, o)
		return p, nil
	}
	return cfg, func() { p.Close() }, lost
}

// A run over machines goes back when one of its workers dies, one of its machines, or what joins them, and ends with
// the results and the trace of one that was left alone.
func TestRecoverMachines(t *testing.T) {
	dir := t.TempDir()
	for spread, horizon := range map[string]float64{SpreadNodes: 25, SpreadReplications: 50} {
		cfg := config(TransportShm, 3, launchtest.Scenario(6, horizon, trouble(1, 0, launchtest.Slow)))
		cfg.Replications, cfg.Spread, cfg.Partition, cfg.Trace = 2, spread, "", filepath.Join(dir, "trace")
		out, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		want := text(t, out) + readTrace(t, cfg.Trace)
		for i, c := range machineFaults(t) {
			for _, saves := range []bool{true, false} {
				if saves == ((i%2 == 0) == (spread == SpreadNodes)) {
					continue // each fault meets both
				}
				t.Run(fmt.Sprint(c.what, " ", spread, " ", saves), func(t *testing.T) {
					c.test(t, cfg, saves, want)
				})
			}
		}
	}
	nothingLeft(t, dir)
}

// machineFault is what may happen to a run over machines, and with how many workers it goes on.
type machineFault struct {
	what    string
	fault   func()
	o       childtest.Options
	lost    bool // a machine
	workers int  // of 3 on which nodes are spread, or of 2 that have a replication each
	alone   int
}

func machineFaults(t *testing.T) []machineFault {
	return []machineFault{
		{"worker", func() { killFarOne(t) }, childtest.Options{Machines: 3}, false, 2, 1},
		{"machine", func() { killFarOne(t) }, childtest.Options{Machines: 3, Slots: 1, Loses: true}, true, 2, 2},
		{"child", func() { signalChild(t, syscall.SIGKILL) }, childtest.Options{Machines: 2}, false, 3, 2},
		{"network", func() { signalChild(t, childtest.Isolate) }, childtest.Options{Machines: 3, Slots: 1,
			Network: childtest.Network{Window: 300 * time.Millisecond}}, true, 2, 2},
	}
}

func (c *machineFault) test(t *testing.T, cfg Config, saves bool, want string) {
	if saves {
		cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Every: 2, Keep: 2}
	}
	workers, alone := c.workers, cfg.Spread == SpreadReplications
	if alone {
		cfg.Workers, workers = 2, c.alone
	}
	var once sync.Once
	cfg.Progress = func(p Progress) {
		if p.Now > 10 {
			once.Do(c.fault)
		}
	}
	cfg, end, names := joined(t, cfg, c.o)
	defer end()
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if alone { // one worker alone rarely shows how far it is
		l.onStep = func(_ *supervisor, at string) {
			if at == "sent, waiting for "+worker.TypeDone.String() {
				once.Do(c.fault)
			}
		}
	}
	out, err := l.RunRecovering(context.Background(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, out) + readTrace(t, cfg.Trace); got != want {
		t.Errorf("found\n%s, want\n%s", got, want)
	}
	if len(out.Recoveries) != 1 || len(*names) != 1 {
		t.Fatalf("found %+v, want one", out.Recoveries)
	}
	r := out.Recoveries[0]
	if r.Lost != (*names)[0] || (r.Lost != "") != c.lost || r.Workers != workers || r.Machines < 1 ||
		out.Launch.Workers() != workers || !(r.Seconds > 0) || !alone && r.Replication == 0 && (r.From > 0) != saves {
		t.Errorf("found %+v, want that it has lost a machine: %v, and %d workers", r, c.lost, workers)
	}
}

// killFarOne ends a worker of the child.
func killFarOne(t *testing.T) {
	t.Helper()
	var pids []int
	for _, pid := range children(t, os.Getpid()) {
		pids = append(pids, children(t, pid)...)
	}
	if len(pids) == 0 {
		t.Error("found no worker to end")
	} else if err := syscall.Kill(slices.Max(pids), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// What a machine reports itself is no reason to go back, and neither is there a way back without machines.
func TestNoWayBack(t *testing.T) {
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 1e9, trouble(2, 20, launchtest.Panic)))
	cfg, end, names := joined(t, cfg, childtest.Options{Machines: 2})
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.RunRecovering(context.Background(), 3, nil)
	if w := (*WorkerError)(nil); !errors.As(err, &w) || w.Died || w.Lost || len(*names) > 0 {
		t.Errorf("found %v and %q, want the model's error, once", err, *names)
	}
	end()
	cfg = config(TransportShm, 2, launchtest.Scenario(4, 1e9, trouble(2, 20, launchtest.Kill)))
	cfg, end, _ = joined(t, cfg, childtest.Options{Machines: 2, Loses: true})
	defer end()
	want := errors.New("nobody answers")
	cfg.Rejoin = func(string, int) (*child.Process, error) { return nil, want }
	if l, err = Prepare(cfg); err != nil {
		t.Fatal(err)
	}
	_, err = l.RunRecovering(context.Background(), 3, nil)
	if w := (*WorkerError)(nil); !errors.As(err, &w) || !w.Lost || !errors.Is(err, want) {
		t.Errorf("found %v, want the loss of a machine and that %v", err, want)
	}
}
