// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"testing"
)

// probes looks at every box at every tick and at every change, as the file's metrics
// are defined, and does all sums the obvious way.
type probes struct {
	s      *serial
	next   int64
	last   float64
	server map[string]*[levelCount]probe
	edge   map[string]*probe
}

type probe struct {
	area, sum float64
	peak, top int64
	samples   int64
}

func (p *probe) lasted(level int64, dt float64) {
	if dt > 0 {
		p.area += float64(level) * dt
		p.peak = max(p.peak, level)
	}
}

func (p *probe) tick(level int64) {
	p.sum += float64(level)
	p.top = max(p.top, level)
	p.samples++
}

// watch hooks probes into the simple engine.
func watch(s *serial) *probes {
	w := &probes{s: s, next: 1, server: make(map[string]*[levelCount]probe), edge: make(map[string]*probe)}
	for _, e := range s.model.spec.Edges {
		w.edge[e.ID] = &probe{}
	}
	for _, v := range s.model.spec.Servers {
		w.server[v.ID] = &[levelCount]probe{}
	}
	s.probe = w.warm
	return w
}

// warm is until, which begins anew at the end of the warm-up.
func (w *probes) warm(now float64) {
	if at := w.s.model.warmup; w.last < at && at <= now {
		w.until(at)
		for _, ps := range w.server {
			*ps = [levelCount]probe{}
		}
		w.edges(at, func(p *probe, _ int64) { *p = probe{} })
	}
	w.until(now)
}

// until accounts for the time from the last call to now: first every tick in it,
// then every piece between two arrivals.
func (w *probes) until(now float64) {
	period := w.s.model.spec.Settings.SamplePeriod
	for ; float64(w.next)*period < now; w.next++ {
		at := float64(w.next) * period
		w.servers(func(p *probe, level int64) { p.tick(level) })
		w.edges(at, func(p *probe, level int64) { p.tick(level) })
	}
	w.servers(func(p *probe, level int64) { p.lasted(level, now-w.last) })
	cuts := []float64{w.last, now}
	for _, o := range w.outboxes() {
		for _, p := range o.under() {
			if p.Key > w.last && p.Key < now {
				cuts = append(cuts, p.Key)
			}
		}
	}
	for {
		// Selection by hand: the earliest cut after the last.
		next := now
		for _, c := range cuts {
			if c > w.last && c < next {
				next = c
			}
		}
		at := w.last
		w.edges(at, func(p *probe, level int64) { p.lasted(level, next-at) })
		w.last = next
		if next == now {
			return
		}
	}
}

func (w *probes) servers(each func(*probe, int64)) {
	for id, ps := range w.server {
		v := w.s.box(id, rankRequest).(*server)
		for l := range ps {
			each(&ps[l], v.gauges.level[l])
		}
	}
}

// edges gives the count in transit on each edge at a time between two activations.
func (w *probes) edges(at float64, each func(*probe, int64)) {
	for n, o := range w.outboxes() {
		count := make([]int64, len(o.edges))
		for _, p := range o.under() {
			if p.Value.entry <= at && at < p.Key {
				count[p.Value.edge]++
			}
		}
		for k, i := range w.s.model.topology.boxes[n].out {
			each(w.edge[w.s.model.spec.Edges[i].ID], count[k])
		}
	}
}

func (w *probes) outboxes() []*outbox {
	var all []*outbox
	for n := range w.s.model.topology.boxes {
		switch b := w.s.procs[n*rankCount].box.(type) {
		case *generator:
			all = append(all, &b.out)
		case *forwarder:
			all = append(all, &b.out)
		case *balancer:
			all = append(all, &b.out)
		case *server:
			all = append(all, &b.out)
		}
	}
	for _, o := range all {
		o.settle()
	}
	return all
}

// metricsSpec has everything that moves a metric: queues for memory and cores,
// several endpoints, steps without length, dropout, spikes, an outage, latencies of
// many kinds.
func metricsSpec(algorithm string) *Spec {
	s := fan(60, 30, algorithm,
		Server{ID: "a", Cores: 2, RAM: 256, Endpoints: []Endpoint{
			{Name: "/x", RAM: 100.1, Steps: []Step{cpu(exponential(0.02)), sleep(exponential(0.03)),
				cpu(constant(0.01))}},
			{Name: "/y", RAM: 55.5, Steps: []Step{sleep(constant(0)), cpu(constant(0)),
				sleep(Dist{Kind: LogNormal, Mean: -4, StdDev: 0.5})}},
			{Name: "/z", Steps: []Step{cpu(Dist{Kind: Normal, Mean: 0.005, StdDev: 0.005})}},
		}},
		oneEndpoint("b", 1, 512, 64, cpu(exponential(0.03)), sleep(Dist{Kind: Uniform})),
		oneEndpoint("c", 1, 256, 1, cpu(constant(0.0625))))
	s.Settings.SamplePeriod = 0.0625 // exact, so that events do fall on ticks
	for i := range s.Edges {
		s.Edges[i].Dropout = 0.02
	}
	s.Edges[0].Latency = constant(0)
	s.Edges[1].Latency = Dist{Kind: Poisson, Mean: 0.25}
	s.Outages = []Outage{{ID: "o", Target: "b", Start: 10, End: 15}}
	s.Spikes = []Spike{{ID: "p", Target: "lb-a", Start: 5, End: 20, Extra: 0.5},
		{ID: "q", Target: "lb-a", Start: 18, End: 22, Extra: 0.25}}
	return s
}

// TestMetricsAgainstProbes: what boxes compute from counts and times is what looking
// at them at every tick and at every change gives.
func TestMetricsAgainstProbes(t *testing.T) {
	for _, algorithm := range []string{RoundRobin, LeastConnection} {
		for seed := range uint64(fewer(6)) {
			spec := metricsSpec(algorithm)
			spec.Settings.Warmup = []float64{0, 7.0625, 10.1}[seed%3] // none, at a tick, between two
			m := newModel(spec)
			s := newSerial(t, m, seed)
			w := watch(s)
			s.run(t, m.Horizon())
			rep := s.replication(t, 0, m.Horizon())
			for n, at := range m.topology.boxes {
				p, err := readReport(rep.Reports[n*rankCount])
				if err != nil {
					t.Fatal(err)
				}
				for k, i := range m.topology.boxes[n].out {
					got, want := p.Edges[k], w.edge[m.spec.Edges[i].ID]
					if float64(got.TickSum) != want.sum || got.TickPeak != want.top || got.Samples != want.samples ||
						got.Peak != want.peak || !near(got.Area, want.area) {
						t.Errorf("%s, seed %d: edge %s is %+v, want %+v", algorithm, seed, m.spec.Edges[i].ID, got,
							*want)
					}
				}
				if at.role != serverRole {
					continue
				}
				for l, want := range w.server[at.id] {
					g := p.Server
					if g.Sum[l] != want.sum || g.Top[l] != want.top || g.Samples != want.samples ||
						g.Peak[l] != want.peak || !near(g.Area[l], want.area) {
						t.Errorf("%s, seed %d: level %d of %s is sum %v, top %d, samples %d, peak %d, area %v, want "+
							"%+v", algorithm, seed, l, at.id, g.Sum[l], g.Top[l], g.Samples, g.Peak[l], g.Area[l], want)
					}
				}
			}
			if want := int64(30/0.0625) - 1; w.next-1 != want {
				t.Fatalf("%d ticks were probed, want %d", w.next-1, want)
			}
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }
