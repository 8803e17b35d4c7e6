// SPDX-License-Identifier: Apache-2.0

package simtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

type params struct {
	Gap     dist.Dist `unit:"s"`
	Service dist.Dist `unit:"s"`
}

// made counts how often nodes were set up: what a model must not look at.
var made float64

// build is a street of tills without queues, M/M/∞; sharing makes nodes use what is common to them.
func build(b *sim.Builder, p params, sharing bool) {
	var tills sim.Group
	tills = b.Nodes("till", 3, func(n *sim.Node) {
		seen := n.Counter("seen")
		wait := n.Tally("service", sim.Unit("s"))
		busy := n.Gauge("busy")
		next := sim.LinkTo[int32](n, tills.At((n.Index()+1)%3), dist.Constant(1))
		sim.On(n, func(c *sim.Context, hops int32) {
			seen.Inc()
			if sharing {
				made++
				wait.Add(made)
			}
		})
		n.Each(p.Gap, func(customer *sim.Process) {
			busy.Add(1)
			start := customer.Now()
			customer.HoldFor(p.Service)
			wait.Add(customer.Now() - start)
			busy.Add(-1)
			next.Send(customer, 1)
		})
	})
}

var (
	kind    = sim.Kind("till", func(b *sim.Builder, p params) { build(b, p, false) })
	sharing = sim.Kind("till", func(b *sim.Builder, p params) { build(b, p, true) })
)

func TestMain(m *testing.M) {
	Worker(kind)
	leaktest.Main(m)
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	name, text string
	failed     bool
}

func (r *recorder) Helper()                           {}
func (r *recorder) Name() string                      { return r.name }
func (r *recorder) Log(args ...any)                   { r.text += fmt.Sprintln(args...) }
func (r *recorder) Logf(format string, args ...any)   { r.text += fmt.Sprintf(format+"\n", args...) }
func (r *recorder) Errorf(format string, args ...any) { r.failed = true; r.Logf(format, args...) }
func (r *recorder) Fatal(args ...any)                 { r.failed = true; r.Log(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }

// record runs a test of the name Recorded and returns what it said.
func record(test func(t testing.TB)) *recorder {
	r := &recorder{name: "Recorded"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	return r
}

// A model that keeps to the rules passes, over processes too, and its figures are those of theory; a snapshot is
// written, compared, and found to differ.
func TestTill(t *testing.T) {
	till := Load(t, kind, "testdata/till.yml")
	said := record(func(t testing.TB) { Run(t, till) })
	processes := !strings.Contains(said.text, "no worker processes")
	if said.failed || !processes || !strings.Contains(said.text, "no snapshot") {
		t.Errorf("%v: %s", said.failed, said.text)
	}
	r := Results(t, Load(t, kind, "testdata/till.yml", "warmup=50"), 100)
	Agree(t, r, "till/busy", 1.5)
	Agree(t, r, "till/service", 3)
	Agree(t, r, "till/seen", 3*450/2.)
	warm := Load(t, kind, "testdata/till.yml", "warmup=50")
	Covers(t, warm, 20, map[string]float64{"till/busy": 1.5, "till/seen": 675})
	if r.Replications != 100 || !(r.Figure("till/busy") > 1) {
		t.Errorf("%+v", r)
	}
}

func TestSnapshot(t *testing.T) {
	path, err := filepath.Abs("testdata/till.yml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	run := func(set ...string) *recorder {
		return record(func(t testing.TB) { Run(t, Load(t, kind, path, append(set, "horizon=20")...)) })
	}
	*update = true
	said := run()
	*update = false
	if said.failed {
		t.Error(said.text)
	}
	text, err := os.ReadFile("testdata/Recorded.txt")
	if err != nil || !strings.HasPrefix(string(text), "hash ") || !strings.Contains(string(text), "till/busy") {
		t.Errorf("%v: %s", err, text)
	}
	if said := run(); said.failed {
		t.Error(said.text)
	}
	said = run("gap={distribution: exponential, mean: 1}")
	if !said.failed || !strings.Contains(said.text, "want\nhash") {
		t.Errorf("another model fits the snapshot: %s", said.text)
	}
	other := strings.Replace(string(text), written+runtime.GOARCH, written+"another", 1)
	if err := os.WriteFile("testdata/Recorded.txt", []byte(other), 0o600); err != nil || other == string(text) {
		t.Fatalf("%v: %s", err, text)
	}
	said = run("gap={distribution: exponential, mean: 1}")
	if said.failed || !strings.Contains(said.text, "of another architecture") {
		t.Errorf("a snapshot of another architecture: %s", said.text)
	}
}

// What is wrong fails, and says what it is.
func TestFails(t *testing.T) {
	shared, err := sim.New("till", func(b *sim.Builder) {
		b.Horizon(100)
		build(b, params{dist.Exponential(2), dist.Exponential(3)}, true)
	})
	if err != nil {
		t.Fatal(err)
	}
	results := func(t testing.TB) *sim.Results {
		return Results(t, Load(t, kind, "testdata/till.yml"), 10)
	}
	for want, test := range map[string]func(t testing.TB){
		"over 2 engines": func(t testing.TB) { Run(t, shared) },
		"reports differ": func(t testing.TB) { Run(t, Load(t, sharing, "testdata/till.yml")) },
		"found no file":  func(t testing.TB) { Load(t, kind, "testdata/none.yml") },
		"gap": func(t testing.TB) {
			Load(t, kind, "testdata/till.yml", "gap={distribution: none}")
		},
		"want":                              func(t testing.TB) { Load(t, kind, "testdata/till.yml", "gap") },
		`there is no statistic "till/wait"`: func(t testing.TB) { Agree(t, results(t), "till/wait", 1) },
		"which 4 doesn't":                   func(t testing.TB) { Agree(t, results(t), "till/service", 4) },
		"3 lies in 0 of 20": func(t testing.TB) {
			Covers(t, Load(t, kind, "testdata/till.yml"), 10, map[string]float64{"till/busy": 3})
		},
		"has no interval": func(t testing.TB) {
			Agree(t, Results(t, Load(t, kind, "testdata/till.yml", "horizon=1"), 1), "till/seen", 3)
		},
		"isn't a model of package sim": func(t testing.TB) { Results(t, otherKind{shared}, 1) },
	} {
		if said := record(test); !said.failed || !strings.Contains(said.text, want) {
			t.Errorf("failed: %v: %s\nwant %q", said.failed, said.text, want)
		}
	}
}

// otherKind is a scenario of another package.
type otherKind struct{ scenario.Scenario }

func (otherKind) Accumulate() scenario.Accumulator { return nothing{} }

type nothing struct{}

func (nothing) Add(scenario.Replication) error     { return nil }
func (nothing) Summary() (scenario.Summary, error) { return nil, nil }
