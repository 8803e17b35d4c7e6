// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/child/childtest"
	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/placement"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// Every kind of model gives the same trace hash with its workers elsewhere, however many they are.
func TestSameHashElsewhere(t *testing.T) {
	for _, c := range []struct {
		file    string
		horizon float64
	}{{"shop.yml", 3}, {"backbone.yml", 0.02}, {"phold.yml", 2}} {
		file := filepath.Join("..", "..", "examples", c.file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cfg := config(TransportShm, 1, string(text))
		cfg.File, cfg.Horizon, cfg.Partition = file, c.horizon, partition.MinCut
		want, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, workers := range []int{1, 2, 3, 5} {
			cfg.Transport, cfg.Workers = away, workers
			got, err := run(t, cfg)
			if err != nil || got.TraceHash != want.TraceHash || want.TraceHash == "" || got.Events != want.Events {
				t.Errorf("%s, %d workers: hash %q, want %q (%v)", c.file, workers, got.TraceHash, want.TraceHash, err)
			}
		}
	}
	nothingLeft(t, t.TempDir())
}

// A child that is killed, in any phase, ends the run with what has happened to it, and all workers.
func TestChildKilledInEveryPhase(t *testing.T) {
	ready, done := worker.TypeReady.String(), worker.TypeDone.String()
	for _, c := range []struct {
		point string
		skip  int // how often the point is passed before
	}{
		{"started", 0},
		{"sent, waiting for " + ready, 0},
		{"received " + ready, 0},
		{"sent, waiting for " + ready, 1},
		{"sent, waiting for " + done, 0},
		{"sent, waiting for " + done, 1},
	} {
		t.Run(fmt.Sprintf("%s %d", c.point, c.skip), func(t *testing.T) {
			dir := t.TempDir()
			cfg := config(away, 3, launchtest.Scenario(6, 1e9, ""))
			cfg.Replications, cfg.Trace, cfg.Profiles = 2, filepath.Join(dir, "trace"), dir
			if c.skip == 1 && strings.Contains(c.point, done) {
				// Parked, because workers that look for each other wait for their turns beside a load.
				cfg.Horizon, cfg.Tuning.Wait = 1000, "park"
			}
			var pids []int
			_, err := runWithSteps(t, cfg, func(_ *supervisor, at string) {
				if pids == nil { // at the first step: it takes long to find them
					pids = children(t, os.Getpid())
					pids = append(pids, children(t, pids[0])...)
				}
				if at != c.point {
					return
				}
				if c.skip--; c.skip == -1 {
					if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
						t.Error(err)
					}
				}
			})
			var w *WorkerError
			if !errors.As(err, &w) || !w.Lost || w.Machine != childtest.Name || len(w.Others) > 0 ||
				!strings.Contains(err.Error(), "ended too early: killed by SIGKILL") {
				t.Errorf("error is %v, want the death of the child by SIGKILL", err)
			}
			allEnd(t, pids)
			nothingLeft(t, dir)
		})
	}
}

// allEnd waits until processes have ended, whoever reaps them.
func allEnd(t *testing.T, pids []int) {
	t.Helper()
	if len(pids) == 0 {
		t.Error("no process was seen")
	}
	for _, pid := range pids {
		until(t, fmt.Sprintf("the end of process %d", pid), func() bool {
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
	}
}

// awayEnv marks a process of these tests that is the launcher of a run without end, whose workers are elsewhere.
const awayEnv = "DISCO_TEST_AWAY"

func runAway() {
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 1e9, ""))
	p, err := child.Start(child.Config{Executable: "/proc/self/exe", Workers: 2, Log: workerproc.NewLineWriter(nil)})
	if err == nil {
		cfg.Machines = p
		_, err = Run(context.Background(), cfg)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A launcher that is killed takes its child and all workers with it.
func TestLauncherKilled(t *testing.T) {
	launcher := exec.Command("/proc/self/exe")
	launcher.Env = append(os.Environ(), awayEnv+"=1")
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	until(t, "two workers", func() bool {
		pids = children(t, launcher.Process.Pid)
		if len(pids) == 1 {
			pids = append(pids, children(t, pids[0])...)
		}
		return len(pids) == 3
	})
	if err := launcher.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = launcher.Wait() // its status is that of the kill
	allEnd(t, pids)
}

// A child that refuses a run is a wrong use of it, and says so.
func TestChildRefuses(t *testing.T) {
	_, err := child.Start(child.Config{Executable: "/proc/self/exe", Workers: 1,
		Args: childtest.Options{Refuses: true}.Args(),
		Log:  workerproc.NewLineWriter(nil)})
	if r := (*child.RefusedError)(nil); !errors.As(err, &r) || err.Error() != childtest.RefusesText {
		t.Errorf("error is %v", err)
	}
	if err := refused(err); !errors.Is(err, ErrConfig) {
		t.Errorf("%v is no ErrConfig", err)
	}
	nothingLeft(t, t.TempDir())
}

// A machine that is lost is the cause, once, and not what it does to workers.
func TestMachineLost(t *testing.T) {
	cfg := config(TransportShm, 3, launchtest.Scenario(6, 1e9, trouble(2, 20, launchtest.Kill)))
	p := startChild(t, cfg, childtest.Options{Loses: true})
	cfg.Machines = p
	_, err := run(t, cfg)
	p.Close()
	var w *WorkerError
	if !errors.As(err, &w) || !w.Lost || w.Died || len(w.Others) > 0 ||
		!strings.HasPrefix(err.Error(), "a machine was lost: "+childtest.LosesText) {
		t.Errorf("error is %v", err)
	}
	nothingLeft(t, t.TempDir())
}

// One child serves several runs, one after the other, of any sets.
func TestOneChildForSeveralRuns(t *testing.T) {
	cfg := config(TransportShm, 3, launchtest.Scenario(6, 30, ""))
	cfg.Replications = 4
	p := startChild(t, cfg, childtest.Options{Machines: 2})
	defer p.Close()
	hash := ""
	for i, spread := range []string{SpreadNodes, SpreadReplications, SpreadNodes} {
		cfg.Spread, cfg.Partition, cfg.Machines = spread, "", p
		if i == 2 {
			cfg.Workers = 1
		}
		out, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if hash == "" {
			hash = out.TraceHash
		}
		if out.TraceHash != hash {
			t.Errorf("run %d: hash %s, want %s", i, out.TraceHash, hash)
		}
	}
}

// What the workers elsewhere show is found at the launcher.
func TestInspectElsewhere(t *testing.T) {
	stop := make(chan struct{})
	cfg := config(over2, 2, launchtest.Scenario(4, 1e9, ""))
	cfg.Stop = stop
	seen := false
	cfg.Progress = func(p Progress) {
		if p.Events < 1000 || seen {
			return
		}
		seen = true
		defer close(stop)
		live, err := inspect.Process(os.Getpid())
		if err != nil || len(live.Workers) != 2 {
			t.Errorf("%+v, %v", live, err)
			return
		}
		if n := live.Workers[0].Number(worker.NumberEvents) + live.Workers[1].Number(worker.NumberEvents); n < 1000 {
			t.Errorf("%v events on the boards, want at least 1000", n)
		}
	}
	if out, err := runQuick(t, cfg); err != nil || !out.Interrupted || !seen {
		t.Errorf("%+v, %v", out, err)
	}
}

// Ending a run at once, and a child that doesn't take part any more, leaves nothing.
func TestStoppedChild(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 1e9, ""))
	p := startChild(t, cfg, childtest.Options{Machines: 2})
	cfg.Machines = p
	pids := children(t, os.Getpid())
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.onStep = func(_ *supervisor, at string) {
		if at == "sent, waiting for "+worker.TypeDone.String() {
			for _, pid := range pids {
				pids = append(pids, children(t, pid)...)
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Error(err)
				}
			}
			cancel()
		}
	}
	l.timeouts.killed = 100 * time.Millisecond // it can't kill them
	if _, err := l.Run(ctx); !errors.Is(err, ErrEnded) {
		t.Errorf("error is %v, want ErrEnded", err)
	}
	p.Close()
	allEnd(t, pids)
	nothingLeft(t, t.TempDir())
}

// three machines have two slots and one processor each.
var three = childtest.Options{Machines: 3, Slots: 2, Processors: 1,
	RoundTrip: []float64{0, 1e-3, 2e-3, 1e-3, 0, 4e-3, 2e-3, 4e-3, 0}}

// More workers than slots are refused before anything is started.
func TestSlots(t *testing.T) {
	if got := fill(5, []int{2, 1, 9}); !slices.Equal(got, []int32{0, 0, 1, 2, 2}) {
		t.Errorf("machines %v", got)
	}
	if got := fill(2, []int{2, 1}); !slices.Equal(got, []int32{0, 0}) {
		t.Errorf("machines %v", got)
	}
	cfg := config(TransportShm, 7, launchtest.Scenario(8, 1, ""))
	p := startChild(t, cfg, three)
	defer p.Close()
	cfg.Machines = p
	for _, c := range []struct {
		set  func(*Config)
		text string
	}{
		{func(*Config) {}, "workers: found 7, want at most 6, the slots of the machines (h1 2, h2 2, h3 2)"},
		{func(c *Config) { c.Workers, c.Transport = 2, TransportInproc }, "transport: found inproc with machines"},
	} {
		cfg := cfg
		c.set(&cfg)
		if _, err := Prepare(cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("error is %v, want %q", err, c.text)
		}
	}
}

// Workers are numbered machine by machine, each with the nodes that were placed together, and told so.
func TestPlacedOnMachines(t *testing.T) {
	cfg := config(TransportShm, 5, launchtest.Scenario(10, 1, ""))
	alone, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := startChild(t, cfg, three)
	defer p.Close()
	cfg.Machines = p
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if l.Processors() != 3 {
		t.Errorf("%d processors", l.Processors())
	}
	number := map[int32]int32{} // by the worker that it is without machines
	for n, before := range alone.placement.Of {
		now := l.placement.Of[n]
		if w, ok := number[before]; ok && w != now {
			t.Errorf("node %d is on worker %d, others of the same on %d", n, now, w)
		}
		number[before] = now
		if alone.placement.Nodes[before] != l.placement.Nodes[now] ||
			alone.placement.Work[before] != l.placement.Work[now] {
			t.Errorf("worker %d has the figures of another one", now)
		}
	}
	count := map[int32]int{}
	for _, m := range l.plan.Machine {
		count[m]++
	}
	if !slices.IsSorted(l.plan.Machine) || count[0] > 2 || count[1] > 2 || count[2] > 2 || len(number) != 5 ||
		len(l.machinesText) == 0 {
		t.Errorf("machines %v, workers %v, %q", l.plan.Machine, number, l.machinesText)
	}
	if err := l.plan.Check(); err != nil {
		t.Error(err)
	}
	ws := &workerSet{launch: l, plan: l.planOf(0)}
	for w := range l.plan.Machine {
		setup := ws.setup(w).Setup
		if setup.Delay != 4e-3 || !setup.Crowded || !slices.Equal(setup.Machine, l.plan.Machine) {
			t.Errorf("worker %d: %+v", w, setup)
		}
	}
	cfg.Pins = placement.Of([]string{l.structure.NodeName(0)}, []int{4}) // then machines are filled in order
	l, err = Prepare(cfg)
	if err != nil || l.placement.Of[0] != 4 || !slices.Equal(l.plan.Machine, []int32{0, 0, 1, 1, 2}) ||
		!strings.Contains(strings.Join(l.machinesText, "; "), "5 workers on 3 of 3 machines; ") {
		t.Errorf("placed as asked: %v, %+v", err, l)
	}
	cfg.Spread, cfg.Partition, cfg.Replications, cfg.Pins = SpreadReplications, "", 9, nil
	if l, err = Prepare(cfg); err != nil {
		t.Fatal(err)
	}
	var machines []int32
	for i := range l.sets {
		plan := l.planOf(i)
		machines = append(machines, plan.Machine...)
		if err := plan.Check(); err != nil || plan.First != i {
			t.Errorf("set %d: %+v, %v", i, plan, err)
		}
	}
	if !slices.Equal(machines, []int32{0, 0, 1, 1, 2}) {
		t.Errorf("sets on machines %v", machines)
	}
}

// Where round trips would take most of the time, fewer machines get workers, and the run says why; with another
// partition, all of them do.
func TestFewerMachines(t *testing.T) {
	cfg := example(t, "phold.yml", 8, "lps=24")
	want, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for method, workers := range map[partition.Method]int{partition.MinCut: 1, partition.Block: 2} {
		var said lines
		cfg.Workers, cfg.Partition, cfg.Stderr = 2, method, &said
		p := startChild(t, cfg, childtest.Options{Machines: 2, Slots: 1, RoundTrip: []float64{0, 0.1, 0.1, 0}})
		cfg.Machines = p
		l, err := Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if l.Workers() != workers || len(l.plan.Machine) != workers {
			t.Errorf("%s: %d workers on machines %v, want %d", method, l.Workers(), l.plan.Machine, workers)
		}
		sameHash(t, cfg, want)
		p.Close()
		if fewer := workers < 2; fewer != strings.Contains(said.String(), "not 2 on 2, ") {
			t.Errorf("%s: it said %s", method, said.String())
		}
	}
	nothingLeft(t, t.TempDir())
}

// A disk that is full ends the run with what has happened, wherever the worker is that writes its trace.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("NOT TESTED: this user can't mount a small disk here: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	for _, transport := range everywhere() {
		cfg := config(transport, 2, launchtest.Scenario(4, 300, ""))
		cfg.Trace = filepath.Join(dir, "trace")
		_, err := run(t, cfg)
		// Of a worker elsewhere the child writes what has come, and can't go on.
		var w *WorkerError
		elsewhere, text := machinesOf(transport) > 0, "temporary file for"
		if elsewhere {
			text = "trace of worker"
		}
		if !errors.As(err, &w) || w.Died || w.Lost != elsewhere || (w.Machine != "") != elsewhere ||
			!strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: error is %v", transport, err)
		}
		nothingLeft(t, dir)
	}
}
