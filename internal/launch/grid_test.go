// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// tiny rings wrap all the time and are full most of it.
var grids = []struct {
	name   string
	tuning worker.Tuning
}{
	{"default", worker.Tuning{}},
	{"small", worker.Tuning{RingBytes: 1 << 10, PoolBytes: 4 << 20, BatchMax: 1, Wait: "park"}},
	{"small, by link", worker.Tuning{
		RingBytes: 1 << 10, PoolBytes: 4 << 20, BatchMax: 1, Wait: "park", Sync: worker.SyncLink,
	}},
	{"by link", worker.Tuning{Sync: worker.SyncLink}},
	{"large", worker.Tuning{RingBytes: 1 << 24, BatchMax: 4096, Wait: "yield"}},
	{"goroutine", worker.Tuning{RingBytes: 1 << 12, Ingress: worker.IngressGoroutine}},
	{"goroutine, by link", worker.Tuning{RingBytes: 1 << 12, Ingress: worker.IngressGoroutine, Sync: worker.SyncLink}},
}

// The same file and seed give the same trace hash, trace, and results for every number
// of workers, transport, ring, batch, ingress and way of waiting.
func TestSameAnswerHoweverSpread(t *testing.T) {
	for _, scenario := range []struct{ name, text string }{
		{"tiny", launchtest.Scenario(7, 30, "")},
		{"large payloads", launchtest.Scenario(5, 4, "") + "payload: 100000\n"},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			want := ""
			for _, workers := range []int{1, 2, 3, 4} {
				for _, transport := range everywhere() {
					for _, g := range grids {
						if (testing.Short() || workers != 3) && !strings.HasPrefix(g.name, "small") ||
							machinesOf(transport) > 0 && workers != 3 {
							continue // the others are about what each setting does, once is enough
						}
						cfg := config(transport, workers, scenario.text)
						cfg.Tuning, cfg.Seed, cfg.Replications = g.tuning, 42, 2
						got := answer(t, cfg)
						if want == "" {
							want = got
						}
						if got != want {
							t.Errorf("%d workers, %s, %s: the answer is another one:\n%s\nwant\n%s", workers,
								transport, g.name, got, want)
						}
					}
				}
			}
		})
	}
}

// answer is everything of a run that may not depend on how it was run.
func answer(t *testing.T, cfg Config) string {
	t.Helper()
	out, err := run(t, cfg)
	if err != nil {
		t.Fatalf("%d workers, %s: %v", cfg.Workers, cfg.Transport, err)
	}
	if out.Interrupted || out.TraceHash == "" || len(out.Replications) != cfg.Replications {
		t.Fatalf("interrupted %v, hash %q, %d replications", out.Interrupted, out.TraceHash, len(out.Replications))
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "hash %s, %d events, %d activations\n", out.TraceHash, out.Events, out.Activations)
	for _, r := range out.Replications {
		fmt.Fprintf(&text, "replication %d: %s, %d events\n", r.Index, r.TraceHash, r.Events)
	}
	if out.Replications[0].TraceHash == out.Replications[1].TraceHash {
		t.Error("both replications have the same trace")
	}
	if err := out.Summary.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// The trace file is the same for every spread, and compressed as its name says.
func TestSameTraceHoweverSpread(t *testing.T) {
	dir := t.TempDir()
	var want []byte
	for _, workers := range []int{1, 2, 4} {
		if testing.Short() && workers > 2 {
			continue
		}
		for _, transport := range everywhere() {
			cfg := config(transport, workers, launchtest.Scenario(6, 100, ""))
			cfg.Replications, cfg.Trace = 2, filepath.Join(dir, "trace.txt")
			out, err := run(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(cfg.Trace)
			if err != nil {
				t.Fatal(err)
			}
			// A line for every event, one for every node's call at epoch 0, one of the
			// replication.
			if lines := bytes.Count(got, []byte("\n")); uint64(lines) != out.Events+2*6+2 {
				t.Errorf("%d lines for %d events of 6 nodes in 2 replications", lines, out.Events)
			}
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d workers, %s: the trace is another one", workers, transport)
			}
		}
	}
}
