package service

import (
	"encoding/json"
	"fmt"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Summarize makes the results of all replications. It refuses parts in which a
// request was lost or made twice between two boxes: that is a defect of disco.
func (m *Model) Summarize(reps []scenario.Replication) (scenario.Summary, error) {
	if len(reps) == 0 {
		return nil, fmt.Errorf("service: no replication to summarize")
	}
	t := newTally(m)
	for _, r := range reps {
		if err := t.add(r); err != nil {
			return nil, fmt.Errorf("service: replication %d: %w", r.Index, err)
		}
	}
	return t.results()
}

// tally gathers the parts of all replications.
type tally struct {
	m    *Model
	runs []run
	cuts cuts // of the collector's segments
}

// run is one replication: the parts of its boxes, by node.
type run struct {
	scenario.Replication
	request  []*part             // by node
	response *part               // the client's
	segments []measure.Latencies // as they ended
	latency  measure.Latencies   // all of them
	generated, completed,
	dropped, inFlight int64
}

func newTally(m *Model) *tally {
	return &tally{m: m, cuts: newCuts(m.events(), m.Horizon())}
}

// add reads and checks the parts of one replication.
func (t *tally) add(rep scenario.Replication) error {
	l := t.m.layout
	r := run{Replication: rep, request: make([]*part, len(l.boxes))}
	for n := range l.boxes {
		for rank := range rankCount {
			if !l.busy(n, rank) {
				continue
			}
			p, err := t.part(rep, n, rank)
			if err != nil {
				return err
			}
			if rank == rankRequest {
				r.request[n] = p
			} else {
				r.response = p
			}
		}
	}
	if err := t.conserve(&r); err != nil {
		return err
	}
	if err := t.decode(&r); err != nil {
		return err
	}
	if invariants.Enabled {
		r.checkSystem()
	}
	t.runs = append(t.runs, r)
	return nil
}

// part reads the report of one simproc.
func (t *tally) part(rep scenario.Replication, n, rank int) (*part, error) {
	g := t.m.layout.graph
	id := g.ID(node.Endpoint{Node: n, Simproc: rank})
	if int(id) >= len(rep.Parts) || rep.Parts[id] == nil {
		return nil, fmt.Errorf("the report of %s is missing", g.Name(id))
	}
	p := &part{}
	if err := json.Unmarshal(rep.Parts[id], p); err != nil {
		return nil, fmt.Errorf("the report of %s: %w", g.Name(id), err)
	}
	if rank == rankRequest && len(p.Edges) != len(t.m.layout.out[n]) {
		return nil, fmt.Errorf("the report of %s has %d edges, want %d", g.Name(id), len(p.Edges), len(t.m.layout.out[n]))
	}
	return p, nil
}

// conserve checks that no request was lost or made twice, in any box and on any
// edge, and counts those in flight. It holds for interrupted runs too, in which
// boxes have come to different times: what one has sent and the next has not
// received yet is in flight between them.
func (t *tally) conserve(r *run) error {
	l := t.m.layout
	came := make([][rankCount]int64, len(l.boxes)) // sent to a simproc and not dropped
	late := make([][rankCount]int64, len(l.boxes)) // of those, by the sender's account still under way
	for n, p := range r.request {
		var sent int64
		for i, e := range p.Edges {
			to := l.ends[l.out[n][i]].To
			came[to.Node][to.Simproc] += e.Sent - e.Dropped
			late[to.Node][to.Simproc] += e.Transit
			r.dropped += e.Dropped
			sent += e.Sent
		}
		if p.Received != p.Passed+p.Present || p.Passed != sent {
			return fmt.Errorf("%s took in %d requests, passed on %d, sent %d and holds %d: that doesn't add up, a defect of disco", l.boxes[n].id, p.Received, p.Passed, sent, p.Present)
		}
		r.inFlight += p.Present
	}
	for n := range l.boxes {
		for rank, p := range []*part{r.request[n], r.responseOf(n)} {
			if p == nil || n == nodeGenerator {
				continue
			}
			c, u := came[n][rank], late[n][rank]
			if p.Received > c || r.Reached == r.Horizon && p.Received != c-u {
				return fmt.Errorf("%s received %d requests, but %d were sent to it and %d are under way: that doesn't add up, a defect of disco", l.boxes[n].id, p.Received, c, u)
			}
			r.inFlight += c - p.Received
		}
	}
	r.generated = r.request[nodeGenerator].Generator.Made
	r.completed = r.response.Received
	if r.generated != r.completed+r.dropped+r.inFlight {
		return fmt.Errorf("%d requests were generated, but %d completed, %d were dropped and %d are in flight: that doesn't add up, a defect of disco", r.generated, r.completed, r.dropped, r.inFlight)
	}
	return nil
}

func (r *run) responseOf(n int) *part {
	if n == nodeClient {
		return r.response
	}
	return nil
}

// decode unpacks the latencies.
func (t *tally) decode(r *run) error {
	parts := r.response.Collector.Segments
	if len(parts) != t.cuts.segments() {
		return fmt.Errorf("the client's report has %d segments, want %d", len(parts), t.cuts.segments())
	}
	for i := range parts {
		l, err := measure.Restore(parts[i].Moments, parts[i].Histogram)
		if err != nil {
			return fmt.Errorf("the client's latencies: %w: a defect of disco", err)
		}
		r.latency.Merge(&l)
		r.segments = append(r.segments, l)
	}
	if n := r.latency.Count; n != r.completed {
		return fmt.Errorf("the client recorded %d latencies of %d requests: a defect of disco", n, r.completed)
	}
	return nil
}

// latencies merges segments lo <= i < hi of all runs.
func (t *tally) latencies(lo, hi int) *measure.Latencies {
	all := &measure.Latencies{}
	for i := range t.runs {
		for s := lo; s < hi; s++ {
			all.Merge(&t.runs[i].segments[s])
		}
	}
	return all
}

func (t *tally) results() (*Results, error) {
	m := t.m
	r := &Results{
		HorizonSeconds: m.Horizon(), spec: m.spec,
		Balancers: make(map[string]*BalancerResult), Servers: make(map[string]*ServerResult), Edges: make(map[string]*EdgeResult),
		Outages: []EventResult{}, Spikes: []EventResult{},
	}
	var all measure.Latencies
	for i := range t.runs {
		run := &t.runs[i]
		all.Merge(&run.latency)
		r.SimulatedSeconds += run.Reached
		r.Interrupted = r.Interrupted || run.Reached < run.Horizon
		r.RequestsGenerated += run.generated
		r.RequestsCompleted += run.completed
		r.RequestsDropped += run.dropped
		r.RequestsInFlight += run.inFlight
		r.Replications = append(r.Replications, t.replication(i))
	}
	r.ThroughputRPS = per(float64(r.RequestsCompleted), t.time(func(run *run) *part { return run.response }))
	r.Latency = all.Summary()
	r.Confidence = t.confidence()
	t.boxes(r)
	t.edges(r)
	t.events(r)
	return r, nil
}

func (t *tally) replication(i int) ReplicationResult {
	run := &t.runs[i]
	row := ReplicationResult{
		Index: run.Index, Reached: run.Reached, Generated: run.generated, Completed: run.completed,
		Dropped: run.dropped, InFlight: run.inFlight, ThroughputRPS: per(float64(run.completed), run.response.End),
	}
	if l := run.latency.Summary(); l != nil {
		row.LatencyMean, row.LatencyP50, row.LatencyP95, row.LatencyP99 = &l.Mean, &l.P50, &l.P95, &l.P99
	}
	return row
}

// time is how long a box has run, over all replications.
func (t *tally) time(of func(*run) *part) float64 {
	sum := 0.0
	for i := range t.runs {
		sum += of(&t.runs[i]).End
	}
	return sum
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
