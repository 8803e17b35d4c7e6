// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/gml"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// scaled is fewer in short runs.
func scaled(n int) int {
	if testing.Short() {
		return max(1, n/10)
	}
	return n
}

// line is a chain of n nodes at one place, with links of the given rate.
func line(t testing.TB, n int, rate float64) *Topology {
	t.Helper()
	g := &gml.Graph{}
	for i := range n {
		g.Nodes = append(g.Nodes, gml.Node{ID: int64(i), Label: fmt.Sprintf("n%d", i), Placed: true})
		if i > 0 {
			g.Edges = append(g.Edges, gml.Edge{Source: i - 1, Target: i, Rate: rate})
		}
	}
	top, _, err := newTopology(g, rate)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// oneLink is a single link that sends a packet of mean size, 1000 bytes, in a second,
// and gets load packets a second.
func oneLink(t testing.TB, load float64, sizes Sizes, buffer int, horizon float64) *Spec {
	return &Spec{
		Name: "one", Horizon: horizon, Topology: line(t, 2, 8000), BufferPackets: buffer, Arrivals: Poisson,
		Sizes: sizes,
		Flows: []Flow{{From: 0, To: 1, Rate: load}}, Reconverge: 0.2,
	}
}

var (
	fixed       = Sizes{Kind: Fixed, Mean: 1000}
	exponential = Sizes{Kind: Exponential, Mean: 1000}
)

// holds fails unless want lies in the 99.9 % confidence interval of the mean of the
// replications' values, and that interval is no wider than the given part of want to
// each side: a test that could not fail would prove nothing.
func holds(t *testing.T, what string, values []float64, want, widest float64) {
	t.Helper()
	mean, sd := stat.MeanStdDev(values, nil)
	n := float64(len(values))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.9995) * sd / math.Sqrt(n)
	t.Logf("%s: %.6g ± %.2g, want %.6g", what, mean, half, want)
	if math.Abs(mean-want) > half {
		t.Errorf("%s: %.6g ± %.2g from %d replications, want %.6g", what, mean, half, len(values), want)
	}
	if !testing.Short() && half > widest*want {
		t.Errorf("%s: the interval ± %.2g is wider than %v of %v", what, half, widest, want)
	}
}

// TestQueues holds a single link against queueing theory: packets of one size make it
// M/D/1, exponential sizes M/M/1, and a finite buffer M/M/1/K, where K counts the packet
// being sent too.
func TestQueues(t *testing.T) {
	const load = 0.8
	const unlimited = 1 << 20
	lossOf := func(k int) float64 {
		return (1 - load) * math.Pow(load, float64(k)) / (1 - math.Pow(load, float64(k+1)))
	}
	for _, c := range []struct {
		name          string
		sizes         Sizes
		buffer        int
		wait, blocked float64
		load          float64
	}{
		{"M/D/1, rate 0.8", fixed, unlimited, 2, 0, 0.8},
		{"M/D/1, rate 0.5", fixed, unlimited, 0.5, 0, 0.5},
		{"M/M/1, rate 0.8", exponential, unlimited, 4, 0, 0.8},
		{"M/M/1, rate 0.5", exponential, unlimited, 1, 0, 0.5},
		// ORACLES: P_K = .0888195, W = 2.563065 of those admitted.
		{"M/M/1/5, rate 0.8", exponential, 4, 2.563065 - 1, lossOf(5), 0.8},
		{"M/M/1/1, rate 0.8", exponential, 0, 0, lossOf(1), 0.8},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := New(oneLink(t, c.load, c.sizes, c.buffer, float64(scaled(60_000))))
			r := modeltest.Summarize(t, m, 2026, 10).(*Results)
			var latency, ratio []float64
			for _, rep := range r.Replications {
				latency = append(latency, *rep.LatencyMean)
				ratio = append(ratio, float64(rep.LostBy.FullBuffer)/float64(rep.Sent))
			}
			holds(t, "mean latency", latency, c.wait+1+m.spec.Topology.Cables[0].Delay, 0.09)
			if c.blocked > 0 {
				holds(t, "part lost", ratio, c.blocked, 0.09)
			} else if r.Lost != 0 {
				t.Errorf("%d packets lost", r.Lost)
			}
			l := r.Links[0]
			if want := c.load * (1 - c.blocked); !near(l.Utilisation, want, 0.03) {
				t.Errorf("utilisation %v, want %v", l.Utilisation, want)
			}
			// Little's law for the queue: mean length = rate × mean wait.
			if rate := float64(l.Packets) / r.SimulatedSeconds; !near(l.QueueMean, rate*l.WaitMean, 1e-9) {
				t.Errorf("queue of %v, but %v packets/s wait %v s", l.QueueMean, rate, l.WaitMean)
			}
			if back := r.Links[1]; back.Packets != 0 || back.Utilisation != 0 {
				t.Errorf("the way back: %+v", back)
			}
		})
	}
}

// TestEmptyNetwork: where packets never meet, the latency of every one of them is that
// of the shortest way, by gonum's Dijkstra, to the last bit. Networks: made at random,
// and the Zoo's.
func TestEmptyNetwork(t *testing.T) {
	check := func(t *testing.T, s *Spec) {
		m := New(s)
		r := modeltest.Summarize(t, m, 3, 1).(*Results)
		var want []float64
		root, delivered := -1, 0
		for i, f := range r.Flows {
			spec := s.Flows[i]
			if spec.From != root {
				root = spec.From
				want = reference(s.Topology, m.metric, root, func(int) bool { return false })
			}
			way := want[spec.To]
			switch {
			case math.IsInf(way, 1):
				if f.Delivered != 0 || f.LostBy.NoRoute != f.Sent || f.ShortestPath != nil {
					t.Fatalf("%s to %s, which has no way: %+v", f.From, f.To, f)
				}
			case f.ShortestPath == nil || *f.ShortestPath != way:
				t.Fatalf("%s to %s: the shortest path takes %v, want %v", f.From, f.To, f.ShortestPath, way)
			case f.Latency != nil && (f.Latency.Min != way || f.Latency.Max != way || f.Latency.P50 != way):
				t.Fatalf("%s to %s: latency %v to %v, want %v", f.From, f.To, f.Latency.Min, f.Latency.Max, way)
			}
			delivered += int(f.Delivered)
		}
		for _, l := range r.Links {
			if l.WaitMax != 0 {
				t.Fatalf("packets met on %s: the network isn't empty", l.Link)
			}
		}
		if delivered < 100 {
			t.Errorf("%d packets delivered", delivered)
		}
	}
	// Constant flows of one common, very long period, a few packets each.
	spec := func(top *Topology) *Spec {
		s := &Spec{Name: "empty", Topology: top, BufferPackets: 1000, Arrivals: Constant,
			Sizes: Sizes{Kind: Fixed, Mean: 977}}
		for from := range top.Nodes {
			for to := range top.Nodes {
				if from != to {
					s.Flows = append(s.Flows, Flow{From: from, To: to, Rate: 1e-6})
				}
			}
		}
		s.Horizon = 4e6
		return s
	}
	for round := range 3 {
		t.Run(fmt.Sprintf("random %d", round), func(t *testing.T) {
			check(t, spec(randomTopology(newRand(uint64(round)), 12, 20, false)))
		})
	}
	t.Run("zoo", func(t *testing.T) {
		for _, file := range zooFiles(t) {
			s := zooSpec(t, file, "traffic: { matrix: uniform, packets_per_second: 1 }\n")
			if len(s.Topology.Nodes) > 60 {
				continue
			}
			s = spec(s.Topology)
			check(t, s)
		}
	})
}

// TestReconvergence follows a flow of constant packets through an outage of its link:
// what is lost, when the way around is taken, and when it ends, all to the packet.
func TestReconvergence(t *testing.T) {
	g, err := gml.Parse("t.gml", []byte(`graph [
node [ id 0 label "a" Latitude 0 Longitude 0 ]
node [ id 1 label "b" Latitude 0 Longitude 10 ]
node [ id 2 label "c" Latitude 8 Longitude 5 ]
edge [ source 0 target 1 ] edge [ source 0 target 2 ] edge [ source 2 target 1 ] ]`))
	if err != nil {
		t.Fatal(err)
	}
	top, _, err := newTopology(g, 1e9)
	if err != nil {
		t.Fatal(err)
	}
	const rate, down, up, reconverge = 1000.0, 4.0, 6.0, 0.25
	s := &Spec{
		Name: "cut", Horizon: 10, Topology: top, BufferPackets: 10, Arrivals: Constant, Sizes: fixed,
		Reconverge: reconverge,
		Flows:      []Flow{{From: 0, To: 1, Rate: rate}},
		Events: []Event{{ID: "e", Kind: LinkDown, Targets: []Target{{Name: "a - b", Node: -1, Cables: []int{0}}},
			From: down, To: up}},
	}
	m := New(s)
	r := modeltest.Summarize(t, m, 1, 1).(*Results)
	direct, around := m.metric[0], m.metric[2]+m.metric[4]
	// Lost: those on the cable, or being sent, at the cut, and those sent before the
	// routes know. Around: those from then on until the routes know of the repair.
	lost := (down + reconverge) - (down - direct)
	if f := r.Flows[0]; math.Abs(float64(f.LostBy.Outage)-lost*rate) > 1 || f.Lost != f.LostBy.Outage ||
		f.Latency.Min != direct || f.Latency.Max != around {
		t.Errorf("want %v lost and latencies of %v and %v: %+v %+v", lost*rate, direct, around, f, f.Latency)
	}
	if detour := (up + reconverge) - (down + reconverge); math.Abs(float64(r.Links[2].Packets)-detour*rate) > 1 ||
		r.Hops.Max != 2 {
		t.Errorf("%d packets on the way around for %v s, hops %+v", r.Links[2].Packets, detour, r.Hops)
	}
	o := r.Outages[0]
	if o.Before.Lost.Outage != 0 || o.After.Lost.Outage != 0 || *o.Before.LatencyMean != direct ||
		o.During.Links.Utilisation != 0 || o.After.Links.CarriedPPS == 0 ||
		o.During.Links.Lost != o.During.Lost.Outage {
		t.Errorf("phases %+v, %+v, %+v", o.Before, o.During, o.After)
	}
	if e := r.Events[0]; e.Count != 1 || e.Seconds != up-down {
		t.Errorf("event %+v", e)
	}
}

// storm is a network in which everything happens at once.
func storm(t testing.TB) *Spec {
	s := mustLoad(t, `model: network
topology: testdata/net.gml
horizon: 12
links: { rate_bps: 1.2e6, buffer_packets: 8, buffer_bytes: 9000 }
routing: { reconverge_s: 0.05 }
traffic:
  matrix: gravity
  mass: Mass
  packets_per_second: 900
  packet_bytes: { distribution: discrete, values: [{ bytes: 64, share: 1 },
    { bytes: 576, share: 1 }, { bytes: 1500, share: 1 }] }
  flows: [{ from: a, to: j, packets_per_second: 50 }, { from: a, to: c, packets_per_second: 70 }]
events:
  - { id: cut, kind: link_down, link: [a, b], parallel: 2, from: 2, to: 3 }
  - { id: both, kind: link_down, link: [a, b], from: 2.5, to: 4 }
  - { id: node, kind: node_down, node: c, from: 6, to: 7 }
  - { id: slow, kind: latency, link: [c, j], from: 1, to: 11, added_s: 0.001 }
  - { id: slower, kind: latency, link: [c, j], from: 5, to: 9, added_s: 0.01 }
  - { id: lossy, kind: loss, link: [b, c], from: 1, to: 11, probability: 0.3 }
  - { id: links, kind: link_down, link: all, mtbf: 5, mttr: 0.3 }
  - { id: nodes, kind: node_down, node: all, mtbf: 20, mttr: 0.2 }
  - { id: noise, kind: loss, link: all, mtbf: 4, mttr: 1, probability: 0.05 }
  - { id: late, kind: node_down, node: a, from: 11.9, to: 20 }
  - { id: beyond, kind: node_down, node: a, from: 13, to: 20 }
`)
	return s
}

// TestStorm: nothing goes uncounted when everything happens, for every flow, and the
// books of phases agree with those of the whole.
func TestStorm(t *testing.T) {
	r := modeltest.Summarize(t, New(storm(t)), 9, 3).(*Results)
	l := r.LostBy
	if l.FullBuffer == 0 || l.Outage == 0 || l.NoRoute == 0 || l.Random == 0 || r.InFlight == 0 {
		t.Fatalf("it was no storm: %+v, %d in flight", l, r.InFlight)
	}
	if r.Sent != r.Delivered+r.Lost+r.InFlight || r.Lost != l.FullBuffer+l.Outage+l.NoRoute+l.Random {
		t.Errorf("%d sent, %d delivered, %d lost (%+v), %d in flight", r.Sent, r.Delivered, r.Lost, l, r.InFlight)
	}
	var sum FlowResult
	for _, f := range r.Flows {
		if f.InFlight < 0 || f.Sent != f.Delivered+f.Lost+f.InFlight {
			t.Errorf("flow %+v", f)
		}
		sum.Sent += f.Sent
		sum.Delivered += f.Delivered
		sum.Lost += f.Lost
		sum.InFlight += f.InFlight
	}
	if sum.Sent != r.Sent || sum.Delivered != r.Delivered || sum.Lost != r.Lost || sum.InFlight != r.InFlight {
		t.Errorf("flows add up to %+v", sum)
	}
	var flying int64
	for _, k := range r.Links {
		flying += k.InFlight
		if k.Utilisation < 0 || k.Utilisation > 1 || k.QueueMax > 8 || k.QueueMean > 8 {
			t.Errorf("link %+v", k)
		}
	}
	if flying != r.InFlight {
		t.Errorf("%d in flight on links, %d in all", flying, r.InFlight)
	}
	if len(r.Outages) < detailedMax || r.Events[10].Count != 0 || r.Events[6].Count < 30 {
		t.Errorf("%d outages looked at, events %+v", len(r.Outages), r.Events)
	}
	for _, o := range r.Outages {
		if o.Kind == LinkDown && !o.During.sane(0) {
			t.Errorf("during %s of %s the link carried packets: %+v", o.ID, o.Target, o.During.Links)
		}
	}
	if c := r.Confidence; c == nil || c.LatencyMean == nil || c.LatencyMean.HalfWidth <= 0 {
		t.Errorf("confidence %+v", c)
	}
}

// sane reports whether the links of the phase carried no more than that.
func (p *Phase) sane(carried float64) bool {
	return p == nil || p.Links == nil || p.Links.CarriedPPS <= carried && p.Links.Utilisation <= carried
}

// TestSpread: the same to the byte, trace and reports, on 1, 2, 3 and 4 engines.
func TestSpread(t *testing.T) {
	for seed := range uint64(scaled(2)) {
		o := modeltest.ComparePlacements(t, New(storm(t)), seed)
		if o.Events < 5000 {
			t.Errorf("%d events: too few to show anything", o.Events)
		}
	}
	doc, err := scenario.ReadFile("../../examples/backbone.yml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Kind().Load(Kind().Attach(doc, nil), scenario.Options{Horizon: float64(scaled(20)) / 100})
	if err != nil {
		t.Fatal(err)
	}
	modeltest.ComparePlacements(t, s, 1)
}

// TestInterrupted stops a run in the middle, with engines at different times: every
// packet is still accounted for.
func TestInterrupted(t *testing.T) {
	m := New(storm(t))
	placement := make([]int32, len(m.Graph().Nodes))
	var engines []*node.Engine
	for w := range 2 {
		for n := range placement {
			placement[n] = int32(n % 2)
		}
		plan, err := node.NewPlan(m.Graph(), placement, w, 2)
		if err != nil {
			t.Fatal(err)
		}
		e, err := node.NewEngine(plan, node.Config{Model: m, Seed: 4, Horizon: m.Horizon(),
			Port: &lanes{&engines, w, placement}})
		if err != nil {
			t.Fatal(err)
		}
		engines = append(engines, e)
	}
	for step := 0; step < 3000; step++ {
		w := step % 2
		if _, err := engines[w].Run(3+4*w, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
		if err := engines[1-w].ReceiveBound(w, engines[w].OutBound(1-w)); err != nil {
			t.Fatal(err)
		}
	}
	reached := min(engines[0].Reached(), engines[1].Reached())
	rep := scenario.Replication{Horizon: m.Horizon(), Reached: reached, Reports: make([][]byte, len(placement))}
	for _, e := range engines {
		parts, err := e.Report(reached)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			rep.Reports[p.Simproc] = p.Data
		}
	}
	sum, err := modeltest.Sum(m, rep)
	if err != nil {
		t.Fatal(err)
	}
	if r := sum.(*Results); !r.Interrupted || r.Sent == 0 || r.Sent != r.Delivered+r.Lost+r.InFlight || reached <= 1 ||
		reached >= m.Horizon() {
		t.Errorf("interrupted at %v: %+v", reached, r)
	}
}

// lanes joins two engines without a transport.
type lanes struct {
	engines   *[]*node.Engine
	self      int
	placement []int32
}

// SendEvent hands the event over at once.
func (l *lanes) SendEvent(peer int, ev *envelope.Event) error {
	return (*l.engines)[peer].ReceiveEvent(l.self, ev, 0)
}

// SendPromise drops the promise: the test tells bounds itself.
func (l *lanes) SendPromise(int, *envelope.Promise) error { return nil }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 77)) }
