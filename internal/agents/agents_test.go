// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/agents/agentstest"
	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) {
	agentstest.Program()
	leaktest.Main(m)
}

// Runs over one and two machines, through forwarders with a delay, one of which holds everything back for a moment,
// have the trace hash, and the time series, of a run without agents.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	a, err := Start(Config{Program: agentstest.Install(t), Dir: t.TempDir(),
		Hosts: []string{"127.0.0.1", "127.0.0.2"}, Slots: 1, Secure: true, Front: "127.0.0.1", Output: Locked(&out)})
	if err != nil {
		t.Fatal(err)
	}
	scenario := filepath.Join(t.TempDir(), "phold.yml")
	if err := os.WriteFile(scenario, []byte("model: phold\nlps: 64\nend: 40\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var hashes, series []string
	for n := range 3 {
		var text bytes.Buffer
		dir := filepath.Join(t.TempDir(), "out")
		r, err := a.Run(ctx, n, &text, scenario, "--workers", []string{"1", "1", "2"}[n], "--partition", "block",
			"--out", dir)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := os.ReadFile(filepath.Join(dir, "series.csv"))
		if err != nil || !bytes.Contains(rows, []byte("\nevents,,events/s,0,0.2,")) {
			t.Errorf("%v: series %.200q", err, rows)
		}
		series = append(series, string(rows))
		if r.Events == 0 || r.Seconds <= 0 || !strings.Contains(text.String(), "trace hash "+r.Hash) {
			t.Errorf("%+v %s", r, text.String())
		}
		hashes = append(hashes, r.Hash)
		for _, f := range a.Forwarders {
			f.Set(forward.Traffic{Delay: 50 * time.Microsecond})
		}
	}
	if len(slices.Compact(series)) != 1 {
		t.Error("time series differ over machines")
	}
	if len(slices.Compact(slices.Clone(hashes))) != 1 {
		t.Errorf("trace hashes %q, want one", hashes)
	}
	if _, err := a.Run(ctx, 2, nil, scenario, "--workers", "3"); err == nil || !strings.Contains(err.Error(), "slots") {
		t.Errorf("more workers than slots: %v", err)
	}
	err = a.Close()
	for _, end := range []string{"h1 has ended\n", "h2 has ended\n"} {
		if err != nil || !strings.Contains(out.String(), end) {
			t.Errorf("%v, %q of %s", err, end, out.String())
		}
	}
}

// An agent that can't begin is an error with what it printed.
func TestNoAgent(t *testing.T) {
	_, err := Start(Config{Program: agentstest.Install(t), Dir: t.TempDir(), Hosts: []string{"192.0.2.1"}, Slots: 1})
	if err == nil || !strings.Contains(err.Error(), "--insecure") {
		t.Errorf("%v", err)
	}
}
