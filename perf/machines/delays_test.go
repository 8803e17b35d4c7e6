// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/agents/agentstest"
	"github.com/disco-sim/disco/perf/bench"
	"github.com/disco-sim/disco/perf/peers"
)

// execute is the command with some flags.
func execute(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = bench.Execute(append([]string{"disco-bench", "bridge"}, args...), &out, &errs, peers.Command(), Command())
	return status, out.String(), errs.String()
}

// Each delay and lookahead is a point with its model, as text, as JSON and as a picture.
func TestDelays(t *testing.T) {
	dir := t.TempDir()
	rows, svg := filepath.Join(dir, "rows.json"), filepath.Join(dir, "curve.svg")
	status, out, errs := execute("--delays", "0,200us", "--lookaheads", "1", "--program", agentstest.Install(t),
		"--rounds", "2", "--time", "1ms", "--json", rows, "--svg", svg)
	if status != 0 {
		t.Fatalf("%d %s", status, errs)
	}
	text, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	var points []Point
	if err := json.Unmarshal(text, &points); err != nil || len(points) != 2 {
		t.Fatalf("%v %s", err, text)
	}
	for i, delay := range []float64{0, 0.0002} {
		p := points[i]
		if p.DelayS != delay || p.LookaheadS != 1 || p.Rate.Min <= 0 || p.OneWorker.Min <= 0 || p.Model <= 0 ||
			p.EventsPerSimS < 12_000 || p.EventsPerSimS > 18_000 { // none in the first second, of 4 where runs are slow
			t.Errorf("%+v", p)
		}
	}
	if picture, err := os.ReadFile(svg); err != nil || !strings.Contains(string(picture), "lookahead 1 s") ||
		!strings.Contains(out, "goal: at least 1.2 x") {
		t.Errorf("%v %s", err, out)
	}
}

// Mistakes are found before anything is started.
func TestDelaysMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		`--delays: found "-1s", want times from 0 to 1s`:   {"--delays", "-1s"},
		`--delays: found "soon", want times`:               {"--delays", "0,soon"},
		`--lookaheads: found "2", want numbers above 0`:    {"--delays", "0", "--lookaheads", "2"},
		"--lookaheads has no meaning without --delays":     {"--lookaheads", "1"},
		"--program: stat /not/there/disco-run: no such fi": {"--delays", "0", "--program", "/not/there/disco-run"},
	} {
		status, out, errs := execute(args...)
		if status != bench.ExitUsage || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%q: %d %q %q, want 2 and %q", args, status, out, errs, want)
		}
	}
}
