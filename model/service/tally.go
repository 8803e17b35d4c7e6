// SPDX-License-Identifier: Apache-2.0

package service

// boxes fills in what the generator, the balancers and the servers did.
func (t *tally) boxes(r *Results) {
	for n, at := range t.m.topology.boxes {
		switch at.role {
		case generatorRole:
			r.Generator = t.generator(at.id)
		case balancerRole:
			r.Balancers[at.id] = t.balancer(n)
		case serverRole:
			r.Servers[at.id] = t.server(n, &t.m.spec.Servers[at.index])
		}
	}
}

func (t *tally) generator(id string) GeneratorResult {
	p := &t.request[nodeGenerator]
	g := GeneratorResult{ID: id, Requests: p.Generator.Made, Windows: p.Generator.Windows}
	g.RateRPS = per(float64(g.Requests), p.End)
	g.UsersMean = per(p.Generator.UserSum, float64(g.Windows))
	return g
}

func (t *tally) balancer(n int) *BalancerResult {
	p := &t.request[n]
	b := &BalancerResult{Requests: p.Received, Targets: make(map[string]int64)}
	for k, e := range t.m.topology.boxes[n].out {
		b.Targets[t.m.spec.Edges[e].Target] += p.Edges[k].Sent
	}
	return b
}

func (t *tally) server(n int, spec *Server) *ServerResult {
	p := &t.request[n]
	sum := p.Server
	s := &ServerResult{Requests: p.Received, Completed: p.Passed, InServer: p.Present,
		Sampled: make(map[string]Sampled)}
	for k, e := range spec.Endpoints {
		s.Endpoints = append(s.Endpoints, EndpointResult{Name: e.Name, Requests: sum.ByEndpoint[k]})
	}
	mean := func(level int) float64 { return per(sum.Area[level], p.End) }
	s.Utilisation = mean(levelCPU) / float64(spec.Cores)
	s.ReadyQueueMean, s.ReadyQueueMax = mean(levelReady), sum.Peak[levelReady]
	s.IOMean, s.IOMax = mean(levelIO), sum.Peak[levelIO]
	s.RAMMean, s.RAMMax = mean(levelRAM)/ramUnits, float64(sum.Peak[levelRAM])/ramUnits
	s.RAMQueueMean, s.RAMQueueMax = mean(levelRAMWait), sum.Peak[levelRAMWait]
	s.RequestsInMean = mean(levelWhole)
	s.ResidenceMean = meanOrNil(sum.Residence, s.Completed)
	for _, metric := range t.m.spec.Settings.Sampled {
		if m, ok := serverMetrics[metric]; ok {
			s.Sampled[metric] = Sampled{
				Mean: per(sum.Sum[m.level], float64(sum.Samples)) / m.unit, Max: float64(sum.Top[m.level]) / m.unit,
				Samples: sum.Samples,
			}
		}
	}
	return s
}

var serverMetrics = map[string]struct {
	level int
	unit  float64 // of the level in one unit of the metric
}{
	ReadyQueueLen:    {levelReady, 1},
	EventLoopIOSleep: {levelIO, 1},
	RAMInUse:         {levelRAM, ramUnits},
}

// edges fills in what the edges carried.
func (t *tally) edges(r *Results) {
	for n := range t.m.topology.boxes {
		for k, i := range t.m.topology.boxes[n].out {
			r.Edges[t.m.spec.Edges[i].ID] = t.edge(n, k)
		}
	}
}

func (t *tally) edge(n, k int) *EdgeResult {
	p := &t.request[n].Edges[k]
	e := &EdgeResult{
		Sent: p.Sent, Dropped: p.Dropped, InTransit: p.Transit, ConcurrentMax: p.Peak,
		ConcurrentMean: per(p.Area, t.request[n].End), Sampled: make(map[string]Sampled),
	}
	for _, metric := range t.m.spec.Settings.Sampled {
		if metric == EdgeConcurrentConnection {
			e.Sampled[metric] = Sampled{Mean: per(float64(p.TickSum), float64(p.Samples)), Max: float64(p.TickPeak),
				Samples: p.Samples}
		}
	}
	return e
}

// events compares the times before, while and after each outage and spike.
func (t *tally) events(r *Results) {
	for i, o := range t.m.spec.Outages {
		r.Outages = append(r.Outages, t.event(i, EventResult{ID: o.ID, Target: o.Target, Start: o.Start, End: o.End}))
	}
	for i, s := range t.m.spec.Spikes {
		r.Spikes = append(r.Spikes, t.event(len(t.m.spec.Outages)+i,
			EventResult{ID: s.ID, Target: s.Target, Start: s.Start, End: s.End, SpikeS: s.Extra}))
	}
}

func (t *tally) event(i int, e EventResult) EventResult {
	p, spike := &t.phases[i], e.SpikeS > 0
	e.Before, e.During, e.After = p[0].result(spike), p[1].result(spike), p[2].result(spike)
	return e
}
