// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

// within fails unless want lies in the 99.9 % confidence interval of the mean of
// the replications' values, and that interval is no wider than the given part of
// want to each side: a test that could not fail would prove nothing.
func within(t *testing.T, what string, values []float64, want, widest float64) {
	t.Helper()
	mean, sd := stat.MeanStdDev(values, nil)
	n := float64(len(values))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.9995) * sd / math.Sqrt(n)
	t.Logf("%s: %.6g ± %.2g, want %.6g", what, mean, half, want)
	if math.Abs(mean-want) > half {
		t.Errorf("%s: %.6g ± %.2g from %d replications, want %.6g", what, mean, half, len(values), want)
	}
	if int(n) >= replicationsWanted && half > widest*want {
		t.Errorf("%s: the interval ± %.2g is wider than %v of %v", what, half, widest, want)
	}
}

const replicationsWanted = 10

func latencyMeans(r *Results) []float64 {
	var x []float64
	for _, row := range r.Replications {
		x = append(x, *row.LatencyMean)
	}
	return x
}

func throughputs(r *Results) []float64 {
	var x []float64
	for _, row := range r.Replications {
		x = append(x, row.ThroughputRPS)
	}
	return x
}

// TestQueues holds single queues against their closed forms. Times are in units of
// the mean service time; runs are so long that the transient at the start doesn't
// matter.
func TestQueues(t *testing.T) {
	const horizon = 0 // set below: as long as 64,000 requests take
	queue := func(rate float64, cores int, service Dist) *Spec {
		return tandem(rate, horizon, oneEndpoint("srv", cores, 1024, 0, cpu(service)))
	}
	for _, c := range []struct {
		name string
		spec *Spec
		want float64 // mean time in the system
	}{
		{"M/M/1, rate 0.8", queue(0.8, 1, exponential(1)), 5},
		{"M/M/2, rate 1.5", queue(1.5, 2, exponential(1)), 1 + 1.285714},
		{"M/M/3, rate 2", queue(2, 3, exponential(1)), 1 + 0.444444},
		{"M/M/8, rate 6.4", queue(6.4, 8, exponential(1)), 1 + 0.286028},
		{"M/D/1, rate 0.8 (Pollaczek and Khinchine)", queue(0.8, 1, constant(1)), 3},
		{"M/D/1, rate 0.5", queue(0.5, 1, constant(1)), 1.5},
		// Memory for two at a time, and I/O, of which there is no limit: M/M/2 again.
		{"memory as the server", tandem(1.5, horizon, oneEndpoint("srv", 1, 256, 128, sleep(exponential(1)))), 1 +
			1.285714},
		// Burke: the departures of M/M/1 are Poisson, so the second queue is M/M/1 too.
		{"two M/M/1 in a row, rate 0.5", tandem(0.5, horizon, oneEndpoint("a", 1, 256, 0, cpu(exponential(1))),
			oneEndpoint("b", 1, 256, 0, cpu(exponential(1)))), 4},
		// A core is given back for I/O: the queue is M/M/1, the I/O pure delay.
		{"M/M/1 and delay, rate 0.5", tandem(0.5, horizon,
			oneEndpoint("a", 1, 256, 0, cpu(exponential(1)), sleep(constant(7)))), 2 + 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.spec.Settings.Horizon = float64(fewer(64000)) / c.spec.Workload.Users.Mean
			m := newModel(c.spec)
			r := simulate(t, m, 2024, fewer(replicationsWanted))
			within(t, "mean time in the system", latencyMeans(r), c.want, 0.08)
		})
	}
}

// TestUsersSpread: the variance of normal users is one, so 25 gives them a standard
// deviation of 5.
func TestUsersSpread(t *testing.T) {
	s := tandem(1, 1, oneEndpoint("srv", 1, 1024, 0))
	s.Workload.Users, s.Workload.RequestsPerMinute = Dist{Kind: Normal, Mean: 100, StdDev: 5}, 1
	m := newModel(s)
	var users []float64
	for seed := range uint64(400) {
		users = append(users, simulate(t, m, seed, 1).Generator.UsersMean)
	}
	if mean, sd := stat.MeanStdDev(users, nil); math.Abs(mean-100) > 1 || math.Abs(sd-5) > 0.75 {
		t.Errorf("%v ± %v users, want 100 ± 5", mean, sd)
	}
}

// TestExampleMD1 holds examples/md1.yml against what its own comment derives.
func TestExampleMD1(t *testing.T) {
	doc, err := scenario.ReadFile("../../examples/md1.yml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Kind().Load(doc, scenario.Options{Horizon: 600})
	if err != nil {
		t.Fatal(err)
	}
	r := simulate(t, s.(*Model), 80, fewer(20))
	const (
		rate, service = 80.0, 0.010
		busy          = rate * service
		wait          = busy * service / (2 * (1 - busy)) // Pollaczek and Khinchine
	)
	within(t, "mean latency", latencyMeans(r), 3e-6+wait+service, 0.02)
	within(t, "throughput", throughputs(r), rate, 0.01)
	if r.RequestsDropped != 0 {
		t.Errorf("%d requests were dropped", r.RequestsDropped)
	}
	// The example's own tables must say so too: 95 % intervals of independent figures,
	// doubled, so that chance alone fails one in tens of thousands.
	for what, c := range map[string]struct {
		got  measure.Interval
		want float64
	}{
		"utilisation": {r.ServerConfidence("server").Utilisation, busy},
		"ready queue": {r.ServerConfidence("server").ReadyQueueMean, rate * wait},
	} {
		if math.Abs(c.got.Mean-c.want) > 2*c.got.HalfWidth {
			t.Errorf("%s: %.6g ± %.2g, want %.6g", what, c.got.Mean, c.got.HalfWidth, c.want)
		}
	}
}

// TestServerMetrics holds a server's own figures against those of M/M/1: L = 4,
// Lq = 3.2, utilisation 0.8, and its memory, which each request holds while in it.
func TestServerMetrics(t *testing.T) {
	m := newModel(tandem(0.8, 50000, oneEndpoint("srv", 1, 1e6, 10, cpu(exponential(1)))))
	r := simulate(t, m, 7, 2)
	s := r.Server("srv")
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"utilisation", s.Utilisation, 0.8}, {"ready queue", s.ReadyQueueMean, 3.2},
		{"requests in the server", s.RequestsInMean, 4},
		{"memory", s.RAMMean, 40}, {"residence", *s.ResidenceMean, 5}, {"I/O", s.IOMean, 0},
		{"memory queue", s.RAMQueueMean, 0},
	} {
		if math.Abs(c.got-c.want) > 0.15*c.want {
			t.Errorf("%s: %v, want about %v", c.what, c.got, c.want)
		}
	}
	// Little's law ties three figures that are computed apart.
	if l := float64(s.Requests) / r.SimulatedSeconds * *s.ResidenceMean; math.Abs(l-s.RequestsInMean) > 0.01*l {
		t.Errorf("rate × residence is %v, requests in the server %v", l, s.RequestsInMean)
	}
}

// TestPureDelay: I/O has no limit, so every request takes exactly its length.
func TestPureDelay(t *testing.T) {
	m := newModel(tandem(50, 200, oneEndpoint("srv", 1, 256, 0, sleep(constant(0.1)), sleep(constant(0.15)))))
	l := simulate(t, m, 1, 1).Latency
	if math.Abs(l.Min-0.25) > 1e-12 || math.Abs(l.Max-0.25) > 1e-12 || math.Abs(l.P50-0.25) > 0.25e-3 ||
		l.StdDev > 1e-12 {
		t.Errorf("latency %+v, want 0.25 throughout", l)
	}
}

// arrivals and departures are what a server was given and did, read from the events
// of the simple engine.
func serverHistory(t *testing.T, m *Model, seed uint64) (arrivals, departures []float64) {
	t.Helper()
	s := newSerial(t, m, seed)
	s.keep = true
	s.run(t, m.Horizon())
	g := m.Graph()
	for _, e := range s.handled {
		switch {
		case g.Name(e.target) == "srv/request" && e.sender != e.target:
			arrivals = append(arrivals, e.epoch)
		case g.Name(e.target) == "client/response":
			departures = append(departures, e.epoch)
		}
	}
	return arrivals, departures
}

// TestLindley holds a single-core server against Lindley's recursion, event by
// event, exact to the bit: with exponential services drawn from the very stream
// that the server draws from, in the form D' = max(A', D) + S; and with times that
// are whole multiples of 2^-20, where no sum rounds, in the form
// W' = max(0, W + S - T).
func TestLindley(t *testing.T) {
	m := newModel(tandem(0.9, 20000, oneEndpoint("srv", 1, 256, 0, cpu(exponential(1)))))
	arrivals, departures := serverHistory(t, m, 11)
	service := newSampler(exponential(1), testSource(11, "srv/request/endpoint/0/step/0"))
	if len(departures) < 15000 {
		t.Fatalf("only %d departures", len(departures))
	}
	done := 0.0
	for i, got := range departures {
		done = max(arrivals[i], done) + service.draw()
		if got != done {
			t.Fatalf("request %d left at %v, want %v", i, got, done)
		}
	}

	m = newModel(tandem(0.9, 20000, oneEndpoint("srv", 1, 256, 0, cpu(constant(1)))))
	grid := newGrid(t, m, 12)
	wait, last := 0.0, grid.arrivals[0]
	for i, got := range grid.departures {
		if i > 0 {
			wait = max(0, wait+1-(grid.arrivals[i]-last))
			last = grid.arrivals[i]
		}
		if want := grid.arrivals[i] + wait + 1; got != want {
			t.Fatalf("request %d left at %v, want %v after waiting %v", i, got, want, wait)
		}
	}
}

// grid is a run of the server alone, fed with arrivals on a grid.
type grid struct{ arrivals, departures []float64 }

func newGrid(t *testing.T, m *Model, seed uint64) *grid {
	t.Helper()
	s := newSerial(t, m, seed)
	s.pending = nil
	s.keep = true
	id := m.Graph().ID(m.topology.link(1).To)
	gen := distuv.Exponential{Rate: 0.9, Src: testSource(seed, "grid")}
	g := &grid{}
	var data [requestBytes]byte
	for at := 0.0; ; {
		at += math.Floor(gen.Rand()*(1<<20)) / (1 << 20)
		if at >= m.Horizon()-200 {
			break
		}
		request{born: at, number: uint64(len(g.arrivals))}.put(&data)
		p := s.procs[m.Graph().ID(m.topology.link(1).From)]
		if err := s.add(p, id, at, data[:], false); err != nil {
			t.Fatal(err)
		}
		g.arrivals = append(g.arrivals, at)
	}
	s.run(t, m.Horizon())
	for _, e := range s.handled {
		if m.Graph().Name(e.target) == "client/response" {
			g.departures = append(g.departures, e.epoch)
		}
	}
	if len(g.departures) != len(g.arrivals) {
		t.Fatalf("%d arrivals, %d departures", len(g.arrivals), len(g.departures))
	}
	return g
}

// TestEndpointsAndBursts: the endpoint is picked uniformly, a core is held over CPU
// steps in a row and given back for I/O, and steps of no length take no time.
func TestEndpointsAndBursts(t *testing.T) {
	srv := Server{ID: "srv", Cores: 1, RAM: 1024, Endpoints: []Endpoint{
		{Name: "/none"},
		{Name: "/zero", RAM: 1, Steps: []Step{cpu(constant(0)), sleep(constant(0)), cpu(constant(0))}},
		{Name: "/long", RAM: 1, Steps: []Step{cpu(constant(0.25)), cpu(constant(0.25)), sleep(constant(1)),
			cpu(constant(0.5))}},
	}}
	m := newModel(tandem(0.3, 50000, srv))
	if p := m.graph.Nodes[m.topology.nodes["srv"].first].Work; math.Abs(p-0.3*(1+6.0/3)) > 1e-12 {
		t.Errorf("expected work %v, want 0.9 events a second", p)
	}
	r := simulate(t, m, 3, 1)
	s := r.Server("srv")
	for _, e := range s.Endpoints {
		if math.Abs(float64(e.Requests)/float64(s.Requests)-1.0/3) > 0.02 {
			t.Errorf("endpoint %s got %d of %d requests, want a third", e.Name, e.Requests, s.Requests)
		}
	}
	// One request of three has 1 s of core and 1 s of I/O.
	long := float64(s.Endpoints[2].Requests) / r.SimulatedSeconds
	if math.Abs(s.Utilisation-long) > 1e-3 || math.Abs(s.IOMean-long) > 1e-3 {
		t.Errorf("utilisation %v and I/O %v, want %v", s.Utilisation, s.IOMean, long)
	}
	if l := r.Latency; l.Min != 0 || l.Max < 2 {
		t.Errorf("latency from %v to %v, want from 0 to 2 or more", l.Min, l.Max)
	}
}
