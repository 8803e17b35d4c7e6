// SPDX-License-Identifier: Apache-2.0

package devstone

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

var update = flag.Bool("update", false, "write the expected texts in testdata anew")

// known are the published numbers of events.
var known = []struct {
	kind         string
	width, depth int
	want         uint64
}{
	{LI, 5, 5, 17}, {LI, 10, 10, 82}, {LI, 1, 7, 1}, {LI, 7, 1, 1}, {LI, 200, 40, 1 + 39*199},
	{HI, 5, 5, 41}, {HI, 10, 10, 406}, {HI, 2, 3, 3}, {HI, 1, 1, 1},
	{HO, 5, 5, 41}, {HO, 10, 10, 406}, {HO, 50, 20, 1 + 19*49*25},
	{HOmod, 5, 5, 561}, {HOmod, 10, 10, 20746}, {HOmod, 20, 20, 725991}, {HOmod, 1, 9, 1}, {HOmod, 9, 1, 1},
}

func TestKnownCounts(t *testing.T) {
	for _, k := range known {
		p := Params{Type: k.kind, Width: k.width, Depth: k.depth, Pulses: 1}
		if got := p.expected(); got != k.want {
			t.Errorf("the formula of %s (%d, %d) gives %d, want %d", k.kind, k.width, k.depth, got, k.want)
		}
		if testing.Short() && k.width*k.depth > 100 {
			continue
		}
		t.Run(fmt.Sprintf("%s/%dx%d", k.kind, k.width, k.depth), func(t *testing.T) {
			for workers := 1; workers <= 2; workers++ {
				checkCount(t, p, workers, k.want)
			}
		})
	}
}

func checkCount(t *testing.T, p Params, workers int, want uint64) {
	t.Helper()
	m := New(p)
	o, err := modeltest.Run(m, modeltest.Config{Workers: workers, Steps: 1000})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := modeltest.Sum(m, o.Replication)
	if err != nil {
		t.Fatal(err)
	}
	r := sum.(*Results)
	if r.Transitions != want || r.Messages != o.Events {
		t.Errorf("%d workers: %d transitions, want %d; %d messages of %d events", workers, r.Transitions, want,
			r.Messages, o.Events)
	}
	if p.Type != HOmod && o.Events != want {
		t.Errorf("%d workers: %d events, want %d: every message makes a transition", workers, o.Events, want)
	}
	if workers > 1 && o.Crossed == 0 && want > 1 {
		t.Errorf("%d workers: no event went from one engine to another", workers)
	}
}

// TestCascade compares with a simple reference: sets of components, step after step.
func TestCascade(t *testing.T) {
	for _, kind := range []string{LI, HI, HO, HOmod} {
		for width := 1; width <= 6; width++ {
			for depth := 1; depth <= 6; depth++ {
				p := Params{Type: kind, Width: width, Depth: depth, Pulses: 1}
				w := newWiring(p)
				fired := 0
				at := map[int]bool{}
				w.reach(0, at)
				for len(at) > 0 {
					fired += len(at)
					next := map[int]bool{}
					for n := range at {
						w.reach(n, next)
					}
					at = next
				}
				if uint64(fired) != p.expected() {
					t.Errorf("%+v: %d transitions step by step, %d by the formula", p, fired, p.expected())
				}
				components := -1
				for _, input := range w.input {
					if !input {
						components++
					}
				}
				if atomic, links := p.size(); int(atomic) != components || len(w.graph.Links) > int(links) {
					t.Errorf("%+v: %d components and %d links, foreseen were %v and %v", p, components,
						len(w.graph.Links), atomic, links)
				}
			}
		}
	}
}

// reach adds the components that an output reaches, through all inputs.
func (w *wiring) reach(from int, set map[int]bool) {
	for _, to := range w.out[from] {
		if w.input[to] {
			w.reach(to, set)
		} else {
			set[to] = true
		}
	}
}

func TestSpread(t *testing.T) {
	for _, kind := range []string{LI, HI, HO, HOmod} {
		p := Params{Type: kind, Width: 6, Depth: 5, Pulses: 7}
		if o := modeltest.ComparePlacements(t, New(p), 1); o.Events < 7*p.expected() {
			t.Errorf("%s: %d events", kind, o.Events)
		}
	}
}

func TestResume(t *testing.T) {
	for _, kind := range []string{LI, HI, HO, HOmod} {
		modeltest.ResumeEverywhere(t, New(Params{Type: kind, Width: 4, Depth: 4, Pulses: 7}), 1)
		modeltest.DamagedStates(t, New(Params{Type: kind, Width: 4, Depth: 4, Pulses: 7}), 1)
	}
}

func TestOutputs(t *testing.T) {
	for kind, want := range map[string]uint64{LI: 3, HI: 3, HO: 3 * (1 + 1 + 2 + 3), HOmod: 3 * 13} {
		r := modeltest.Summarize(t, New(Params{Type: kind, Width: 4, Depth: 4, Pulses: 3}), 1, 1).(*Results)
		if r.Outputs != want {
			t.Errorf("%s: %d outputs, want %d", kind, r.Outputs, want)
		}
	}
}

func TestWrongCountIsAnError(t *testing.T) {
	m := New(Params{Type: HI, Width: 4, Depth: 3, Pulses: 1})
	o, err := modeltest.Run(m, modeltest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	o.Replication.Reports[2] = append([]byte(nil), o.Replication.Reports[2]...)
	o.Replication.Reports[2][0]++
	if _, err := modeltest.Sum(m, o.Replication); err == nil ||
		!strings.Contains(err.Error(), "14 transitions, want 13") {
		t.Errorf("one transition too many: %v", err)
	}
	o.Replication.Reports[2] = nil
	if _, err := modeltest.Sum(m, o.Replication); err == nil || !strings.Contains(err.Error(), "level 1 row 0 no 1") {
		t.Errorf("a missing report: %v", err)
	}
	if _, err := modeltest.Sum(m); err == nil {
		t.Error("no replication is no error")
	}
}

func TestHorizon(t *testing.T) {
	doc, err := scenario.Parse("test.yml", []byte("{model: devstone, type: LI, width: 3, depth: 3, pulses: 10}"))
	if err != nil {
		t.Fatal(err)
	}
	for horizon, want := range map[float64]float64{0: 10, 0.5: 1, 4: 4, 99: 10} {
		s, err := Kind().Load(doc, scenario.Options{Horizon: horizon})
		if err != nil || s.Horizon() != want {
			t.Errorf("horizon %v: %v, %v, want %v", horizon, s.Horizon(), err, want)
		}
	}
}

func TestInvalid(t *testing.T) {
	if n := modeltest.Invalid(t, Kind(), "testdata/invalid", *update); n < 8 {
		t.Errorf("%d files", n)
	}
}

func TestText(t *testing.T) {
	r := modeltest.Summarize(t, New(Params{Type: HOmod, Width: 5, Depth: 5, Pulses: 100}), 1, 1).(*Results)
	modeltest.Text(t, "testdata/results.txt", r, *update)
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

func TestExample(t *testing.T) {
	doc, err := scenario.ReadFile("../../examples/devstone.yml")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Load(doc, scenario.Options{}); err != nil ||
		p != (Params{Type: HOmod, Width: 10, Depth: 10, Pulses: 50}) {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestBounded: of a replication nothing is kept.
func TestBounded(t *testing.T) {
	modeltest.Bounded(t, New(Params{Type: HI, Width: 4, Depth: 3, Pulses: 2}), 0)
}
