// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/memorygroup"
)

// explained is what explain says.
type explained struct {
	Events   float64
	EventsBy string  `json:"events_by"`
	Rates    float64 `json:"by_rates_per_simulated_s"`
	Horizon  float64 `json:"horizon_s"`
	Workers  []struct {
		Workers, Used int
		Speedup       float64
		Memory        float64 `json:"memory_bytes"`
		Limit, Change string
	}
	Lookahead *struct{ From, To string } `json:"least_lookahead"`
	Pilot     struct {
		Reached float64 `json:"reached_s"`
	}
}

func explain(t *testing.T, bin string, args ...string) *explained {
	t.Helper()
	cmd := exec.Command(bin, append([]string{"explain", "--json", "-"}, args...)...)
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	e := new(explained)
	if err := json.Unmarshal(text, e); err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, text)
	}
	return e
}

// Factors within which what explain expects is what a run is, as docs/explain.md says.
const (
	pilotFactor  = 1.25 // of events by a pilot that has seen a part of the run
	ratesFactor  = 3.0  // of events by the scenario's own rates
	memoryFactor = 2.5  // of memory
)

// explainedKinds are scenarios of each kind, and horizons of some hundred thousand events.
// devstone has a pulse each second, of which a pilot has to see several, however slow the machine is at the moment: all
// of its events come at once.
var explainedKinds = []struct {
	file, horizon string
	pilot         time.Duration // at least
	sees          float64       // simulated seconds, at least
}{
	{"shop.yml", "40", 30 * time.Millisecond, 0}, {"backbone.yml", "2", 30 * time.Millisecond, 0},
	{"jackson.yml", "300000", 30 * time.Millisecond, 0}, {"supply.yml", "4000", 30 * time.Millisecond, 0},
	{"phold.yml", "40", 30 * time.Millisecond, 0}, {"devstone.yml", "50", 150 * time.Millisecond, 6},
}

func TestExplain(t *testing.T) {
	bin := build(t, "")
	t.Run("kinds", func(t *testing.T) { testExplainKinds(t, bin) })
	t.Run("large", func(t *testing.T) { testExplainLarge(t, bin) })
	t.Run("limits", func(t *testing.T) { testExplainLimits(t, bin) })
}

// What explain expects of the events and the memory of a scenario is what a run of it shows, for every kind: with a
// pilot that sees a part of the run only, with the scenario's rates alone, and on one worker and two.
func testExplainKinds(t *testing.T, bin string) {
	for _, kind := range explainedKinds {
		t.Run(kind.file, func(t *testing.T) {
			args := []string{"../../examples/" + kind.file, "--horizon", kind.horizon}
			part := explain(t, bin, append(args, "--pilot", kind.pilot.String())...)
			for limit := kind.pilot; part.Pilot.Reached < kind.sees && limit < time.Minute; {
				limit = limit * 3 / 2
				part = explain(t, bin, append(args, "--pilot", limit.String())...)
			}
			rates := explain(t, bin, append(args, "--pilot", "0")...)
			if part.EventsBy != "pilot" || rates.EventsBy != "rates" {
				t.Fatalf("events by %q, and by %q without a pilot", part.EventsBy, rates.EventsBy)
			}
			for i, workers := range []int{1, 2} {
				events, peak := measured(t, bin, append(args, "--workers", fmt.Sprint(workers))...)
				within(t, "events by a pilot", part.Events, events, pilotFactor)
				within(t, "events by rates", rates.Events, events, ratesFactor)
				if row := part.Workers[i]; row.Used == workers {
					within(t, fmt.Sprintf("memory of %d workers", workers), row.Memory, peak, memoryFactor)
				}
			}
		})
	}
}

func within(t *testing.T, what string, expected, found, factor float64) {
	t.Helper()
	t.Logf("%s: expected %.4g, found %.4g: %.2f", what, expected, found, expected/found)
	if expected > factor*found || expected < found/factor {
		t.Errorf("%s: %.4g are expected, and a run has %.4g, want them within a factor of %v", what, expected, found,
			factor)
	}
}

// measured is how many events a run has, and the peak of its memory.
func measured(t *testing.T, bin string, args ...string) (events, peak float64) {
	t.Helper()
	g := memorygroup.New(t)
	// The shell is in the group before it becomes the program.
	script := fmt.Sprintf("echo $$ > %s/cgroup.procs && exec \"$@\"", g.Dir)
	cmd := exec.Command("sh", append([]string{"-c", script, "sh", bin, "run", "--json", "-"}, args...)...)
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	var out struct{ Events float64 }
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out.Events, float64(g.Peak())
}

// A scenario of many nodes takes what explain expects, too: there it isn't the program that memory is for.
func testExplainLarge(t *testing.T, bin string) {
	args := []string{"../../examples/phold.yml", "--horizon", "4", "--set", "lps=50000"}
	e := explain(t, bin, append(args, "--pilot", "0")...)
	for i, workers := range []int{1, 2} {
		events, peak := measured(t, bin, append(args, "--workers", fmt.Sprint(workers))...)
		within(t, "events", e.Events, events, ratesFactor)
		within(t, "memory", e.Workers[i].Memory, peak, memoryFactor)
	}
}

// What limits workers is named, and goes when it is changed.
func testExplainLimits(t *testing.T, bin string) {
	for _, c := range []struct{ args, limit, change string }{
		{"--set lookahead=0.000001", "promises", "more lookahead (now 1e-06 s of everybody to everybody)"},
		{"--set lookahead=0.001", "lookahead", "before it needs the next promise"},
		{"--set remote=1", "traffic", "of the events go from worker to worker"},
		{"--set remote=0 --set lps=100000", "nothing", ""},
		{"--set lps=3 --set lookahead=1", "nodes", "too few nodes"},
	} {
		e := explain(t, bin, append([]string{"../../examples/phold.yml", "--pilot", "0"}, strings.Fields(c.args)...)...)
		row := e.Workers[len(e.Workers)-1]
		if row.Limit != c.limit || !strings.Contains(row.Change, c.change) {
			t.Errorf("%s: %d workers are limited by %s (%s), want %s (%s)", c.args, row.Workers, row.Limit, row.Change,
				c.limit, c.change)
		}
		if row.Speedup > float64(row.Used) || row.Speedup <= 0 {
			t.Errorf("%s: %d workers are %v times as fast", c.args, row.Used, row.Speedup)
		}
	}
	e := explain(t, bin, "../../examples/backbone.yml", "--pilot", "0")
	if e.Lookahead == nil || e.Lookahead.From != "Geneva/router" || e.Lookahead.To != "Lyon/router" {
		t.Errorf("the least lookahead comes from %+v, want that of Geneva/router -> Lyon/router", e.Lookahead)
	}
}
