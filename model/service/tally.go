package service

import "slices"

// boxes fills in what the generator, the balancers and the servers did.
func (t *tally) boxes(r *Results) {
	for n, at := range t.m.layout.boxes {
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

func (t *tally) requestPart(n int) func(*run) *part {
	return func(r *run) *part { return r.request[n] }
}

func (t *tally) generator(id string) GeneratorResult {
	g := GeneratorResult{ID: id}
	users := 0.0
	for i := range t.runs {
		p := t.runs[i].request[nodeGenerator].Generator
		g.Requests += p.Made
		g.Windows += p.Windows
		users += p.UserSum
	}
	g.RateRPS = per(float64(g.Requests), t.time(t.requestPart(nodeGenerator)))
	g.UsersMean = per(users, float64(g.Windows))
	return g
}

func (t *tally) balancer(n int) *BalancerResult {
	b := &BalancerResult{Targets: make(map[string]int64)}
	for i := range t.runs {
		p := t.runs[i].request[n]
		b.Requests += p.Received
		for k, e := range t.m.layout.out[n] {
			b.Targets[t.m.spec.Edges[e].Target] += p.Edges[k].Sent
		}
	}
	return b
}

func (t *tally) server(n int, spec *Server) *ServerResult {
	var sum serverPart
	s := &ServerResult{Sampled: make(map[string]Sampled)}
	for _, e := range spec.Endpoints {
		s.Endpoints = append(s.Endpoints, EndpointResult{Name: e.Name})
	}
	for i := range t.runs {
		p := t.runs[i].request[n]
		s.Requests += p.Received
		s.Completed += p.Passed
		s.InServer += p.Present
		sum.Residence += p.Server.Residence
		sum.Samples += p.Server.Samples
		for l := range levelCount {
			sum.Area[l] += p.Server.Area[l]
			sum.Sum[l] += p.Server.Sum[l]
			sum.Peak[l] = max(sum.Peak[l], p.Server.Peak[l])
			sum.Top[l] = max(sum.Top[l], p.Server.Top[l])
		}
		for k, count := range p.Server.ByEndpoint {
			s.Endpoints[k].Requests += count
		}
	}
	time := t.time(t.requestPart(n))
	mean := func(level int) float64 { return per(sum.Area[level], time) }
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
				Mean: per(sum.Sum[m.level], float64(sum.Samples)) / m.unit, Max: float64(sum.Top[m.level]) / m.unit, Samples: sum.Samples,
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
	for n := range t.m.layout.boxes {
		for k, i := range t.m.layout.out[n] {
			r.Edges[t.m.spec.Edges[i].ID] = t.edge(n, k)
		}
	}
}

func (t *tally) edge(n, k int) *EdgeResult {
	e := &EdgeResult{Sampled: make(map[string]Sampled)}
	var area, tickSum float64
	var samples, tickPeak int64
	for i := range t.runs {
		p := &t.runs[i].request[n].Edges[k]
		e.Sent += p.Sent
		e.Dropped += p.Dropped
		e.InTransit += p.Transit
		e.ConcurrentMax = max(e.ConcurrentMax, p.Peak)
		area += p.Area
		samples += p.Samples
		tickSum += float64(p.TickSum)
		tickPeak = max(tickPeak, p.TickPeak)
	}
	e.ConcurrentMean = per(area, t.time(t.requestPart(n)))
	for _, metric := range t.m.spec.Settings.Sampled {
		if metric == EdgeConcurrentConnection {
			e.Sampled[metric] = Sampled{Mean: per(tickSum, float64(samples)), Max: float64(tickPeak), Samples: samples}
		}
	}
	return e
}

// events compares the times before, while and after each outage and spike.
func (t *tally) events(r *Results) {
	for _, o := range t.m.spec.Outages {
		e := EventResult{ID: o.ID, Target: o.Target, Start: o.Start, End: o.End}
		t.phases(&e, o.Edge)
		r.Outages = append(r.Outages, e)
	}
	for _, s := range t.m.spec.Spikes {
		e := EventResult{ID: s.ID, Target: s.Target, Start: s.Start, End: s.End, SpikeS: s.Extra}
		t.phases(&e, s.Edge)
		r.Spikes = append(r.Spikes, e)
	}
}

func (t *tally) phases(e *EventResult, edge int) {
	before, during, after := around(e.Start, e.End, t.m.Horizon())
	e.Before, e.During, e.After = t.phase(e, before, edge), t.phase(e, during, edge), t.phase(e, after, edge)
}

// phase gathers what happened in w on an edge and at the client.
func (t *tally) phase(e *EventResult, w window, edge int) *Phase {
	if w.empty() {
		return nil
	}
	p := &Phase{From: w.from, To: w.to}
	n := t.m.layout.ends[edge].From.Node
	k := slices.Index(t.m.layout.out[n], edge)
	c := newCuts(t.m.touching(edge), t.m.Horizon())
	first, last := c.within(w)
	var sent, passed int64
	var transit, sentTime, doneTime float64
	for i := range t.runs {
		sender := t.runs[i].request[n]
		for s := first; s < last; s++ {
			sent += sender.Edges[k].SentIn[s]
			passed += sender.Edges[k].PassedIn[s]
			transit += sender.Edges[k].TransitIn[s]
		}
		sentTime += w.until(sender.End)
		doneTime += w.until(t.runs[i].response.End)
	}
	if sentTime == 0 && doneTime == 0 {
		return nil // interrupted before it
	}
	lo, hi := t.cuts.within(w)
	l := t.latencies(lo, hi)
	p.RequestsRPS = per(float64(sent), sentTime)
	p.ThroughputRPS = per(float64(l.Count), doneTime)
	if e.SpikeS > 0 {
		p.TransitMean = meanOrNil(transit, passed)
	}
	if s := l.Summary(); s != nil {
		p.LatencyMean, p.LatencyP95 = &s.Mean, &s.P95
	}
	return p
}
