// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"slices"
	"testing"
)

// outageSpec is a fan over two servers of which one is down for a while.
func outageSpec(algorithm string) *Spec {
	s := fan(40, 400, algorithm,
		oneEndpoint("srv-1", 1, 2048, 128, cpu(constant(0.002)), sleep(constant(0.012))),
		oneEndpoint("srv-2", 1, 2048, 128, cpu(constant(0.002)), sleep(constant(0.012))))
	s.Outages = []Outage{{ID: "down-1", Target: "srv-1", Start: 100, End: 200}}
	return s
}

// TestOutage: while a server is down, all traffic is on the other; nothing is lost;
// throughput before, during and after is the same within the confidence interval.
func TestOutage(t *testing.T) {
	for _, algorithm := range []string{RoundRobin, LeastConnection} {
		t.Run(algorithm, func(t *testing.T) {
			m := newModel(outageSpec(algorithm))
			n := fewer(20)
			r := simulate(t, m, 5, n)
			if r.RequestsDropped != 0 || r.RequestsGenerated != r.RequestsCompleted+r.RequestsInFlight ||
				r.RequestsInFlight > 20*int64(n) {
				t.Errorf("generated %d, completed %d, dropped %d, in flight %d: want none lost, some few in flight",
					r.RequestsGenerated, r.RequestsCompleted, r.RequestsDropped, r.RequestsInFlight)
			}
			o := r.Outages[0]
			if o.Before.From != 0 || o.Before.To != 100 || o.After.To != 300 || o.During.RequestsRPS != 0 {
				t.Errorf("outage %+v, before %+v, during %+v, after %+v: want phases of 100 s, and no request to the "+
					"server during it", o, *o.Before, *o.During, *o.After)
			}
			for _, p := range []*Phase{o.Before, o.After} {
				if algorithm == RoundRobin && math.Abs(p.RequestsRPS-20) > 0.5 {
					t.Errorf("%v requests/s to the server from %v on, want 20", p.RequestsRPS, p.From)
				}
			}
			// Poisson counts: the difference of two rates over 100 s each.
			sd := math.Sqrt(2 * 40 / (100 * float64(n)))
			for _, p := range []*Phase{o.During, o.After} {
				if d := p.ThroughputRPS - o.Before.ThroughputRPS; math.Abs(d) > 3.3*sd {
					t.Errorf("throughput changes by %v from %v to %v, more than chance (%v) explains", d, o.Before.From,
						p.From, sd)
				}
			}
			// Most of the time nothing is under way, so that least_connection takes the
			// first of its list: srv-1 before the outage, srv-2 after it.
			if algorithm == LeastConnection && (o.Before.RequestsRPS < 35 || o.After.RequestsRPS > 5) {
				t.Errorf("srv-1 got %v requests/s before and %v after, want most and few", o.Before.RequestsRPS,
					o.After.RequestsRPS)
			}
		})
	}
}

// TestOutageOrder watches every choice of the balancer: the list changes exactly at
// the planned times, and at one time ends come before starts.
func TestOutageOrder(t *testing.T) {
	s := outageSpec(RoundRobin)
	s.Outages = []Outage{
		{ID: "b", Target: "srv-2", Start: 200, End: 300}, // starts where the other ends
		{ID: "a", Target: "srv-1", Start: 100, End: 200},
	}
	m := newModel(s)
	d := newSerial(t, m, 3)
	d.run(t, 99)
	b := d.box("lb", rankRequest).(*balancer)
	var wantChanges []change
	wantChanges = append(wantChanges, change{100, 0, false}, change{200, 0, true}, change{200, 1, false},
		change{300, 1, true})
	if !slices.Equal(b.changes, wantChanges) {
		t.Fatalf("changes %v, want %v", b.changes, wantChanges)
	}
	live := func() []int32 {
		var in []int32
		r := b.list.(*rotation)
		for i := r.head; i >= 0; i = r.next[i] {
			in = append(in, i)
		}
		return in
	}
	for _, c := range []struct {
		at   float64
		want []int32
	}{{99.9, []int32{0, 1}}, {100, []int32{1}}, {200, []int32{0}}, {299, []int32{0}}, {300, []int32{0, 1}}} {
		d.now = c.at
		if err := b.handle(d.procs[m.topology.nodes["lb"].first*rankCount], nil); err != nil {
			t.Fatal(err)
		}
		got := live()
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("at %v the list has %v, want %v", c.at, got, c.want)
		}
	}
	d.now = 400
	if got := live(); !slices.Equal(got, []int32{0, 1}) {
		t.Errorf("srv-2 came back last, but the list is %v", got)
	}
}

// TestOutageInTree: the outage of a balancer takes all that it covers out of use.
func TestOutageInTree(t *testing.T) {
	srv := func(id string) Server { return oneEndpoint(id, 1, 1024, 0, cpu(constant(0.001))) }
	s := fan(100, 300, RoundRobin, srv("a"), srv("b"), srv("c"))
	// lb -> (sub -> (b, c), a)
	s.Balancers = append(s.Balancers, Balancer{ID: "sub", Algorithm: LeastConnection})
	for i := range s.Edges {
		if s.Edges[i].Source == "lb" && s.Edges[i].Target != "a" {
			s.Edges[i].Source = "sub"
		}
	}
	s.Edges = append(s.Edges, Edge{ID: "lb-sub", Source: "lb", Target: "sub", Latency: exponential(0.002)})
	s.Outages = []Outage{{ID: "sub-down", Target: "sub", Start: 100, End: 200}}
	m := newModel(s)
	for id, want := range map[string]float64{"gen": 100, "client": 200, "lb": 100, "sub": 50, "a": 100, "b": 50,
		"c": 50} {
		if got := m.Graph().Nodes[m.topology.nodes[id].first].Work; math.Abs(got-want) > 1e-9 {
			t.Errorf("expected work of %s is %v, want %v", id, got, want)
		}
	}
	r := simulate(t, m, 1, 1)
	if o := r.Outages[0]; o.During.RequestsRPS != 0 || math.Abs(o.Before.RequestsRPS-50) > 5 ||
		math.Abs(o.After.RequestsRPS-50) > 5 {
		t.Errorf("requests to the balancer: %v, %v, %v a second, want 50, 0, 50", o.Before.RequestsRPS,
			o.During.RequestsRPS, o.After.RequestsRPS)
	}
	if b, c := r.Server("b").Requests, r.Server("c").Requests; b == 0 || c == 0 || r.RequestsDropped != 0 {
		t.Errorf("b got %d, c %d, %d were dropped", b, c, r.RequestsDropped)
	}
}

// TestNothingLive: a spec made by hand can leave a balancer without anything to send
// to. The run ends with an error that says so.
func TestNothingLive(t *testing.T) {
	s := outageSpec(RoundRobin)
	s.Outages = append(s.Outages, Outage{ID: "down-2", Target: "srv-2", Start: 150, End: 160})
	m := newModel(s)
	e := newEngine(t, m, 1, 0, nil)
	if _, err := e.Run(1<<30, math.Inf(1)); err == nil {
		t.Fatal("the run went on with nothing live")
	} else {
		t.Log(err)
	}
}

// TestSpikes runs twice with the same seed, without and with overlapping spikes on
// one edge: every request's transit differs by exactly the spikes that are active
// when it enters, and everything before the edge is the same to the bit.
func TestSpikes(t *testing.T) {
	spec := func() *Spec { return fan(40, 200, RoundRobin, oneEndpoint("srv", 4, 2048, 0, cpu(constant(0.001)))) }
	history := func(s *Spec) (entered, left map[uint64]float64) {
		m := newModel(s)
		d := newSerial(t, m, 9)
		d.keep = true
		d.run(t, m.Horizon())
		entered, left = make(map[uint64]float64), make(map[uint64]float64)
		for _, e := range d.handled {
			r, err := getRequest(e.data)
			if err != nil {
				continue // a timer
			}
			switch m.Graph().Name(e.target) {
			case "client/request":
				entered[r.number] = e.epoch
			case "lb/request":
				left[r.number] = e.epoch
			}
		}
		return entered, left
	}
	with := spec()
	with.Spikes = []Spike{
		{ID: "s1", Target: "client-lb", Start: 50, End: 100, Extra: 0.25},
		{ID: "s2", Target: "client-lb", Start: 75, End: 150, Extra: 0.5},
		{ID: "s3", Target: "client-lb", Start: 150, End: 160, Extra: 8},
	}
	in1, out1 := history(spec())
	in2, out2 := history(with)
	for number, at := range in1 {
		if in2[number] != at {
			t.Fatalf("request %d reached the client at %v, and with spikes behind it at %v", number, at, in2[number])
		}
		extra := 0.0
		for _, s := range with.Spikes {
			if s.Start <= at && at < s.End {
				extra += s.Extra
			}
		}
		a, ok1 := out1[number]
		b, ok2 := out2[number]
		if ok1 && ok2 && math.Abs(b-a-extra) > 1e-12*b {
			t.Errorf("request %d, on the edge at %v, was delayed by %v, want %v", number, at, b-a, extra)
		}
		if ok1 && !ok2 && a+extra < 199 {
			t.Errorf("request %d got lost", number)
		}
	}
	r := simulate(t, newModel(with), 9, 1)
	for i, want := range [][3]float64{{0.002, 0.25 + 0.25, 0.5}, {0.083, 1.0/3*0.25 + 0.5, 8 * 10.0 / 50},
		{0.5, 8, 0.002}} {
		s := r.Spikes[i]
		for j, p := range []*Phase{s.Before, s.During, s.After} {
			if math.Abs(*p.TransitMean-want[j]) > 0.1*want[j]+0.03 {
				t.Errorf("spike %s, phase %d: mean transit %v, want %v", s.ID, j, *p.TransitMean, want[j])
			}
		}
	}
}
