// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

var update = flag.Bool("update", false, "write the expected texts in testdata anew")

func contains(s, part string) bool { return part != "" && strings.Contains(s, part) }

// visit is one customer's stay at a station.
type visit struct{ arrival, wait, service float64 }

// visits runs a single station and returns all its customers.
func visits(t *testing.T, text string, quantum float64) []visit {
	t.Helper()
	m := modeltest.MustLoad(t, Kind(), text).(*Model)
	var all []visit
	m.quantum = quantum
	m.observe = func(station int, arrival, wait, service float64) {
		all = append(all, visit{arrival, wait, service})
	}
	if _, err := modeltest.Run(m, modeltest.Config{Seed: 6}); err != nil {
		t.Fatal(err)
	}
	if len(all) < 1000 {
		t.Fatalf("%d customers", len(all))
	}
	return all
}

// TestLindley: W' = max(0, W + S - T), to the last bit. Draws that are whole multiples
// of 2^-20 make every sum exact, in whatever order it is added up.
func TestLindley(t *testing.T) {
	for _, service := range []string{exp1, const1, "service: { distribution: uniform, min: 0.2, max: 1.4 }"} {
		all := visits(t, network(5000, "id: a, arrivals: 0.9, "+service), 1./(1<<20))
		w := 0.0
		waits := 0
		for i, v := range all {
			if i > 0 {
				last := all[i-1]
				w = max(0, w+last.service-(v.arrival-last.arrival))
			}
			if v.wait != w {
				t.Fatalf("%s: customer %d waits %v, by Lindley %v", service, i, v.wait, w)
			}
			if w > 0 {
				waits++
			}
		}
		if waits < len(all)/2 {
			t.Errorf("%s: only %d of %d wait", service, waits, len(all))
		}
	}
}

// TestKieferWolfowitz: several servers, with real draws, against a simple search for the
// server that is free first; and one server in the same form.
func TestKieferWolfowitz(t *testing.T) {
	for _, c := range []int{1, 2, 7} {
		text := network(5000,
			strings.ReplaceAll("id: a, arrivals: 0.9, servers: N, service: { distribution: exponential, mean: N }", "N",
				string(rune('0'+c))))
		free := make([]float64, c)
		for i, v := range visits(t, text, 0) {
			first := 0
			for k := range free {
				if free[k] < free[first] {
					first = k
				}
			}
			start := max(v.arrival, free[first])
			if v.wait != start-v.arrival {
				t.Fatalf("%d servers: customer %d waits %v, want %v", c, i, v.wait, start-v.arrival)
			}
			free[first] = start + v.service
		}
	}
}

// TestBuffer: nobody is taken in when all places are taken, and everybody else is.
func TestBuffer(t *testing.T) {
	text := network(3000, "id: a, arrivals: 3, servers: 2, buffer: 3, "+exp1)
	all := visits(t, text, 0)
	most := 0
	for i, v := range all {
		inside := 1
		for _, u := range all[max(0, i-40):i] {
			if u.arrival+u.wait+u.service > v.arrival {
				inside++
			}
		}
		most = max(most, inside)
	}
	if most != 5 {
		t.Errorf("at most %d customers were inside, want 5", most)
	}
}

func TestSpread(t *testing.T) {
	mesh := func(service, transit string) string {
		return transit + network(200,
			"id: a, arrivals: 1.2, servers: 2, "+service+", to: { b: 0.4, c: 0.3, a: 0.1 }",
			"id: b, arrivals: 0.4, buffer: 3, "+service+", to: { c: 0.5, d: 0.5 }",
			"id: c, servers: 2, "+service+", to: { d: 0.3, a: 0.2 }",
			"id: d, servers: 3, initial: 5, "+service+", to: { e: 0.9 }",
			"id: e, servers: 2, "+service+", to: { b: 0.2 }")
	}
	for name, text := range map[string]string{
		"exponential":          mesh(exp1, ""),
		"constant":             mesh(const1, ""),
		"uniform":              mesh("service: { distribution: uniform, min: 0.1, max: 1.5 }", ""),
		"exponential, transit": mesh(exp1, "transit: 0.3\n"),
		"constant, transit":    mesh(const1, "transit: 0.1\n"),
		"everything at once":   mesh(const1, "transit: 1\n"),
		"closed": network(300, "id: a, initial: 6, "+exp1+", to: { b: 0.5, c: 0.5 }",
			"id: b, "+exp1+", to: { c: 0.3, a: 0.7 }", "id: c, "+exp1+", to: { a: 1 }"),
		"one after the other": network(300, "id: a, arrivals: 0.9, "+exp1+", to: { b: 1 }",
			"id: b, "+exp1+", to: { c: 1 }", "id: c, "+exp1+", to: { d: 1 }", "id: d, "+exp1),
		"arrivals all together": network(300,
			"id: a, arrivals: { distribution: constant, mean: 1 }, "+const1+", to: { c: 1 }",
			"id: b, arrivals: { distribution: constant, mean: 1 }, "+const1+", to: { c: 1 }",
			"id: c, servers: 3, "+exp1+", to: { a: 0.1 }"),
	} {
		t.Run(name, func(t *testing.T) {
			s := modeltest.MustLoad(t, Kind(), text)
			if o := modeltest.ComparePlacements(t, s, 8); o.Events < 300 {
				t.Errorf("only %d events", o.Events)
			}
		})
	}
}

// TestTransitRounding: lookahead and arrival are rounded differently late in a long run;
// the engine must find nothing to complain of.
func TestTransitRounding(t *testing.T) {
	text := "transit: 0.1\n" + network(1e9,
		"id: a, arrivals: { distribution: constant, mean: 100000.3 }, service: { distribution: constant, mean: 0.7 "+
			"}, to: { b: 1 }",
		"id: b, service: { distribution: uniform, min: 0.1, max: 0.3 }, to: { a: 0.5 }")
	s := modeltest.MustLoad(t, Kind(), text)
	if o, err := modeltest.Run(s, modeltest.Config{Seed: 1, Workers: 2}); err != nil || o.Events < 20_000 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestConservation: everybody who came is served, still there, or lost; what leaves a
// station arrives at the next.
func TestConservation(t *testing.T) {
	text := "warmup: 0\n" + network(5000,
		"id: a, arrivals: 0.8, "+exp1+", to: { b: 0.5 }",
		"id: b, arrivals: 0.2, buffer: 1, "+exp1+", to: { a: 0.3 }")
	m := modeltest.MustLoad(t, Kind(), text).(*Model)
	taken := map[int]float64{}
	m.observe = func(station int, _, _, _ float64) { taken[station]++ }
	o, err := modeltest.Run(m, modeltest.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var came float64
	for i := range 2 {
		tally, err := m.readTally(o.Replication, i)
		if err != nil {
			t.Fatal(err)
		}
		x := samples{tally.sample(m.Horizon(), 0)}
		if got := x.total(accepted); got != taken[i] {
			t.Errorf("station %d has taken in %v, observed were %v", i, got, taken[i])
		}
		if served := x.total(served); served > taken[i] || served < taken[i]-50 {
			t.Errorf("station %d has served %v of %v", i, served, taken[i])
		}
		came += x.total(offered)
	}
	if came != float64(o.Events) {
		t.Errorf("%v customers came, in %d events", came, o.Events)
	}
}

// TestInterrupted: only batches that were simulated to their end count.
func TestInterrupted(t *testing.T) {
	s := modeltest.MustLoad(t, Kind(), network(1000, "id: a, arrivals: 0.5, "+exp1))
	o, err := modeltest.Run(s, modeltest.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for reached, batches := range map[float64]int{1000: 32, 500: 14, 129: 1, 128: 0, 0: 0} {
		rep := o.Replication
		rep.Reached = reached
		sum, err := modeltest.Sum(s, rep)
		if err != nil {
			t.Fatal(err)
		}
		r := sum.(*Results)
		if r.Batches != batches || r.Interrupted != (reached < 1000) ||
			(r.Stations["a"].InSystem.Observed == nil) != (batches == 0) {
			t.Errorf("reached %v: %d batches, want %d; %+v", reached, r.Batches, batches, r.Stations["a"].InSystem)
		}
		if err := r.WriteText(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	}
	if _, err := modeltest.Sum(s, scenario.Replication{Reports: [][]byte{{1}}}); err == nil ||
		!strings.Contains(err.Error(), "report of a") {
		t.Errorf("a short report: %v", err)
	}
	part := make([]byte, s.(*Model).reportBytes())
	part[3] = 1
	if _, err := modeltest.Sum(s, scenario.Replication{Reports: [][]byte{part}}); err == nil ||
		!strings.Contains(err.Error(), "report of a: batches that may double 16777216 times") {
		t.Errorf("a wrong report: %v", err)
	}
	if _, err := modeltest.Sum(s); err == nil {
		t.Error("no replication is no error")
	}
}

// ended is a scenario that ends before its horizon.
type ended struct {
	scenario.Scenario
	at float64
}

func (e ended) Horizon() float64 { return e.at }

// TestInterruptedEarly: a run that is ended long before its horizon shows all but a
// little of what it has reached, with intervals.
func TestInterruptedEarly(t *testing.T) {
	const reached, warmup = 30_000, 100
	text := func(horizon float64) string {
		return fmt.Sprintf("model: queueing\nhorizon: %v\nwarmup: %d\nstations:\n"+
			"  - { id: a, arrivals: 0.5, to: { b: 0.7 }, %s }\n  - { id: b, to: { a: 0.1 }, buffer: 3, %s }\n", horizon,
			warmup, exp1, exp1)
	}
	want := modeltest.Summarize(t, modeltest.MustLoad(t, Kind(), text(reached)), 1, 1).(*Results)
	s := modeltest.MustLoad(t, Kind(), text(9e8))
	o := modeltest.ComparePlacements(t, ended{s, reached}, 1)
	o.Replication.Horizon = s.Horizon()
	sum, err := modeltest.Sum(s, o.Replication)
	if err != nil {
		t.Fatal(err)
	}
	got := sum.(*Results)
	if !got.Interrupted || got.Batches < batchCount/2 || got.needed != 0 {
		t.Errorf("%d batches, interrupted %v, needed %v", got.Batches, got.Interrupted, got.needed)
	}
	for id, w := range want.Stations {
		g := got.Stations[id]
		if g.Customers < w.Customers*(1-2.0/batchCount)-1 || g.Customers > w.Customers {
			t.Errorf("%s: %v customers counted, with that horizon %v", id, g.Customers, w.Customers)
		}
		for what, m := range map[string][2]Measure{
			"arrivals": {g.ArrivalRate, w.ArrivalRate}, "utilisation": {g.Utilisation, w.Utilisation},
			"customers": {g.InSystem, w.InSystem}, "time": {g.TimeInSystem, w.TimeInSystem},
		} {
			if x, y := m[0].Observed, m[1].Observed; x == nil || !x.Known() || math.Abs(x.Mean-y.Mean) > y.HalfWidth {
				t.Errorf("%s, %s: %+v, with that horizon %+v", id, what, x, y)
			}
		}
	}
}

func TestReplications(t *testing.T) {
	s := modeltest.MustLoad(t, Kind(), network(3000, "id: a, arrivals: 0.5, "+exp1))
	one := modeltest.Summarize(t, s, 1, 1).(*Results)
	four := modeltest.Summarize(t, s, 1, 4).(*Results)
	if four.Batches != 4*one.Batches ||
		four.Stations["a"].InSystem.Observed.HalfWidth > 0.8*one.Stations["a"].InSystem.Observed.HalfWidth {
		t.Errorf("one: %+v, four: %+v", one.Stations["a"].InSystem.Observed, four.Stations["a"].InSystem.Observed)
	}
}

// TestTooShort: a run that is short against the time in which its queue forgets has no
// intervals and says what would have; ten replications of it have them.
func TestTooShort(t *testing.T) {
	for _, c := range []struct {
		text         string
		replications int
		want         string
	}{
		{network(1000, "id: a, arrivals: 0.8, "+exp1), 1,
			"Too short for intervals: simulate 8,973 s after the warm-up (all replications added), or use 10 " +
				"replications."},
		{network(1000, "id: a, arrivals: 0.8, "+exp1), 9, "Too short for intervals: simulate 8,973 s after"},
		{network(1000, "id: a, arrivals: 0.8, "+exp1), 10, ""},
		{network(10_000, "id: a, arrivals: 0.8, "+exp1), 1, ""},
		{network(1000, "id: a, arrivals: 1, "+exp1), 1,
			"Too short for intervals: a queue grows for ever; use 10 replications."},
	} {
		r := modeltest.Summarize(t, modeltest.MustLoad(t, Kind(), c.text), 1, c.replications).(*Results)
		var b bytes.Buffer
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		o := r.Stations["a"].InSystem.Observed
		if o.Known() != (c.want == "") || strings.Contains(b.String(), "too short") != (c.want != "") ||
			!strings.Contains(b.String(), c.want) {
			t.Errorf("want %q, %+v:\n%s", c.want, o, b.String())
		}
	}
}

// TestWarmupSet: a warm-up that was set by hand is kept or refused, never changed.
func TestWarmupSet(t *testing.T) {
	doc, err := scenario.Parse("test.yml", []byte("warmup: 100\n"+network(1000, "id: a, arrivals: 0.5, "+exp1)))
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{"20": "",
		"50": "found a warm-up of 50 s of a run of 50 s, want a warm-up that ends before the horizon",
		"60": "of 60 s"} {
		changed, err := doc.With([]scenario.Setting{{Key: "warmup", Value: value}})
		if err != nil {
			t.Fatal(err)
		}
		changed, err = changed.With([]scenario.Setting{{Key: "transit", Value: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Load(changed, scenario.Options{Horizon: 50})
		if want == "" && (err != nil || s.Warmup != 20) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("warmup=%s: %+v, %v; want %q", value, s, err, want)
		}
	}
}

func TestHorizonOption(t *testing.T) {
	text := network(1000, "id: a, arrivals: 0.5, "+exp1)
	for _, c := range []struct {
		text                             string
		horizon, wantHorizon, wantWarmup float64
	}{
		{text, 0, 1000, 100}, {text, 50, 50, 5}, {"warmup: 20\n" + text, 50, 50, 20},
		{"warmup: 100\n" + text, 50, 50, 5}, {"warmup: 0\n" + text, 50, 50, 0},
	} {
		s, err := modeltest.Load(Kind(), "test.yml", c.text, scenario.Options{Horizon: c.horizon})
		if err != nil {
			t.Fatal(err)
		}
		if m := s.(*Model); m.Horizon() != c.wantHorizon || m.spec.Warmup != c.wantWarmup {
			t.Errorf("horizon %v: %v, warm-up %v, want %v and %v", c.horizon, m.Horizon(), m.spec.Warmup, c.wantHorizon,
				c.wantWarmup)
		}
	}
	if _, err := modeltest.Load(Kind(), "test.yml", text, scenario.Options{Horizon: 1e10}); err == nil {
		t.Error("a horizon beyond the limit is no error")
	}
}

func TestInvalid(t *testing.T) {
	if n := modeltest.Invalid(t, Kind(), "testdata/invalid", *update); n < 40 {
		t.Errorf("%d files", n)
	}
}

func TestText(t *testing.T) {
	text := network(1000, "id: a, arrivals: 0.5, "+exp1+", to: { b: 0.5, c: 0.5 }", "id: b, servers: 2, "+const1,
		"id: c, buffer: 1, "+exp1)
	r := modeltest.Summarize(t, modeltest.MustLoad(t, Kind(), text), 1, 2).(*Results)
	modeltest.Text(t, "testdata/results.txt", r, *update)
}

// TestSamplers: mean and spread of every distribution are those that theory counts with,
// and no draw lies below the least.
func TestSamplers(t *testing.T) {
	const seed, n = 12, 200_000
	for _, d := range []Dist{
		{Kind: Exponential, Mean: 2}, {Kind: Constant, Mean: 2}, {Kind: Uniform, Min: 1, Max: 3, Mean: 2},
		{Kind: Erlang, Mean: 2, Shape: 3},
		{Kind: Gamma, Mean: 2, CV: 0.7}, {Kind: LogNormal, Mean: 2, CV: 0.8}, {Kind: Hyperexponential, Mean: 2, CV: 1},
		{Kind: Hyperexponential, Mean: 2, CV: 3},
	} {
		s := newSampler(d, rand.NewPCG(seed, 1), 0)
		var total, squares float64
		for range n {
			x := s.draw()
			if !(x >= d.least()) {
				t.Fatalf("%+v drew %v", d, x)
			}
			total += x
			squares += x * x
		}
		mean := total / n
		scv := squares/n/mean/mean - 1
		tolerance := 8 * math.Sqrt(d.scv()/n)
		if math.Abs(mean/2-1) > tolerance+1e-12 || math.Abs(scv-d.scv()) > 40*tolerance*math.Max(1, d.scv())+1e-9 {
			t.Errorf("seed %d: %+v has mean %v and squared cv %v, want 2 and %v", seed, d, mean, scv, d.scv())
		}
	}
}

func TestHandlingDoesNotAllocate(t *testing.T) {
	s := modeltest.MustLoad(t, Kind(), strings.Replace(jackson3, "60000", "1000000000", 1))
	plan, err := node.NewPlan(s.Graph(), make([]int32, 3), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: s, Seed: 1, Horizon: s.Horizon()})
	if err != nil {
		t.Fatal(err)
	}
	run := func(n int) {
		if _, err := e.Run(n, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
	}
	run(50_000)
	if invariants.Enabled {
		t.Skip("the checks of the checked build allocate")
	}
	if got := testing.AllocsPerRun(10, func() { run(1000) }); got > 1 {
		t.Errorf("%v allocations per 1000 activations", got)
	}
}

func BenchmarkStations(b *testing.B) {
	doc, err := scenario.Parse("bench.yml", []byte(strings.Replace(jackson3, "60000", "1000000000", 1)))
	if err != nil {
		b.Fatal(err)
	}
	s, err := Kind().Load(doc, scenario.Options{})
	if err != nil {
		b.Fatal(err)
	}
	plan, err := node.NewPlan(s.Graph(), make([]int32, 3), 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: s, Seed: 1, Horizon: s.Horizon()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := e.Run(b.N, math.Inf(1)); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(e.Stats().Events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
