// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
)

// sample is one replication that reached the horizon, or a group of them.
type sample struct {
	completed, seconds float64 // and for how long, at the client
	latencies          float64 // their sum
	latency            measure.Latencies
	busy, ready, time  []float64 // by server: areas under two of its levels, and for how long
}

func (s *sample) join(o *sample) {
	s.completed += o.completed
	s.seconds += o.seconds
	s.latencies += o.latencies
	s.latency.Merge(&o.latency)
	for i := range s.time {
		s.busy[i] += o.busy[i]
		s.ready[i] += o.ready[i]
		s.time[i] += o.time[i]
	}
}

// newSample makes room for the servers of one replication, which take fills in.
func (t *tally) newSample() sample {
	n := len(t.servers)
	all := make([]float64, 3*n)
	return sample{busy: all[:n:n], ready: all[n : 2*n : 2*n], time: all[2*n:]}
}

// boxTotal is what all replications together report of one box.
type boxTotal struct {
	end                       float64 // simulated seconds that count
	received, passed, present int64
}

func (b *boxTotal) add(p *boxReport, measured float64) {
	b.end += measured
	b.received += p.Received
	b.passed += p.Passed
	b.present += p.Present
}

// serverTotal is the same of a server. How often each endpoint was picked stands in tally.picked.
type serverTotal struct {
	area, sum [levelCount]float64
	peak, top [levelCount]int64
	samples   int64
	residence float64
}

func (s *serverTotal) add(o *serverReport) {
	s.residence += o.Residence
	s.samples += o.Samples
	for l := range levelCount {
		s.area[l] += o.Area[l]
		s.sum[l] += o.Sum[l]
		s.peak[l] = max(s.peak[l], o.Peak[l])
		s.top[l] = max(s.top[l], o.Top[l])
	}
}

// edgeTotal is the same of an edge, but for what it reports span by span.
type edgeTotal struct {
	sent, dropped, transit,
	peak, samples,
	tickSum, tickPeak int64
	area float64
}

func (e *edgeTotal) add(o *edgeReport) {
	e.sent += o.Sent
	e.dropped += o.Dropped
	e.transit += o.Transit
	e.area += o.Area
	e.peak = max(e.peak, o.Peak)
	e.samples += o.Samples
	e.tickSum += o.TickSum
	e.tickPeak = max(e.tickPeak, o.TickPeak)
}

// add adds one replication, whose boxes and edges read has added already.
func (t *tally) add(r *run) {
	t.simulated += r.Reached
	t.interrupted = t.interrupted || r.Reached < r.Horizon
	t.generated += r.generated
	t.completed += r.completed
	t.dropped += r.dropped
	t.inFlight += r.inFlight
	t.carried += r.carried
	t.latency.Merge(&r.latency)
	t.response += t.m.measured(r.response.End)
	for i := range t.phases {
		for k := range t.phases[i] {
			t.phases[i][k].add(r)
		}
	}
	t.rows = append(t.rows, r.short(t.m.measured(r.response.End)))
	if r.Reached == r.Horizon {
		t.full++
		s := r.sample
		s.completed, s.seconds = float64(r.completed), t.m.measured(r.response.End)
		s.latencies, s.latency = r.latency.Mean*float64(r.latency.Count), r.latency
		t.whole.Add(s)
	}
}

// short is a replication's row.
func (r *run) short(measured float64) ReplicationResult {
	row := ReplicationResult{
		Index: r.Index, Reached: r.Reached, Generated: r.generated, Completed: r.completed,
		Dropped: r.dropped, InFlight: r.inFlight, ThroughputRPS: per(float64(r.completed), measured),
	}
	if l := r.latency.Summary(); l != nil {
		row.LatencyMean, row.LatencyP50, row.LatencyP95, row.LatencyP99 = &l.Mean, &l.P50, &l.P95, &l.P99
	}
	return row
}

// phaseTotal gathers what happens in one stretch of time before, during or after an outage or
// a spike, on its edge and at the client.
type phaseTotal struct {
	timeline.Window
	node, edge         int // the sender, and the edge among its own
	first, last        int // the edge's spans
	lo, hi             int // the client's
	sent, passed       int64
	transit            float64 // seconds
	sentTime, doneTime float64
	latency            measure.Latencies
}

func (t *tally) newPhases(start, end float64, edge int) [3]phaseTotal {
	var p [3]phaseTotal
	p[0].Window, p[1].Window, p[2].Window = timeline.Around(timeline.Window{From: start, To: end}, t.m.Horizon())
	c := timeline.NewSpans(t.m.touching(edge), t.m.Horizon())
	t.watched[t.m.topology.edges[edge].from] = true
	for i := range p {
		p[i].node = t.m.topology.edges[edge].from
		p[i].edge = slices.Index(t.m.topology.boxes[p[i].node].out, edge)
		p[i].first, p[i].last = c.Within(p[i].Window)
		p[i].lo, p[i].hi = t.spans.Within(p[i].Window)
	}
	return p
}

func (p *phaseTotal) add(r *run) {
	if p.Empty() {
		return
	}
	sender := r.touched[p.node]
	for s := p.first; s < p.last; s++ {
		p.sent += sender.Edges[p.edge].SentIn[s]
		p.passed += sender.Edges[p.edge].PassedIn[s]
		p.transit += sender.Edges[p.edge].TransitIn[s]
	}
	p.sentTime += p.SecondsBefore(sender.End)
	p.doneTime += p.SecondsBefore(r.response.End)
	for s := p.lo; s < p.hi; s++ {
		p.latency.Merge(&r.bySpan[s])
	}
}

// result is nil for a time that the run doesn't have, or was interrupted before. The
// transit times are a spike's.
func (p *phaseTotal) result(spike bool) *Phase {
	if p.Empty() || p.sentTime == 0 && p.doneTime == 0 {
		return nil
	}
	r := &Phase{From: p.From, To: p.To, RequestsRPS: per(float64(p.sent), p.sentTime),
		ThroughputRPS: per(float64(p.latency.Count), p.doneTime)}
	if spike {
		r.TransitMean = meanOrNil(p.transit, p.passed)
	}
	if s := p.latency.Summary(); s != nil {
		r.LatencyMean, r.LatencyP95 = &s.Mean, &s.P95
	}
	return r
}
