// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// recorder of everything that node's engine handles.
type eventLog struct{ events []serialEvent }

func (l *eventLog) Event(_ int, level uint32, target node.SimprocID, ev *node.Event, _ uint64) {
	l.events = append(l.events, serialEvent{epoch: ev.Epoch, level: level, target: target, sender: ev.Sender,
		number: ev.Number, data: bytes.Clone(ev.Data)})
}

func (l *eventLog) Wakeup(int, uint32, node.SimprocID, float64) {}

// watchedModel notes the simprocs of a model, whose random streams the simple engine then
// draws from too.
type watchedModel struct {
	*Model
	procs map[node.SimprocID]*node.Simproc
}

func (k watchedModel) NewHandler(p *node.Simproc) (node.Handler, error) {
	k.procs[p.ID()] = p
	return k.Model.NewHandler(p)
}

// TestEngineAgainstSerial: node's engine and the simple one handle the same events with
// the same bytes in the same order, and report the same.
func TestEngineAgainstSerial(t *testing.T) {
	for seed := range uint64(3) {
		for _, algorithm := range []string{RoundRobin, LeastConnection} {
			m := newModel(metricsSpec(algorithm))
			k := watchedModel{m, make(map[node.SimprocID]*node.Simproc)}
			log := &eventLog{}
			e := newEngine(t, k, seed, 4, log)
			if _, err := e.Run(1<<30, math.Inf(1)); err != nil {
				t.Fatal(err)
			}
			s := newSerialFrom(t, m, func(id node.SimprocID, stream string) (high, low uint64) {
				return k.procs[id].Seed(stream)
			})
			s.keep = true
			s.run(t, m.Horizon())
			if len(log.events) != len(s.handled) || len(s.handled) < 5000 {
				t.Fatalf("seed %d: %d events on node's engine, %d on the simple one", seed, len(log.events),
					len(s.handled))
			}
			for i, got := range log.events {
				want := s.handled[i]
				if got.epoch != want.epoch || got.target != want.target || got.sender != want.sender ||
					got.number != want.number || !bytes.Equal(got.data, want.data) {
					t.Fatalf("seed %d: event %d is %+v, want %+v", seed, i, got, want)
				}
			}
			a, b := reportOf(t, m, e, 4, m.Horizon()), s.replication(t, 4, m.Horizon())
			if !slices.EqualFunc(a.Reports, b.Reports, bytes.Equal) {
				t.Errorf("seed %d: the reports differ", seed)
			}
		}
	}
}

// lanes joins engines in one goroutine: the least that workers must do.
type lanes struct{ engines []*node.Engine }

type lanePort struct {
	l         *lanes
	self      int
	placement []int32
	graph     *node.Graph
}

func (p lanePort) SendEvent(peer int, ev *envelope.Event) error {
	return p.l.engines[peer].ReceiveEvent(p.self, ev, 0)
}

func (p lanePort) SendPromise(int, *envelope.Promise) error { return nil }

// TestPlacement: however nodes are placed on workers, the reports are the same to
// the byte.
func TestPlacement(t *testing.T) {
	m := newModel(metricsSpec(LeastConnection))
	run := func(workers int, place func(n int) int32) scenario.Replication {
		placement := make([]int32, len(m.Graph().Nodes))
		for n := range placement {
			placement[n] = place(n)
		}
		l := &lanes{}
		for w := range workers {
			plan, err := node.NewPlan(m.Graph(), placement, w, workers)
			if err != nil {
				t.Fatal(err)
			}
			e, err := node.NewEngine(plan, node.Config{Model: m, Seed: 77, Horizon: m.Horizon(),
				Port: lanePort{l, w, placement, m.Graph()}})
			if err != nil {
				t.Fatal(err)
			}
			l.engines = append(l.engines, e)
		}
		told := make(map[[2]int]node.Bound)
		for next := (node.Bound{}); next != node.Never; {
			busy := false
			next = node.Never
			for w, e := range l.engines {
				n, err := e.Run(50, math.Inf(1))
				if err != nil {
					t.Fatal(err)
				}
				busy = busy || n > 0
				for peer, other := range l.engines {
					if b := e.OutBound(peer); peer != w && b != told[[2]int{w, peer}] {
						told[[2]int{w, peer}] = b
						busy = true
						if err := other.ReceiveBound(w, b); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			for _, e := range l.engines {
				if b := e.Next(); b.Before(next) {
					next = b
				}
			}
			for _, e := range l.engines {
				if !busy {
					e.Jump(next)
				}
			}
		}
		rep := scenario.Replication{Horizon: m.Horizon(), Reached: m.Horizon(),
			Reports: make([][]byte, m.Graph().NumSimprocs())}
		for _, e := range l.engines {
			for id, p := range reportOf(t, m, e, 0, m.Horizon()).Reports {
				if p != nil {
					rep.Reports[id] = p
				}
			}
		}
		return rep
	}
	want := run(1, func(int) int32 { return 0 })
	summarize(t, m, []scenario.Replication{want})
	for workers := 2; workers <= 4; workers++ {
		got := run(workers, func(n int) int32 { return int32(n % workers) })
		if !slices.EqualFunc(got.Reports, want.Reports, bytes.Equal) {
			t.Errorf("%d workers report something else than one", workers)
		}
	}
}

// TestSeeds: the same seed gives the same results to the byte, another seed and
// another replication others.
func TestSeeds(t *testing.T) {
	m := newModel(metricsSpec(RoundRobin))
	text := func(seed uint64) string {
		b, err := json.Marshal(simulate(t, m, seed, 2))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first, again := text(1), text(1)
	if first != again {
		t.Error("the same seed gave two results")
	}
	if first == text(2) {
		t.Error("two seeds gave the same results")
	}
	if rows := simulate(t, m, 1, 2).Replications; rows[0].Generated == rows[1].Generated &&
		*rows[0].LatencyMean == *rows[1].LatencyMean {
		t.Error("two replications are the same")
	}
}

// TestStreamsApart: a change in one box never shifts what another draws. Here a
// server's steps change, and the requests and their ways to it stay.
func TestStreamsApart(t *testing.T) {
	arrivals := func(change func(*Spec)) []float64 {
		s := metricsSpec(RoundRobin)
		change(s)
		m := newModel(s)
		d := newSerial(t, m, 6)
		d.keep = true
		d.run(t, m.Horizon())
		var at []float64
		for _, e := range d.handled {
			if m.Graph().Name(e.target) == "lb/request" {
				at = append(at, e.epoch)
			}
		}
		return at
	}
	want := arrivals(func(*Spec) {})
	got := arrivals(func(s *Spec) {
		s.Servers[0].Endpoints = s.Servers[0].Endpoints[:1]
		s.Servers[1].Endpoints[0].Steps = append(s.Servers[1].Endpoints[0].Steps, cpu(exponential(1)))
		s.Edges[len(s.Edges)-1].Dropout = 0.5
		s.Outages = nil
	})
	if !slices.Equal(got, want) {
		t.Error("a change behind the balancer changed what reaches it")
	}
}

// TestInterrupted stops a run of several workers' making in the middle, where boxes
// have come to different times: every request is still accounted for.
func TestInterrupted(t *testing.T) {
	m := newModel(metricsSpec(RoundRobin))
	e := newEngine(t, m, 1, 0, nil)
	if _, err := e.Run(1<<30, 12.5); err != nil {
		t.Fatal(err)
	}
	r := summarize(t, m, []scenario.Replication{reportOf(t, m, e, 0, 12.5)})
	if !r.Interrupted || r.SimulatedSeconds != 12.5 ||
		r.RequestsGenerated != r.RequestsCompleted+r.RequestsDropped+r.RequestsInFlight || r.RequestsInFlight == 0 {
		t.Errorf("%+v", r)
	}
	if got := float64(r.RequestsCompleted) / 12.5; got != r.ThroughputRPS {
		t.Errorf("throughput %v, want %v over the time reached", r.ThroughputRPS, got)
	}
	if o := r.Outages[0]; o.During == nil ||
		math.Abs(o.During.ThroughputRPS*2.5-math.Round(o.During.ThroughputRPS*2.5)) > 1e-9 {
		t.Errorf("the outage's phase isn't measured over the 2.5 s that were reached: %+v", o.During)
	}

	// Boxes at different times: the generator far ahead of the rest.
	s := newSerial(t, m, 1)
	s.run(t, 20)
	parts := s.replication(t, 0, 20).Reports
	s = newSerial(t, m, 1)
	s.run(t, 5)
	rep := s.replication(t, 0, 5)
	rep.Reports[nodeGenerator*rankCount] = parts[nodeGenerator*rankCount]
	r = summarize(t, m, []scenario.Replication{rep})
	if r.RequestsGenerated != r.RequestsCompleted+r.RequestsDropped+r.RequestsInFlight || r.RequestsInFlight < 500 {
		t.Errorf("generator at 20 s, the rest at 5 s: %+v", r)
	}
}

// TestConservation: Add sees a request that gets lost or comes twice.
func TestConservation(t *testing.T) {
	m := newModel(metricsSpec(RoundRobin))
	fresh := func() scenario.Replication {
		s := newSerial(t, m, 1)
		s.run(t, m.Horizon())
		return s.replication(t, 0, m.Horizon())
	}
	rep := fresh()
	summarize(t, m, []scenario.Replication{rep})
	for n := range m.topology.boxes {
		for field, of := range map[string]func(*boxReport) *int64{
			"received": func(p *boxReport) *int64 { return &p.Received },
			"passed":   func(p *boxReport) *int64 { return &p.Passed },
			"present":  func(p *boxReport) *int64 { return &p.Present },
		} {
			rep := fresh()
			p, err := readReport(rep.Reports[n*rankCount])
			if err != nil {
				t.Fatal(err)
			}
			*of(p)++
			if rep.Reports[n*rankCount], err = p.appendTo(nil); err != nil {
				t.Fatal(err)
			}
			if _, err := modeltest.Sum(m, rep); err == nil {
				t.Errorf("%s of %s is one too many, and nothing noticed", field, m.topology.boxes[n].id)
			}
		}
	}
	rep = fresh()
	rep.Reports[0] = nil
	if _, err := modeltest.Sum(m, rep); err == nil {
		t.Error("a missing report was not noticed")
	}
	if _, err := modeltest.Sum(m); err == nil {
		t.Error("a summary of nothing")
	}
}

// passagesOf are the requests under way behind the balancer "lb".
func passagesOf(s *serial) []heap.Item[passage] {
	o := &s.box("lb", rankRequest).(*balancer).out
	o.settle()
	return o.batch.waiting
}

// TestLedgers: the checked build notices a level that is wrong for any time.
func TestLedgers(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("only the checked build (-tags invariants) keeps ledgers")
	}
	m := newModel(metricsSpec(RoundRobin))
	for name, spoil := range map[string]func(*serial){
		"nothing": func(*serial) {},
		"level":   func(s *serial) { s.box("a", rankRequest).(*server).gauges.level[levelReady]++ },
		"area":    func(s *serial) { s.box("b", rankRequest).(*server).gauges.area[levelIO] += 1e-3 },
		"edge": func(s *serial) {
			passagesOf(s)[0].Value.entry += 1e-9
		},
		"request's place": func(s *serial) {
			clear(s.box("a", rankRequest).(*server).out.audit.server.since[levelWhole])
		},
		"residence": func(s *serial) { s.box("a", rankRequest).(*server).residence += 1e-9 },
		"between boxes": func(s *serial) { // off the edge before it reaches the server
			first := &passagesOf(s)[0]
			first.Key = first.Value.entry + (first.Key-first.Value.entry)/2
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if broken := recover() != nil; broken != (name != "nothing") {
					t.Errorf("assertion broken: %v", broken)
				}
			}()
			s := newSerial(t, m, 1)
			for at := 10.0; len(s.box("a", rankRequest).(*server).out.audit.server.since[levelWhole]) == 0 ||
				len(passagesOf(s)) == 0; at += 0.01 {
				s.run(t, at)
			}
			spoil(s)
			s.run(t, m.Horizon())
			if err := newTally(m).Add(s.replication(t, 0, m.Horizon())); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoAllocations: once its queues have grown, a run allocates nothing for a
// request.
func TestNoAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checked build's ledgers allocate")
	}
	if race.Enabled {
		t.Skip("the race detector makes it slow, and there is nothing to race with")
	}
	for _, algorithm := range []string{RoundRobin, LeastConnection} {
		s := metricsSpec(algorithm)
		s.Settings.Horizon = 20000
		e := newEngine(t, newModel(s), 1, 0, nil)
		run := func(n int) {
			if done, err := e.Run(n, math.Inf(1)); err != nil || done < n {
				t.Fatalf("%d of %d activations: %v", done, n, err)
			}
		}
		run(500_000)
		if n := testing.AllocsPerRun(20, func() { run(10000) }); n > 0 {
			t.Errorf("%s: %v allocations in 10,000 activations", algorithm, n)
		}
	}
}
