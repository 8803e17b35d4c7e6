// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
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

// tally gathers the parts of all replications: sums, and of each no more than its row. What there is one of for each
// box, server or edge stands in columns: nothing is looked up by its name, and no pointer leads there.
type tally struct {
	m           *Model
	spans       timeline.Spans // of the collector's spans
	rows        []ReplicationResult
	simulated   float64 // seconds
	interrupted bool
	generated, completed,
	dropped, inFlight,
	carried int64 // in flight at the end of the warm-up
	latency   measure.Latencies
	generator generatorReport
	boxes     []boxTotal      // by node
	servers   []serverTotal   // by index in Spec.Servers
	picks     []int32         // by server, and one more: where its endpoints begin in picked
	picked    []int64         // by endpoint of all servers: requests
	edges     []edgeTotal     // by index in Spec.Edges
	response  float64         // seconds that the client has taken responses, in all
	phases    [][3]phaseTotal // by event: outages, then spikes; before, during, after
	course    *measure.Course // by node, and the client's second simproc; nil: no time series were asked for
	watched   map[int]bool    // nodes that phases are about
	whole     *measure.Groups[sample]
	full      int // replications in it: those that reached the horizon
	reserved  int // of each column: elements for which there is memory

	// Of the replication at hand.
	at       *run       // nil: none
	taken    []bool     // by simproc: its report
	report   *boxReport // memory for the next one
	requests []traffic  // by node
	answers  traffic    // to the client's second simproc
}

// traffic is what boxes say of the requests that one simproc gets.
type traffic struct {
	came     int64 // sent to it and not dropped
	late     int64 // of those, by the sender's account still under way
	received int64 // by its own account
}

// Add ends a replication that was begun, or reads one with all its parts.
func (t *tally) Add(rep scenario.Replication) error {
	if t.at == nil {
		t.Begin(rep)
	}
	r := t.at
	t.at = nil
	for id, report := range rep.Reports {
		if report == nil {
			continue
		}
		if err := t.takeReport(r, id, report); err != nil {
			return fmt.Errorf("service: replication %d: %w", rep.Index, err)
		}
	}
	if err := t.check(r); err != nil {
		return fmt.Errorf("service: replication %d: %w", rep.Index, err)
	}
	t.add(r)
	return nil
}

// reserveStep is how many elements of each column get memory at once: some 350 bytes together.
const reserveStep = 1 << 12

// Reserve implements scenario.Reserver.
func (t *tally) Reserve() (more bool) {
	if t.at != nil || len(t.rows) > 0 {
		return false // there are sums in it
	}
	from := t.reserved
	t.reserved += reserveStep
	for _, left := range [...]bool{reserve(t.boxes, from), reserve(t.servers, from), reserve(t.picked, from),
		reserve(t.edges, from), reserve(t.requests, from), reserve(t.taken, from)} {
		more = more || left
	}
	return more
}

// reserve writes a column's elements from one on, all of which are zero, and reports whether there are more.
func reserve[T any](column []T, from int) (more bool) {
	end := min(from+reserveStep, len(column))
	clear(column[min(from, end):end])
	return end < len(column)
}

// Begin implements scenario.Gatherer.
func (t *tally) Begin(rep scenario.Replication) {
	rep.Reports = nil // they aren't kept
	t.at = &run{Replication: rep, touched: make(map[int]*boxReport, len(t.watched))}
	if rep.Reached == rep.Horizon {
		t.at.sample = t.newSample()
	}
	t.course.Begin(rep.Reached)
	clear(t.taken)
	clear(t.requests)
	t.answers = traffic{}
}

// Take implements scenario.Gatherer: it reads and checks one report, and adds it where it is about one box or edge.
// What is about one of them is added once a replication, so the order of the reports changes no sum.
func (t *tally) Take(simproc int, report []byte) error {
	if err := t.takeReport(t.at, simproc, report); err != nil {
		return fmt.Errorf("service: replication %d: %w", t.at.Index, err)
	}
	return nil
}

func (t *tally) takeReport(r *run, simproc int, report []byte) error {
	if simproc < 0 || simproc >= len(t.taken) {
		return fmt.Errorf("a report of simproc %d, want 0 to %d", simproc, len(t.taken)-1)
	}
	if t.taken[simproc] {
		return fmt.Errorf("a second report of %s", t.m.graph.Name(node.SimprocID(simproc)))
	}
	t.taken[simproc] = true
	switch e := t.m.graph.Endpoint(node.SimprocID(simproc)); {
	case e.Simproc == rankRequest:
		if err := t.readReport(t.report, e, report); err != nil {
			return err
		}
		role := t.m.topology.boxes[e.Node].role
		if err := t.takeWindows(simproc, e.Node, fieldsOf(role), t.report); err != nil {
			return err
		}
		return t.take(r, e.Node, t.report)
	case e.Node == nodeClient:
		r.response = &boxReport{}
		if err := t.readReport(r.response, e, bytes.Clone(report)); err != nil { // its latencies are read last
			return err
		}
		return t.takeWindows(simproc, len(t.boxes), collectorFields, r.response)
	}
	return nil
}

// Summary makes the results.
func (t *tally) Summary() (scenario.Summary, error) {
	if len(t.rows) == 0 {
		return nil, fmt.Errorf("service: no replication to summarize")
	}
	return t.results(), nil
}

// run is one replication.
type run struct {
	scenario.Replication
	touched  map[int]*boxReport  // of the watched nodes
	response *boxReport          // the client's
	bySpan   []measure.Latencies // as they ended
	latency  measure.Latencies   // all of them
	sample   sample              // of its servers, where it reached the horizon
	proof    systemProof         // checked build only
	generated, completed,
	dropped, inFlight,
	carried int64 // in flight at the end of the warm-up
}

func newTally(m *Model) *tally {
	s := m.spec
	t := &tally{m: m, spans: m.spans(m.Horizon()), watched: make(map[int]bool),
		boxes: make([]boxTotal, len(m.topology.boxes)), servers: make([]serverTotal, len(s.Servers)),
		picks: make([]int32, 1, len(s.Servers)+1), edges: make([]edgeTotal, len(s.Edges)),
		report: &boxReport{}, requests: make([]traffic, len(m.topology.boxes)),
		taken: make([]bool, m.graph.NumSimprocs()),
		whole: measure.NewGroups((*sample).join)}
	if m.windows > 0 {
		t.course = measure.NewCourse(m.Horizon(), m.windows, len(m.topology.boxes)+1)
	}
	for i := range s.Servers {
		t.picks = append(t.picks, t.picks[i]+int32(len(s.Servers[i].Endpoints)))
	}
	t.picked = make([]int64, t.picks[len(s.Servers)])
	for _, o := range s.Outages {
		t.phases = append(t.phases, t.newPhases(o.Start, o.End, o.Edge))
	}
	for _, s := range s.Spikes {
		t.phases = append(t.phases, t.newPhases(s.Start, s.End, s.Edge))
	}
	return t
}

// check checks that all reports are there and fit together, when all were taken.
func (t *tally) check(r *run) error {
	for n := range t.m.topology.boxes {
		if id := t.m.graph.ID(node.Endpoint{Node: n, Simproc: rankRequest}); !t.taken[id] {
			return fmt.Errorf("the report of %s is missing", t.m.graph.Name(id))
		}
	}
	if r.response == nil {
		id := t.m.graph.ID(node.Endpoint{Node: nodeClient, Simproc: rankResponse})
		return fmt.Errorf("the report of %s is missing", t.m.graph.Name(id))
	}
	t.answers.received = r.response.Received
	if err := t.conserve(r); err != nil {
		return err
	}
	if err := t.decode(r); err != nil {
		return err
	}
	if invariants.Enabled {
		r.proof.add(r, r.response)
		r.checkSystem()
	}
	return nil
}

// readReport reads the report of one simproc into p.
func (t *tally) readReport(p *boxReport, e node.Endpoint, report []byte) error {
	g := t.m.graph
	id := g.ID(e)
	if err := p.decode(report); err != nil {
		return fmt.Errorf("the report of %s: %w", g.Name(id), err)
	}
	if e.Simproc == rankResponse {
		return nil
	}
	at := &t.m.topology.boxes[e.Node]
	if len(p.Edges) != len(at.out) {
		return fmt.Errorf("the report of %s has %d edges, want %d", g.Name(id), len(p.Edges), len(at.out))
	}
	if (p.Generator != nil) != (at.role == generatorRole) || (p.Server != nil) != (at.role == serverRole) {
		return fmt.Errorf("the report of %s is not that of %s", g.Name(id), at.role)
	}
	if at.role == serverRole && len(p.Server.ByEndpoint) != len(t.m.spec.Servers[at.index].Endpoints) {
		return fmt.Errorf("the report of %s has %d endpoints, want %d", g.Name(id), len(p.Server.ByEndpoint),
			len(t.m.spec.Servers[at.index].Endpoints))
	}
	return nil
}

// take adds the report of one box, and notes what it says of others.
func (t *tally) take(r *run, n int, p *boxReport) error {
	at := &t.m.topology.boxes[n]
	var sent int64
	for k, i := range at.out {
		e := &p.Edges[k]
		to := &t.requests[t.m.topology.edges[i].to]
		if t.m.topology.answers(i) {
			to = &t.answers
		}
		to.came += e.Sent - e.Dropped + e.Carried
		r.carried += e.Carried
		to.late += e.Transit
		r.dropped += e.Dropped
		sent += e.Sent
		t.edges[i].add(e)
	}
	r.carried += p.Held
	if p.Received+p.Held != p.Passed+p.Present || p.Passed != sent {
		return fmt.Errorf("%s took in %d requests, passed on %d, sent %d and holds %d: that doesn't add up, a "+
			"defect of disco", at.id, p.Received+p.Held, p.Passed, sent, p.Present)
	}
	t.requests[n].received = p.Received
	r.inFlight += p.Present
	t.boxes[n].add(p, t.m.measured(p.End))
	switch at.role {
	case generatorRole:
		r.generated = p.Generator.Made
		t.generator.add(p.Generator)
	case serverRole:
		t.takeServer(r, at.index, p)
	}
	if invariants.Enabled {
		r.proof.add(r, p)
	}
	if t.watched[n] {
		r.touched[n], t.report = p, &boxReport{}
	}
	return nil
}

func (t *tally) takeServer(r *run, server int, p *boxReport) {
	t.servers[server].add(p.Server)
	picked := t.picked[t.picks[server]:]
	for k, count := range p.Server.ByEndpoint {
		picked[k] += count
	}
	if s := &r.sample; s.time != nil {
		s.busy[server], s.ready[server], s.time[server] = p.Server.Area[levelCPU], p.Server.Area[levelReady],
			t.m.measured(p.End)
	}
}

// conserve checks that no request was lost or made twice between two boxes, as take does in each, and counts those in
// flight. It holds for interrupted runs too, in which boxes have come to different times: what one has sent and the
// next has not received yet is in flight between them.
func (t *tally) conserve(r *run) error {
	for n := range t.requests {
		if n == nodeGenerator {
			continue
		}
		if err := t.requests[n].check(r, t.m.topology.boxes[n].id); err != nil {
			return err
		}
	}
	if err := t.answers.check(r, t.m.topology.boxes[nodeClient].id); err != nil {
		return err
	}
	r.completed = r.response.Received
	if r.generated+r.carried != r.completed+r.dropped+r.inFlight {
		return fmt.Errorf("%d requests were generated or there before, but %d completed, %d were dropped and %d are "+
			"in flight: that doesn't add up, a defect of disco",
			r.generated+r.carried, r.completed, r.dropped, r.inFlight)
	}
	return nil
}

func (c *traffic) check(r *run, id string) error {
	if c.received > c.came || r.Reached == r.Horizon && c.received != c.came-c.late {
		return fmt.Errorf("%s received %d requests, but %d were sent to it and %d are under way: that "+
			"doesn't add up, a defect of disco", id, c.received, c.came, c.late)
	}
	r.inFlight += c.came - c.received
	return nil
}

// decode unpacks the latencies.
func (t *tally) decode(r *run) error {
	rest, counted := r.response.Latencies, t.spans.At(t.m.warmup)
	r.bySpan = make([]measure.Latencies, t.spans.Count())
	for i := range r.bySpan {
		var err error
		if rest, err = r.bySpan[i].Read(rest); err != nil {
			return fmt.Errorf("the client's latencies: %w: a defect of disco", err)
		}
		if i >= counted {
			r.latency.Merge(&r.bySpan[i])
		}
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
	r := &Results{
		HorizonSeconds: t.m.Horizon(), SimulatedSeconds: t.simulated, Interrupted: t.interrupted, spec: t.m.spec,
		Replications:      t.rows,
		RequestsGenerated: t.generated, RequestsCompleted: t.completed, RequestsDropped: t.dropped,
		RequestsInFlight: t.inFlight, WarmupSeconds: t.m.warmup, RequestsBefore: t.carried,
		Outages: []EventResult{}, Spikes: []EventResult{}, tally: t,
	}
	r.ThroughputRPS = per(float64(r.RequestsCompleted), t.response)
	r.Latency = t.latency.Summary()
	r.groups = t.whole.Close()
	r.Confidence = r.confidence()
	r.Generator = t.generatorResult()
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
