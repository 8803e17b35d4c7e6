// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"
	"math"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// network makes a file of stations written in YAML, one each.
func network(horizon float64, stations ...string) string {
	text := fmt.Sprintf("model: queueing\nhorizon: %g\nstations:\n", horizon)
	for _, s := range stations {
		text += "  - { " + s + " }\n"
	}
	return text
}

// replications of known networks: as many as give intervals whatever their length.
const replications = 10

// long is the horizon of one of several replications of so much time in all, less of it
// in short tests: the intervals are wider then.
func long(all float64) float64 {
	if testing.Short() {
		all /= 3
	}
	return all / replications
}

const (
	exp1   = "service: { distribution: exponential, mean: 1 }"
	const1 = "service: { distribution: constant, mean: 1 }"
)

// want is what is known of a station; 0 is not compared.
type want struct {
	model                                       string
	wait, blocked, present, queued, stay, delay float64
}

// known are published numbers.
var known = []struct {
	name, station string
	want          want
}{
	{"M/M/1", "id: a, arrivals: 0.8, " + exp1,
		want{model: "M/M/1", wait: .8, present: 4, queued: 3.2, stay: 5, delay: 4}},
	{"M/M/2", "id: a, arrivals: 1.5, servers: 2, " + exp1,
		want{model: "M/M/2", wait: .642857, present: 3.428571, delay: 1.285714}},
	{"M/M/3", "id: a, arrivals: 2, servers: 3, " + exp1,
		want{model: "M/M/3", wait: 4. / 9, present: 2.888889, delay: .444444}},
	{"M/M/8", "id: a, arrivals: 6.4, servers: 8, " + exp1, want{model: "M/M/8", wait: .457645, delay: .286028}},
	{"M/M/1/5", "id: a, arrivals: 0.8, buffer: 4, " + exp1,
		want{model: "M/M/1/5", blocked: .0888195, present: 1.868332, stay: 2.563065}},
	{"M/D/1", "id: a, arrivals: 0.8, " + const1,
		want{model: "M/D/1", wait: .8, delay: 2, stay: 3, queued: 1.6, present: 2.4}},
	{"Erlang B", "id: a, arrivals: 10, servers: 12, buffer: 0, " + exp1,
		want{model: "M/M/12/12", blocked: .119739, stay: 1}},
	{"Erlang B, constant service", "id: a, arrivals: 10, servers: 12, buffer: 0, " + const1,
		want{model: "M/D/12/12", blocked: .119739, stay: 1}},
	{"M/E4/1", "id: a, arrivals: 0.8, service: { distribution: erlang, mean: 1, shape: 4 }",
		want{model: "M/E4/1", delay: 2.5}},
	{"M/U/1", "id: a, arrivals: 0.8, service: { distribution: uniform, min: 0.5, max: 1.5 }",
		want{model: "M/G/1", delay: 2 * (1 + 1./12)}},
	{"M/H2/1", "id: a, arrivals: 0.5, service: { distribution: hyperexponential, mean: 1, cv: 2 }",
		want{model: "M/H2/1", delay: 2.5}},
	{"M/gamma/1", "id: a, arrivals: 0.5, service: { distribution: gamma, mean: 1, cv: 1.5 }",
		want{model: "M/G/1", delay: (1 + 2.25) / 2}},
	{"M/lognormal/1", "id: a, arrivals: 0.5, service: { distribution: log_normal, mean: 1, cv: 0.5 }",
		want{model: "M/G/1", delay: (1 + .25) / 2}},
}

// TestKnownStations: theory is what is known, to its printed digits, and what is
// observed agrees with it.
func TestKnownStations(t *testing.T) {
	const seed = 1
	for _, k := range known {
		t.Run(k.name, func(t *testing.T) {
			s := modeltest.MustLoad(t, Kind(), network(long(200_000), k.station))
			r := modeltest.Summarize(t, s, seed, replications).(*Results)
			a := r.Stations["a"]
			if a.Model != k.want.model || a.NoTheory != "" {
				t.Errorf("the model is %s (%s), want %s", a.Model, a.NoTheory, k.want.model)
			}
			compare(t, "wait", a.WaitProbability, k.want.wait)
			compare(t, "blocking", a.Blocking, k.want.blocked)
			compare(t, "in system", a.InSystem, k.want.present)
			compare(t, "in queue", a.InQueue, k.want.queued)
			compare(t, "time in system", a.TimeInSystem, k.want.stay)
			compare(t, "time in queue", a.TimeInQueue, k.want.delay)
			compare(t, "arrivals", a.ArrivalRate, 0)
			compare(t, "throughput", a.Throughput, 0)
			compare(t, "utilisation", a.Utilisation, 0)
			compare(t, "network", r.Network.TimeInNetwork, k.want.stay)
		})
	}
}

// deviationsMax is how many half widths of the 95 % interval an observation may miss
// its theory by: about four standard deviations.
const deviationsMax = 2

// compare wants the theory to be x, unless x is 0, and the observation to agree.
func compare(t *testing.T, what string, m Measure, x float64) {
	t.Helper()
	if m.Theory == nil || m.Observed == nil {
		t.Errorf("%s: theory %v, observed %v", what, m.Theory, m.Observed)
		return
	}
	if x != 0 && math.Abs(*m.Theory-x) > 1e-6*math.Max(1, x) {
		t.Errorf("%s: theory says %v, want %v", what, *m.Theory, x)
	}
	miss := math.Abs(*m.Theory - m.Observed.Mean)
	if !m.Observed.Known() {
		t.Errorf("%s: no interval for %v", what, m.Observed.Mean)
	}
	if o := m.Observed; miss > deviationsMax*o.HalfWidth+1e-9 || o.HalfWidth > 0.25*math.Abs(o.Mean)+0.005 &&
		!testing.Short() {
		t.Errorf("%s: observed %v ± %v, theory %v", what, o.Mean, o.HalfWidth, *m.Theory)
	}
}

const jackson3 = `
model: queueing
horizon: 60000
stations:
  - { id: a, arrivals: 1, service: &third { distribution: exponential, mean: 0.3333333333333333 },
      to: { b: 0.5, c: 0.3 } }
  - { id: b, arrivals: 0.5, service: *third, to: { c: 0.6 } }
  - { id: c, service: *third, to: { a: 0.2 } }
`

func TestJackson(t *testing.T) {
	r := modeltest.Summarize(t, modeltest.MustLoad(t, Kind(), jackson3), 2, 1).(*Results)
	for id, x := range map[string][2]float64{"a": {1.204545, .670886}, "b": {1.102273, .580838},
		"c": {1.022727, .517241}} {
		compare(t, id+" arrivals", r.Stations[id].ArrivalRate, x[0])
		compare(t, id+" throughput", r.Stations[id].Throughput, x[0])
		compare(t, id+" in system", r.Stations[id].InSystem, x[1])
		compare(t, id+" time", r.Stations[id].TimeInSystem, x[1]/x[0])
	}
	compare(t, "network", r.Network.TimeInNetwork, 1.179311)
	compare(t, "network throughput", r.Network.Throughput, 1.5)
	compare(t, "in network", r.Network.InNetwork, 1.5*1.179311)
}

// TestNetworks: other networks in which theory has an answer everywhere.
func TestNetworks(t *testing.T) {
	for name, text := range map[string]string{
		"several servers and a way back": network(long(40_000),
			"id: a, arrivals: 2, servers: 3, "+exp1+", to: { b: 0.7, a: 0.1 }",
			"id: b, servers: 4, "+exp1+", to: { a: 0.2, c: 0.5 }",
			"id: c, servers: 2, "+exp1),
		"a constant station after a Jackson network": network(long(40_000),
			"id: a, arrivals: 0.4, "+exp1+", to: { a: 0.3, d: 0.5 }",
			"id: d, arrivals: 0.3, "+const1),
		"customers lost after a queue": network(long(40_000),
			"id: a, arrivals: 0.7, "+exp1+", to: { b: 1 }",
			"id: b, buffer: 2, "+exp1),
		"transit": "transit: 0.5\n" + network(long(40_000),
			"id: a, arrivals: 0.5, "+exp1+", to: { b: 1 }",
			"id: b, "+exp1+", to: { a: 0.2, b: 0.1 }"),
		"thirds": network(long(40_000),
			"id: a, arrivals: 0.9, service: { distribution: exponential, mean: 0.5 }, to: { b: 0.333333333333, c: "+
				"0.333333333333, d: 0.333333333333 }",
			"id: b, "+exp1, "id: c, "+exp1, "id: d, "+exp1),
	} {
		t.Run(name, func(t *testing.T) {
			r := modeltest.Summarize(t, modeltest.MustLoad(t, Kind(), text), 4, replications).(*Results)
			for id, s := range r.Stations {
				if s.NoTheory != "" {
					t.Errorf("%s: no theory: %s", id, s.NoTheory)
				}
				for what, m := range map[string]Measure{
					"arrivals": s.ArrivalRate, "throughput": s.Throughput, "utilisation": s.Utilisation,
					"wait":     s.WaitProbability,
					"blocking": s.Blocking, "in system": s.InSystem, "in queue": s.InQueue, "time": s.TimeInSystem,
					"time waiting": s.TimeInQueue,
				} {
					compare(t, id+" "+what, m, 0)
				}
			}
			compare(t, "throughput", r.Network.Throughput, 0)
			if name != "customers lost after a queue" {
				compare(t, "in network", r.Network.InNetwork, 0)
				compare(t, "time in network", r.Network.TimeInNetwork, 0)
			}
		})
	}
}

// TestClosed: the central server model, against theory and against a count of all its
// states by hand.
func TestClosed(t *testing.T) {
	text := network(long(60_000),
		"id: cpu, initial: 4, service: { distribution: exponential, mean: 0.5 }, to: { disk: 0.6, cpu: 0.1, tape: "+
			"0.3 }",
		"id: disk, servers: 2, "+exp1+", to: { cpu: 1 }",
		"id: tape, initial: 1, service: { distribution: exponential, mean: 1.5 }, to: { cpu: 1 }")
	r := modeltest.Summarize(t, modeltest.MustLoad(t, Kind(), text), 3, replications).(*Results)
	demand := []float64{0.5, 0.6, 0.45} // visits × service, per visit of the cpu
	servers := []int{1, 2, 1}
	var total, passed float64
	var present [3]float64
	const n = 5
	for i := 0; i <= n; i++ {
		for j := 0; i+j <= n; j++ {
			state := [3]int{i, j, n - i - j}
			weight := 1.0
			for k, customers := range state {
				for c := 1; c <= customers; c++ {
					weight *= demand[k] / float64(min(c, servers[k]))
				}
			}
			total += weight
			for k, customers := range state {
				present[k] += weight * float64(customers)
			}
			if i > 0 {
				passed += weight / 0.5
			}
		}
	}
	for k, id := range []string{"cpu", "disk", "tape"} {
		s := r.Stations[id]
		rate := passed / total * []float64{1, 0.6, 0.3}[k]
		compare(t, id+" arrivals", s.ArrivalRate, rate)
		compare(t, id+" in system", s.InSystem, present[k]/total)
		compare(t, id+" time", s.TimeInSystem, present[k]/total/rate)
		compare(t, id+" wait", s.WaitProbability, 0)
		compare(t, id+" queue", s.InQueue, 0)
	}
	if x := r.Network.InNetwork; math.Abs(x.Observed.Mean-n) > 1e-9 || math.Abs(*x.Theory-n) > 1e-9 || !*x.Within {
		t.Errorf("%v customers in a closed network of %d", x.Observed, n)
	}
	if r.Network.TimeInNetwork.Observed != nil {
		t.Error("somebody left a closed network")
	}
	withTransit := "transit: 0.8\n" + text
	r = modeltest.Summarize(t, modeltest.MustLoad(t, Kind(), withTransit), 3, replications).(*Results)
	for id, s := range r.Stations {
		compare(t, id+" with transit", s.InSystem, 0)
		compare(t, id+" with transit", s.Throughput, 0)
	}
	compare(t, "all with transit", Measure{Theory: r.Network.InNetwork.Theory, Observed: r.Network.InNetwork.Observed},
		n)
}

// TestNoTheory: no theorem, no number, and a reason.
func TestNoTheory(t *testing.T) {
	const more = "service: { distribution: exponential, mean: 2 }"
	for reason, text := range map[string]string{
		"the queue grows for ever": network(100, "id: a, arrivals: 0.8, "+more),
		"don't come like a Poisson process": network(100, "id: b, arrivals: 0.5, "+const1+", to: { a: 1 }",
			"id: a, "+exp1),
		"no formula for M/D/2":                 network(100, "id: a, servers: 2, arrivals: 0.5, "+const1),
		"no formula for M/D/1/3":               network(100, "id: a, buffer: 2, arrivals: 0.5, "+const1),
		"not all service times on the way are": network(100, "id: a, arrivals: 0.5, "+const1+", to: { a: 0.2 }"),
		"come back to where a buffer is limited": network(100,
			"id: a, buffer: 2, arrivals: 0.5, "+exp1+", to: { a: 0.2 }"),
		"how many come from the stations before": network(100, "id: b, arrivals: 0.8, "+more+", to: { a: 1 }",
			"id: a, "+exp1),
		"all service times must be exponential": network(100, "id: a, initial: 2, "+const1+", to: { a: 1 }"),
		"customers come from elsewhere, and nobody": network(100, "id: b, initial: 3, "+exp1+", to: { a: 0.5 }",
			"id: a, "+exp1+", to: { a: 1 }"),
		"customers don't come like a Poisson process": network(100,
			"id: a, arrivals: { distribution: constant, mean: 2 }, "+exp1),
	} {
		s := modeltest.MustLoad(t, Kind(), text)
		r := modeltest.Summarize(t, s, 1, 1).(*Results)
		a := r.Stations["a"]
		if !contains(a.NoTheory, reason) || a.InSystem.Theory != nil || r.Network.InNetwork.Theory != nil ||
			a.InSystem.Observed == nil {
			t.Errorf("%q is given for %q, with theory %v; observed %v", a.NoTheory, reason, a.InSystem.Theory,
				a.InSystem.Observed)
		}
	}
	// Rates are known where distributions aren't.
	r := modeltest.Summarize(t, modeltest.MustLoad(t, Kind(),
		network(20_000, "id: b, arrivals: 0.5, "+const1+", to: { a: 0.8 }", "id: a, "+exp1)), 1, 1).(*Results)
	compare(t, "rate", r.Stations["a"].Throughput, 0.4)
	compare(t, "utilisation", r.Stations["a"].Utilisation, 0.4)
}

// TestExample: the example is the network of TestJackson.
func TestExample(t *testing.T) {
	doc, err := scenario.ReadFile("../../examples/jackson.yml")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Load(doc, scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []float64{.670886, .580838, .517241} {
		if s := spec.theory()[i].steady; s == nil || math.Abs(s.present-x) > 1e-6 {
			t.Errorf("%s: theory %+v, want %v customers", spec.Stations[i].ID, s, x)
		}
	}
}
