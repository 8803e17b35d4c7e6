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

func (t *tally) sample(r *run) sample {
	s := sample{
		completed: float64(r.completed), seconds: r.response.End,
		latencies: r.latency.Mean * float64(r.latency.Count), latency: r.latency,
	}
	for n, at := range t.m.topology.boxes {
		if at.role == serverRole {
			p := r.request[n]
			s.busy, s.ready, s.time = append(s.busy, p.Server.Area[levelCPU]),
				append(s.ready, p.Server.Area[levelReady]), append(s.time, p.End)
		}
	}
	return s
}

// add adds one replication, which is not needed any more afterwards.
func (t *tally) add(r *run) {
	t.simulated += r.Reached
	t.interrupted = t.interrupted || r.Reached < r.Horizon
	t.generated += r.generated
	t.completed += r.completed
	t.dropped += r.dropped
	t.inFlight += r.inFlight
	t.latency.Merge(&r.latency)
	t.response += r.response.End
	for n, p := range r.request {
		t.request[n].add(p)
	}
	for i := range t.phases {
		for k := range t.phases[i] {
			t.phases[i][k].add(r)
		}
	}
	t.rows = append(t.rows, r.short())
	if r.Reached == r.Horizon {
		t.full++
		t.whole.Add(t.sample(r))
	}
}

// add adds the report of the same box after another replication, all but what it reports
// span by span.
func (p *boxReport) add(o *boxReport) {
	p.End += o.End
	p.Received += o.Received
	p.Passed += o.Passed
	p.Present += o.Present
	if g := o.Generator; g != nil {
		if p.Generator == nil {
			p.Generator = &generatorReport{}
		}
		p.Generator.Made += g.Made
		p.Generator.Windows += g.Windows
		p.Generator.UserSum += g.UserSum
	}
	if o.Server != nil {
		if p.Server == nil {
			p.Server = &serverReport{ByEndpoint: make([]int64, len(o.Server.ByEndpoint))}
		}
		p.Server.add(o.Server)
	}
	for k := range o.Edges {
		p.Edges[k].add(&o.Edges[k])
	}
}

func (p *serverReport) add(o *serverReport) {
	p.Residence += o.Residence
	p.Samples += o.Samples
	for l := range levelCount {
		p.Area[l] += o.Area[l]
		p.Sum[l] += o.Sum[l]
		p.Peak[l] = max(p.Peak[l], o.Peak[l])
		p.Top[l] = max(p.Top[l], o.Top[l])
	}
	for k, count := range o.ByEndpoint {
		p.ByEndpoint[k] += count
	}
}

func (p *edgeReport) add(o *edgeReport) {
	p.Sent += o.Sent
	p.Dropped += o.Dropped
	p.Transit += o.Transit
	p.Area += o.Area
	p.Peak = max(p.Peak, o.Peak)
	p.Samples += o.Samples
	p.TickSum += o.TickSum
	p.TickPeak = max(p.TickPeak, o.TickPeak)
}

// short is a replication's row.
func (r *run) short() ReplicationResult {
	row := ReplicationResult{
		Index: r.Index, Reached: r.Reached, Generated: r.generated, Completed: r.completed,
		Dropped: r.dropped, InFlight: r.inFlight, ThroughputRPS: per(float64(r.completed), r.response.End),
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
	sender := r.request[p.node]
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
