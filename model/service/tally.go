// SPDX-License-Identifier: Apache-2.0

package service

import "slices"

func (t *tally) generatorResult() GeneratorResult {
	g := GeneratorResult{ID: t.m.topology.boxes[nodeGenerator].id, Requests: t.generator.Made,
		Windows: t.generator.Windows}
	g.RateRPS = per(float64(g.Requests), t.boxes[nodeGenerator].end)
	g.UsersMean = per(t.generator.UserSum, float64(g.Windows))
	return g
}

// balancer is what balancer i of the file did.
func (r *Results) balancer(i int) *BalancerResult {
	n := r.balancerNode(i)
	b := &BalancerResult{Requests: r.tally.boxes[n].received, Targets: make(map[string]int64)}
	for _, e := range r.spec.topology.boxes[n].out {
		b.Targets[r.spec.Edges[e].Target] = r.tally.edges[e].sent
	}
	return b
}

// balancerNode is the node of balancer i of the file, serverNode that of server i.
func (r *Results) balancerNode(i int) int { return nodeClient + 1 + i }

func (r *Results) serverNode(i int) int { return nodeClient + 1 + len(r.spec.Balancers) + i }

// server is what server i of the file did.
func (r *Results) server(i int) *ServerResult {
	s := &ServerResult{Sampled: make(map[string]Sampled)}
	r.fillServer(s, i)
	for k, e := range r.spec.Servers[i].Endpoints {
		s.Endpoints = append(s.Endpoints, EndpointResult{Name: e.Name, Requests: r.picked(i)[k]})
	}
	for _, metric := range r.spec.Settings.Sampled {
		if m, ok := serverMetrics[metric]; ok {
			s.Sampled[metric] = r.sampled(i, m)
		}
	}
	return s
}

// picked is how many requests have picked each endpoint of a server.
func (r *Results) picked(server int) []int64 {
	t := r.tally
	return t.picked[t.picks[server]:t.picks[server+1]]
}

// fillServer fills in all but endpoints and what was sampled.
func (r *Results) fillServer(s *ServerResult, i int) {
	b, sum := &r.tally.boxes[r.serverNode(i)], &r.tally.servers[i]
	s.Requests, s.Completed, s.InServer = b.received, b.passed, b.present
	mean := func(level int) float64 { return per(sum.area[level], b.end) }
	s.Utilisation = mean(levelCPU) / float64(r.spec.Servers[i].Cores)
	s.ReadyQueueMean, s.ReadyQueueMax = mean(levelReady), sum.peak[levelReady]
	s.IOMean, s.IOMax = mean(levelIO), sum.peak[levelIO]
	s.RAMMean, s.RAMMax = mean(levelRAM)/ramUnits, float64(sum.peak[levelRAM])/ramUnits
	s.RAMQueueMean, s.RAMQueueMax = mean(levelRAMWait), sum.peak[levelRAMWait]
	s.RequestsInMean = mean(levelWhole)
	s.ResidenceMean = meanOrNil(sum.residence, s.Completed)
}

// sampled is one metric of a server.
func (r *Results) sampled(server int, m serverMetric) Sampled {
	sum := &r.tally.servers[server]
	return Sampled{Mean: per(sum.sum[m.level], float64(sum.samples)) / m.unit, Max: float64(sum.top[m.level]) / m.unit,
		Samples: sum.samples}
}

// serverMetric is what of a server is sampled.
type serverMetric struct {
	level int
	unit  float64 // of the level in one unit of the metric
}

var serverMetrics = map[string]serverMetric{
	ReadyQueueLen:    {levelReady, 1},
	EventLoopIOSleep: {levelIO, 1},
	RAMInUse:         {levelRAM, ramUnits},
}

// edge is what edge i of the file carried.
func (r *Results) edge(i int) *EdgeResult {
	e := &EdgeResult{Sampled: make(map[string]Sampled)}
	r.fillEdge(e, i)
	if slices.Contains(r.spec.Settings.Sampled, EdgeConcurrentConnection) {
		e.Sampled[EdgeConcurrentConnection] = r.sampledEdge(i)
	}
	return e
}

// fillEdge fills in all but what was sampled.
func (r *Results) fillEdge(e *EdgeResult, i int) {
	p := &r.tally.edges[i]
	e.Sent, e.Dropped, e.InTransit, e.ConcurrentMax = p.sent, p.dropped, p.transit, p.peak
	e.ConcurrentMean = per(p.area, r.tally.boxes[r.spec.topology.edges[i].from].end)
}

func (r *Results) sampledEdge(i int) Sampled {
	p := &r.tally.edges[i]
	return Sampled{Mean: per(float64(p.tickSum), float64(p.samples)), Max: float64(p.tickPeak), Samples: p.samples}
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
