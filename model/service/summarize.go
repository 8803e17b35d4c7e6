// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Accumulate makes the results of all replications. Its Add refuses parts in which a
// request was lost or made twice between two boxes: that is a defect of disco.
func (m *Model) Accumulate() scenario.Accumulator { return newTally(m) }

// tally gathers the parts of all replications: sums, and of each no more than its row.
type tally struct {
	m           *Model
	spans       timeline.Spans // of the collector's spans
	rows        []ReplicationResult
	simulated   float64 // seconds
	interrupted bool
	generated, completed,
	dropped, inFlight int64
	latency  measure.Latencies
	request  []boxReport     // sums, by node
	response float64         // seconds that the client has taken responses, in all
	phases   [][3]phaseTotal // by event: outages, then spikes; before, during, after
	whole    *measure.Groups[sample]
	full     int // replications in it: those that reached the horizon
}

// Add reads the parts of one replication.
func (t *tally) Add(rep scenario.Replication) error {
	r, err := t.read(rep)
	if err != nil {
		return fmt.Errorf("service: replication %d: %w", rep.Index, err)
	}
	t.add(r)
	return nil
}

// Summary makes the results.
func (t *tally) Summary() (scenario.Summary, error) {
	if len(t.rows) == 0 {
		return nil, fmt.Errorf("service: no replication to summarize")
	}
	return t.results(), nil
}

// run is one replication: the parts of its boxes, by node.
type run struct {
	scenario.Replication
	request  []*boxReport        // by node
	response *boxReport          // the client's
	bySpan   []measure.Latencies // as they ended
	latency  measure.Latencies   // all of them
	generated, completed,
	dropped, inFlight int64
}

func newTally(m *Model) *tally {
	t := &tally{m: m, spans: timeline.NewSpans(m.events, m.Horizon()),
		request: make([]boxReport, len(m.topology.boxes)), whole: measure.NewGroups((*sample).join)}
	for n := range t.request {
		t.request[n].Edges = make([]edgeReport, len(m.topology.boxes[n].out))
	}
	for _, o := range m.spec.Outages {
		t.phases = append(t.phases, t.newPhases(o.Start, o.End, o.Edge))
	}
	for _, s := range m.spec.Spikes {
		t.phases = append(t.phases, t.newPhases(s.Start, s.End, s.Edge))
	}
	return t
}

// read reads and checks the parts of one replication.
func (t *tally) read(rep scenario.Replication) (*run, error) {
	l := t.m.topology
	r := &run{Replication: rep, request: make([]*boxReport, len(l.boxes))}
	for n := range l.boxes {
		for rank := range rankCount {
			if !busy(n, rank) {
				continue
			}
			p, err := t.readReport(rep, n, rank)
			if err != nil {
				return nil, err
			}
			if rank == rankRequest {
				r.request[n] = p
			} else {
				r.response = p
			}
		}
	}
	if err := t.conserve(r); err != nil {
		return nil, err
	}
	if err := t.decode(r); err != nil {
		return nil, err
	}
	if invariants.Enabled {
		r.checkSystem()
	}
	return r, nil
}

// readReport reads the report of one simproc.
func (t *tally) readReport(rep scenario.Replication, n, rank int) (*boxReport, error) {
	g := t.m.graph
	id := g.ID(node.Endpoint{Node: n, Simproc: rank})
	if int(id) >= len(rep.Reports) || rep.Reports[id] == nil {
		return nil, fmt.Errorf("the report of %s is missing", g.Name(id))
	}
	p, err := decodeReport(rep.Reports[id])
	if err != nil {
		return nil, fmt.Errorf("the report of %s: %w", g.Name(id), err)
	}
	if rank == rankRequest && len(p.Edges) != len(t.m.topology.boxes[n].out) {
		return nil, fmt.Errorf("the report of %s has %d edges, want %d", g.Name(id), len(p.Edges),
			len(t.m.topology.boxes[n].out))
	}
	return p, nil
}

// conserve checks that no request was lost or made twice, in any box and on any
// edge, and counts those in flight. It holds for interrupted runs too, in which
// boxes have come to different times: what one has sent and the next has not
// received yet is in flight between them.
func (t *tally) conserve(r *run) error {
	l := t.m.topology
	came := make([][rankCount]int64, len(l.boxes)) // sent to a simproc and not dropped
	late := make([][rankCount]int64, len(l.boxes)) // of those, by the sender's account still under way
	for n, p := range r.request {
		var sent int64
		for i, e := range p.Edges {
			to := l.link(l.boxes[n].out[i]).To
			came[to.Node][to.Simproc] += e.Sent - e.Dropped
			late[to.Node][to.Simproc] += e.Transit
			r.dropped += e.Dropped
			sent += e.Sent
		}
		if p.Received != p.Passed+p.Present || p.Passed != sent {
			return fmt.Errorf("%s took in %d requests, passed on %d, sent %d and holds %d: that doesn't add up, a "+
				"defect of disco", l.boxes[n].id, p.Received, p.Passed, sent, p.Present)
		}
		r.inFlight += p.Present
	}
	for n := range l.boxes {
		for rank, p := range []*boxReport{r.request[n], r.responseOf(n)} {
			if p == nil || n == nodeGenerator {
				continue
			}
			c, u := came[n][rank], late[n][rank]
			if p.Received > c || r.Reached == r.Horizon && p.Received != c-u {
				return fmt.Errorf("%s received %d requests, but %d were sent to it and %d are under way: that "+
					"doesn't add up, a defect of disco", l.boxes[n].id, p.Received, c, u)
			}
			r.inFlight += c - p.Received
		}
	}
	r.generated = r.request[nodeGenerator].Generator.Made
	r.completed = r.response.Received
	if r.generated != r.completed+r.dropped+r.inFlight {
		return fmt.Errorf("%d requests were generated, but %d completed, %d were dropped and %d are in flight: that "+
			"doesn't add up, a defect of disco", r.generated, r.completed, r.dropped, r.inFlight)
	}
	return nil
}

func (r *run) responseOf(n int) *boxReport {
	if n == nodeClient {
		return r.response
	}
	return nil
}

// decode unpacks the latencies.
func (t *tally) decode(r *run) error {
	rest := r.response.Latencies
	r.bySpan = make([]measure.Latencies, t.spans.Count())
	for i := range r.bySpan {
		var err error
		if rest, err = r.bySpan[i].Read(rest); err != nil {
			return fmt.Errorf("the client's latencies: %w: a defect of disco", err)
		}
		r.latency.Merge(&r.bySpan[i])
	}
	if len(rest) > 0 {
		return fmt.Errorf("the client's report has %d bytes behind the latencies of %d spans: a defect of disco",
			len(rest), len(r.bySpan))
	}
	if n := r.latency.Count; n != r.completed {
		return fmt.Errorf("the client recorded %d latencies of %d requests: a defect of disco", n, r.completed)
	}
	return nil
}

func (t *tally) results() *Results {
	m := t.m
	r := &Results{
		HorizonSeconds: m.Horizon(), SimulatedSeconds: t.simulated, Interrupted: t.interrupted, spec: m.spec,
		Replications:      t.rows,
		RequestsGenerated: t.generated, RequestsCompleted: t.completed, RequestsDropped: t.dropped,
		RequestsInFlight: t.inFlight,
		Balancers:        make(map[string]*BalancerResult, len(m.spec.Balancers)),
		Servers:          make(map[string]*ServerResult, len(m.spec.Servers)),
		Edges:            make(map[string]*EdgeResult, len(m.spec.Edges)),
		Outages:          []EventResult{}, Spikes: []EventResult{},
	}
	r.ThroughputRPS = per(float64(r.RequestsCompleted), t.response)
	r.Latency = t.latency.Summary()
	r.Confidence = t.confidence()
	t.boxes(r)
	t.edges(r)
	t.events(r)
	return r
}

// per is a rate or a mean; of nothing it is 0.
func per(sum, over float64) float64 {
	if over == 0 {
		return 0
	}
	return sum / over
}

// meanOrNil is a mean that may not exist.
func meanOrNil(sum float64, n int64) *float64 {
	if n == 0 {
		return nil
	}
	mean := sum / float64(n)
	return &mean
}
