// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/child/childtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/model/devstone"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
	"github.com/disco-sim/disco/scenario"
)

// testTimeout bounds every wait of these tests, and how long a run may stand still. It is long because nothing is
// measured.
const testTimeout = 60 * time.Second

func TestMain(m *testing.M) {
	if child.IsChild() {
		os.Exit(childtest.Main())
	}
	if IsWorker() {
		if os.Getenv("DISCO_TEST_NO_KINDS") != "" {
			only, err := scenario.NewRegistry(service.Kind())
			if err != nil {
				panic(err)
			}
			os.Exit(Serve(only))
		}
		os.Exit(Serve(kinds()))
	}
	if order := os.Getenv(groupEnv); order != "" {
		if err := runInGroup(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(awayEnv) != "" {
		runAway()
	}
	leaktest.MainHalves(m, "^Test([A-Q]|Rebalance)")
}

func kinds() scenario.Registry {
	r, err := scenario.NewRegistry(service.Kind(), network.Kind(), queueing.Kind(), supply.Kind(), phold.Kind(),
		devstone.Kind(),
		launchtest.Kind(), launchtest.StreamKind())
	if err != nil {
		panic(err)
	}
	return r
}

// config is a run of the tiny model whose nodes are spread over so many workers, in
// their order.
func config(transport string, workers int, text string) Config {
	return Config{
		File: "tiny.yml", Text: []byte(text), Registry: kinds(),
		Workers: workers, Seed: 1, Replications: 1, Transport: transport,
		Spread: SpreadNodes, Partition: partition.Block,
	}
}

// run runs as long as the run gets on: it isn't stopped for being slow, where a machine is busy with other things.
func run(t *testing.T, cfg Config) (*Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg, done := settled(t, cfg)
	still := time.AfterFunc(testTimeout, cancel)
	defer still.Stop()
	show, last := cfg.Progress, Progress{}
	cfg.Progress = func(p Progress) {
		if p.Events != last.Events || p.Done != last.Done || p.Simulated != last.Simulated {
			last = p
			still.Reset(testTimeout)
		}
		if show != nil {
			show(p)
		}
	}
	out, err := Run(ctx, cfg)
	done()
	if ctx.Err() != nil {
		t.Fatalf("the run stood still for %v, at %+v: %v", testTimeout, last, err)
	}
	return out, err
}

// until polls a condition under the testTimeout.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, testTimeout)
		}
		time.Sleep(time.Millisecond)
	}
}

// children lists the processes that pid has started and that have not been reaped.
func children(t testing.TB, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatalf("no /proc: %v", err)
	}
	var found []int
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name in parentheses may hold anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, child)
		}
	}
	return found
}

// workers lists the processes of workers, wherever they are, and of what has started them.
func workers(t testing.TB) (pids []int) {
	t.Helper()
	for _, pid := range children(t, os.Getpid()) {
		pids = append(append(pids, pid), children(t, pid)...)
	}
	return pids
}

// nothingLeft checks that a run has left no process, no shared memory, no descriptor
// and no file in dir.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if pids := children(t, os.Getpid()); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "memfd:disco") {
			t.Errorf("shared memory is left: %s", line)
		}
	}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink(fd)
		if err != nil {
			continue // the one of Glob itself
		}
		if strings.Contains(to, "memfd:disco") || strings.HasPrefix(to, dir) || strings.HasPrefix(to, "socket:") {
			t.Errorf("descriptor %s is left: %s", fd, to)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("the file %s is left", e.Name())
	}
}

// tokens is what the tiny model has found out.
func tokens(t *testing.T, out *Outcome) *launchtest.Summary {
	t.Helper()
	s, ok := out.Summary.(*launchtest.Summary)
	if !ok {
		t.Fatalf("summary is %T", out.Summary)
	}
	return s
}

// transports are those within a machine; under the race detector, which sees nothing in mapped memory, only the one
// that has everything in one process.
func transports() []string {
	if race.Enabled {
		return []string{TransportInproc}
	}
	return []string{TransportShm, TransportInproc}
}

// Transports, in these tests, of workers on other machines, all of which are this one.
const (
	away  = "away" // on one
	over2 = "over 2 machines"
	over3 = "over 3 machines"
)

// everywhere are the transports, with workers elsewhere.
func everywhere() []string { return append(transports(), away, over2) }

// machinesOf is on how many machines that aren't this one the workers are with a transport.
func machinesOf(transport string) int {
	return slices.Index([]string{"", away, over2, over3}, transport)
}

// settled replaces the transports that aren't there by a child, which done ends.
func settled(t testing.TB, cfg Config) (_ Config, done func()) {
	n := machinesOf(cfg.Transport)
	if n < 0 {
		return cfg, func() {}
	}
	p := startChild(t, cfg, childtest.Options{Machines: n})
	cfg.Transport, cfg.Machines = TransportShm, p
	return cfg, p.Close
}

// startChild starts the child of a run.
func startChild(t testing.TB, cfg Config, o childtest.Options) *child.Process {
	t.Helper()
	p, err := child.Start(child.Config{Executable: "/proc/self/exe", Args: o.Args(), Workers: cfg.Workers,
		Log: workerproc.NewLineWriter(cfg.Stderr)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// processOf is the process of a worker, wherever it is.
func processOf(t testing.TB, c *connection) int {
	t.Helper()
	if c.pid != 0 {
		return c.pid
	}
	for _, parent := range children(t, os.Getpid()) {
		for _, pid := range children(t, parent) {
			if command := procfs.Command(pid); len(command) > 2 && command[2] == strconv.Itoa(c.number) {
				return pid
			}
		}
	}
	return 0
}

func trouble(node int, at float64, how string) string {
	return fmt.Sprintf("{node: %d, at: %g, how: %s}", node, at, how)
}
