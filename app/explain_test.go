// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// explainText is what explain says of a scenario.
func explainText(t *testing.T, scenario string, args ...string) (status int, text string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append([]string{"disco-run", "explain", "-"}, args...)
	status = Run(args, strings.NewReader(scenario), &stdout, &stderr, launchtest.Kind())
	return status, stdout.String() + stderr.String()
}

// Of a model that states no rates, events are those of the pilot, and without one they aren't known.
func TestExplainUnknown(t *testing.T) {
	scenario := launchtest.Scenario(4, 5, "")
	for _, c := range []struct {
		args       []string
		want, none string
	}{
		{nil, "the pilot has simulated all of it", "how many events there are"},
		{[]string{"--pilot", "0"}, "not known: how long an event takes", "as the pilot took"},
	} {
		status, text := explainText(t, scenario, c.args...)
		if status != ExitOK || !strings.Contains(text, c.want) || strings.Contains(text, c.none) {
			t.Errorf("%q: exit status %d, want %q and no %q in\n%s", c.args, status, c.want, c.none, text)
		}
	}
	if status, text := explainText(t, scenario, "--pilot", "soon"); status != ExitUsage ||
		!strings.Contains(text, "--pilot: found \"soon\"") {
		t.Errorf("exit status %d: %s", status, text)
	}
	failing := launchtest.Scenario(4, 5, "{node: 2, at: 1, how: error}")
	if status, text := explainText(t, failing); status != ExitFailed || !strings.Contains(text, "the pilot: ") {
		t.Errorf("a model that fails: exit status %d: %s", status, text)
	}
}

// What a pilot has seen goes on at the rate of its later half, and a rate that has changed is said.
func TestPilotGoesOn(t *testing.T) {
	for _, c := range []struct {
		half, events uint64
		late         float64
		changed      bool
	}{{500, 1000, 100, false}, {100, 1000, 180, true}, {550, 1000, 90, false}} {
		p := newPilot(time.Hour)
		for _, at := range []launch.Progress{{Now: 1, Events: 1}, {Now: 4.9, Events: 1}, {Now: 5, Events: c.half},
			{Now: 9, Events: c.half}} {
			p.look(at)
		}
		r := p.row(&launch.Outcome{Interrupted: true, Events: c.events,
			Replications: []launch.Replication{{Reached: 10}}})
		if r.late != c.late || r.Changed != c.changed {
			t.Errorf("%+v: %v a second, changed %v", c, r.late, r.Changed)
		}
	}
}

// An event takes what the pilot's worker has used of the processor, or the time that it took, where that is less.
func TestPilotTime(t *testing.T) {
	for _, c := range []struct{ wall, cpu, want float64 }{{8, 2, 2000}, {2, 2.5, 2000}, {3, 0, 3000}} {
		p := newPilot(time.Hour)
		out := &launch.Outcome{Events: 1e6, WallSeconds: c.wall, Workers: make([]launch.WorkerStats, 1),
			Replications: []launch.Replication{{Reached: 10}}}
		out.Workers[0].CPUSeconds = c.cpu
		e := &explanation{Horizon: 10, Pilot: p.row(out)}
		e.conclude()
		if e.EventNanos != c.want || !e.Measured {
			t.Errorf("%+v: %v ns an event", c, e.EventNanos)
		}
	}
}
