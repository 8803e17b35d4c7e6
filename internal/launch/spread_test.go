// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/worker"
)

// Replications give the same results, hashes and trace whether each is simulated by one
// worker or by all, and whoever simulates which.
func TestSpreadReplications(t *testing.T) {
	var want string
	for _, workers := range []int{1, 2, 3, 8} {
		for _, spread := range []string{SpreadNodes, SpreadReplications} {
			for _, transport := range everywhere() {
				cfg := config(transport, workers, launchtest.Scenario(6, 30, ""))
				cfg.Replications, cfg.Spread, cfg.Partition = 7, spread, ""
				cfg.Trace = filepath.Join(t.TempDir(), "trace")
				got := answer(t, cfg)
				trace, err := os.ReadFile(cfg.Trace)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Count(trace, []byte("# replication ")) != cfg.Replications {
					t.Errorf("the trace has no heading for each of %d replications", cfg.Replications)
				}
				if got += string(trace); want == "" {
					want = got
				}
				if got != want {
					t.Errorf("%d workers, %s, %s: the answer is another one", workers, spread, transport)
				}
			}
		}
	}
	nothingLeft(t, t.TempDir())
}

// Each process is told what its share of the nodes is expected to take of its heap; of several workers in one process
// the first one is told all of it, and nobody is where nodes may leave memory.
func TestHeapBytes(t *testing.T) {
	shares := func(transport string, workers int, resident int64) (bytes []int64, sum int64) {
		cfg := config(transport, workers, "model: phold\nlps: 1000\nlookahead: 1\nend: 2\n")
		cfg.Tuning.Resident = resident
		l, err := Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ws := &workerSet{launch: l, index: 0, plan: l.planOf(0)}
		for w := range workers {
			bytes = append(bytes, ws.setup(w).Setup.HeapBytes)
			sum += bytes[w]
		}
		return bytes, sum
	}
	_, alone := shares(TransportShm, 1, 0)
	if alone < 1000*engineBytes {
		t.Fatalf("one worker's heap is expected to take %d bytes, want %d for its nodes alone", alone, 1000*engineBytes)
	}
	for _, c := range []struct {
		transport string
		resident  int64
		want      func(bytes []int64, sum int64) bool
	}{
		{TransportShm, 0, func(bytes []int64, sum int64) bool {
			return slices.Min(bytes) > sum/6 && sum > alone && sum < alone+3*processBytes
		}},
		{TransportInproc, 0, func(bytes []int64, sum int64) bool { return bytes[0] == sum && sum > alone }},
		{TransportShm, 1 << 20, func(_ []int64, sum int64) bool { return sum == 0 }},
	} {
		if bytes, sum := shares(c.transport, 3, c.resident); !c.want(bytes, sum) {
			t.Errorf("%s, %d bytes resident: %d, %d in all; one worker: %d", c.transport, c.resident, bytes, sum, alone)
		}
	}
}

// Workers are told to give their processor away while they wait where more of them wait for each other than can run at
// once: ingress threads count, workers that simulate whole replications don't.
func TestCrowded(t *testing.T) {
	for _, c := range []struct {
		workers, processors int
		ingress, spread     string
		want                bool
	}{
		{2, 2, worker.IngressDuty, SpreadNodes, false},
		{3, 2, worker.IngressDuty, SpreadNodes, true},
		{2, 2, worker.IngressGoroutine, SpreadNodes, true},
		{2, 4, worker.IngressGoroutine, SpreadNodes, false},
		{6, 2, worker.IngressDuty, SpreadReplications, false},
	} {
		cfg := config(TransportShm, c.workers, launchtest.Scenario(6, 30, ""))
		cfg.Processors, cfg.Tuning.Ingress, cfg.Replications, cfg.Spread = c.processors, c.ingress, 6, c.spread
		cfg.Partition = ""
		l, err := Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ws := &workerSet{launch: l, index: 0, plan: l.planOf(0)}
		if got := ws.setup(0).Setup.Crowded; got != c.want {
			t.Errorf("%+v: crowded %v", c, got)
		}
	}
	for _, wait := range []string{"spin", "adaptive"} {
		for processors, want := range map[int]bool{2: wait == "spin", 4: false} {
			cfg := config(TransportShm, 2, launchtest.Scenario(6, 30, ""))
			cfg.Processors, cfg.Tuning.Ingress, cfg.Tuning.Wait = processors, worker.IngressGoroutine, wait
			l, err := Prepare(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if text := l.spinsInTurn(); (text != "") != want {
				t.Errorf("--wait %s on %d processors: %q", wait, processors, text)
			}
		}
	}
	cfg := config(TransportShm, 1, launchtest.Scenario(6, 30, ""))
	cfg.Processors = -1
	if _, err := Prepare(cfg); !errors.Is(err, ErrConfig) {
		t.Errorf("-1 processors: %v", err)
	}
}

// Every worker of spread replications has a number of its own, all of them work, and
// their statistics add up.
func TestSpreadReplicationsStats(t *testing.T) {
	cfg := config(TransportShm, 3, launchtest.Scenario(6, 30, ""))
	cfg.Replications, cfg.Spread, cfg.Partition = 9, "", ""
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	sum := uint64(0)
	for i, w := range out.Workers {
		if w.Worker != i || w.Nodes != 6 || w.Sent != 0 {
			t.Errorf("worker %d: %+v", i, w)
		}
		sum += w.Events
	}
	if len(out.Workers) != 3 || sum != out.Events || tokens(t, out).Handled != sum {
		t.Errorf("%d workers with %d events, %d in all", len(out.Workers), sum, out.Events)
	}
	for i, r := range out.Replications {
		if r.Index != i || r.Interrupted {
			t.Errorf("replication %d: %+v", i, r)
		}
	}
}

// The first worker that fails ends the others.
func TestSpreadReplicationsFailure(t *testing.T) {
	for _, how := range []string{launchtest.Fail, launchtest.Panic, launchtest.Kill} {
		dir := t.TempDir()
		cfg := config(TransportShm, 3, launchtest.Scenario(4, 1e9, trouble(2, 20, how)))
		cfg.Replications, cfg.Spread, cfg.Partition = 100, SpreadReplications, ""
		cfg.Trace = filepath.Join(dir, "trace")
		_, err := run(t, cfg)
		var w *WorkerError
		if !errors.As(err, &w) || w.Worker < 0 || w.Worker > 2 {
			t.Errorf("%s: error is %v, want a WorkerError", how, err)
		}
		nothingLeft(t, dir)
	}
}

func TestWhatIsSpread(t *testing.T) {
	for _, c := range []struct {
		workers, replications int
		spread                string
		placed                bool
		want                  string // spread and number of workers, or the error
	}{
		{1, 1, "", false, "nodes 1"},
		{1, 9, "", false, "nodes 1"},
		{2, 1, "", false, "nodes 2"},
		{4, 3, "", false, "nodes 4"},
		{4, 4, "", false, "replications 4"},
		{8, 9, "", false, "replications 8"}, // more than nodes
		{8, 4, "", false, "nodes 6"},
		{4, 9, SpreadNodes, false, "nodes 4"},
		{4, 9, "", true, "nodes 4"},
		{4, 2, SpreadReplications, false, "replications 2"},
		{4, 9, SpreadReplications, true, "spread: found replications with a placement of nodes, want one of " +
			"them: whole replications have all nodes on one worker"},
		{4, 9, "threads", false, `spread: found "threads", want nodes or replications`},
	} {
		cfg := config(TransportShm, c.workers, launchtest.Scenario(6, 30, ""))
		cfg.Replications, cfg.Spread, cfg.Partition = c.replications, c.spread, ""
		if c.placed {
			cfg.Partition = partition.RoundRobin
		}
		got := ""
		if l, err := Prepare(cfg); err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Errorf("%+v: the error %v is no ErrConfig", c, err)
			}
			got = err.Error()
		} else {
			got = fmt.Sprintf("%s %d", l.Spread(), l.Workers())
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
