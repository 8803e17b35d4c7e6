// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Accumulate makes the results of all replications. Its Add refuses parts in which a
// packet was lost without being counted, or made twice: that is a defect of disco.
func (m *Model) Accumulate() scenario.Accumulator {
	t := &tally{
		m: m, flows: make([]flowTotal, len(m.spec.Flows)), links: make([]linkTotal, len(m.spec.Topology.Channels)),
		history: make([]historyReport, len(m.spec.Events)), whole: measure.NewGroups((*sample).join),
	}
	if m.spec.windows > 0 {
		t.course = measure.NewCourse(m.Horizon(), m.spec.windows, len(m.spec.Topology.Nodes))
	}
	return t
}

// tally gathers the parts of all replications: sums, and of each no more than its row.
type tally struct {
	m           *Model
	rows        []ReplicationResult
	simulated   float64 // seconds
	measured    float64 // of them that count
	interrupted bool
	sent, delivered,
	inFlight,
	carried int64 // in flight at the end of the warm-up
	lost    [causes]int64
	latency measure.Latencies
	flows   []flowTotal
	links   []linkTotal     // by channel
	course  *measure.Course // by node; nil: no time series were asked for
	history []historyReport // by event
	outages []*outage       // in the order of the results
	whole   *measure.Groups[sample]
	full    int // replications in it: those that reached the horizon
}

// Add reads the parts of one replication.
func (t *tally) Add(rep scenario.Replication) error {
	r, err := t.read(rep)
	if err != nil {
		return fmt.Errorf("network: replication %d: %w", rep.Index, err)
	}
	t.add(r)
	return nil
}

// Summary makes the results.
func (t *tally) Summary() (scenario.Summary, error) {
	if len(t.rows) == 0 {
		return nil, fmt.Errorf("network: no replication to summarize")
	}
	return t.results(), nil
}

// run is one replication.
type run struct {
	scenario.Replication
	reports  []*nodeReport // by node
	detailed []occurrence
	spans    timeline.Spans
	bySpan   []measure.Latencies // of the whole network
	latency  measure.Latencies   // of all spans

	sent, delivered, inFlight, carried int64
	lost                               [causes]int64
}

// flowTotal is what became of one flow.
type flowTotal struct {
	flowEnd
	sent    int64
	lost    [causes]int64
	carried int64 // in flight at the end of the warm-up
}

// read reads and checks the parts of one replication.
func (t *tally) read(rep scenario.Replication) (*run, error) {
	r := &run{Replication: rep, reports: make([]*nodeReport, len(t.m.spec.Topology.Nodes))}
	t.course.Begin(rep.Reached)
	for n := range r.reports {
		p, err := t.readReport(rep, n)
		if err != nil {
			return nil, err
		}
		r.reports[n] = p
	}
	for _, o := range r.reports[0].Detailed {
		r.detailed = append(r.detailed, occurrence{timeline.Window{From: o.From, To: o.To}, o.Event, o.Target})
	}
	r.spans = spansWith(spansOf(r.detailed, t.m.Horizon()), t.m.spec.Warmup, t.m.Horizon())
	r.bySpan = make([]measure.Latencies, r.spans.Count())
	for n, p := range r.reports {
		if err := t.decode(r, n, p); err != nil {
			return nil, fmt.Errorf("the report of %s: %w", t.m.spec.Topology.Nodes[n].Name, err)
		}
	}
	if err := t.conserve(r); err != nil {
		return nil, err
	}
	for i := r.spans.At(t.m.spec.Warmup); i < len(r.bySpan); i++ {
		r.latency.Merge(&r.bySpan[i])
	}
	return r, nil
}

// readReport reads the report of one node.
func (t *tally) readReport(rep scenario.Replication, n int) (*nodeReport, error) {
	g := t.m.graph
	id := g.ID(node.Endpoint{Node: n})
	if int(id) >= len(rep.Reports) || rep.Reports[id] == nil {
		return nil, fmt.Errorf("the report of %s is missing", g.Name(id))
	}
	p, err := decodeReport(rep.Reports[id])
	if err != nil {
		return nil, fmt.Errorf("the report of %s: %w", g.Name(id), err)
	}
	topology := t.m.spec.Topology
	if len(p.Channels) != len(topology.Out[n]) || len(p.Received) != len(topology.In[n]) {
		return nil, fmt.Errorf("the report of %s has %d channels and %d inputs, want %d and %d", g.Name(id),
			len(p.Channels), len(p.Received), len(topology.Out[n]), len(topology.In[n]))
	}
	return p, nil
}

// decode unpacks latencies and flows.
func (t *tally) decode(r *run, n int, p *nodeReport) error {
	spans := r.spans.Count()
	if len(p.SentIn) != spans || len(p.LostIn) != spans {
		return fmt.Errorf("%d spans, want %d", len(p.SentIn), spans)
	}
	fields := routerFields + channelFields*len(p.Channels)
	if err := t.course.Read(n, fields, p.Windows); err != nil {
		return err
	}
	b := blobReader{rest: p.Latencies}
	for i := range r.bySpan {
		b.latencies(&r.bySpan[i])
	}
	if b.err != nil {
		return b.err
	}
	b = blobReader{rest: p.Flows}
	for _, f := range t.m.flowsFrom[n] {
		t.flows[f].sent += b.whole()
		t.flows[f].carried += b.whole()
	}
	for _, f := range t.m.flowsTo[n] {
		end := &t.flows[f]
		end.hops += b.whole()
		end.hopsMax = max(end.hopsMax, uint32(b.whole()))
		t.flows[f].carried -= b.whole()
		if t.m.perFlow {
			b.latencies(&end.Latencies)
		} else {
			m := b.moments()
			end.Moments.Merge(&m)
		}
	}
	for k := b.whole(); k > 0 && b.err == nil; k-- {
		f := b.whole()
		if f >= int64(len(t.flows)) {
			return fmt.Errorf("a loss of flow %d of %d", f, len(t.flows))
		}
		for why := range causes {
			t.flows[f].lost[why] += b.whole()
		}
	}
	for k := b.whole(); k > 0 && b.err == nil; k-- {
		f := b.whole()
		if f >= int64(len(t.flows)) {
			return fmt.Errorf("a loss of flow %d of %d", f, len(t.flows))
		}
		t.flows[f].carried -= b.whole()
	}
	return b.err
}

// conserve checks that no packet was lost without being counted, or made twice, in any
// router and on any link, and counts those in flight. It holds for interrupted runs
// too, in which routers have come to different times: what one has sent and the next
// has not received yet is in flight between them.
func (t *tally) conserve(r *run) error {
	topology := t.m.spec.Topology
	for n, p := range r.reports {
		in, out := p.Born, p.Delivered+p.Handed
		for _, c := range p.Received {
			in += c
		}
		r.sent += p.Born - p.Before.Born
		r.delivered += p.Delivered - p.Before.Delivered
		r.carried += p.Before.Born - p.Before.Delivered
		var handed int64
		for why := range causes {
			out += p.Refused[why]
			r.lost[why] += p.Refused[why] - p.Before.Refused[why]
			r.carried -= p.Before.Refused[why]
			for i := range p.Channels {
				out += p.Channels[i].Refused[why]
				c := &p.Channels[i]
				before := c.Before.Refused[why] + c.Before.Lost[why]
				r.lost[why] += c.Refused[why] + c.Lost[why] - before
				r.carried -= before
			}
		}
		for i, id := range topology.Out[n] {
			c, ch := &p.Channels[i], &topology.Channels[id]
			handed += c.Handed
			received := r.reports[ch.To].Received[ch.Input]
			flying := c.Handed - c.Lost[lostOutage] - c.Lost[lostRandom] - received
			if flying < 0 || received > c.Sent || r.Reached == r.Horizon && received != c.Sent {
				return fmt.Errorf("%s was handed %d packets, lost %d and sent %d, but %d were received: that doesn't "+
					"add up, a defect of disco", topology.channelName(int(id)), c.Handed,
					c.Lost[lostOutage]+c.Lost[lostRandom], c.Sent, received)
			}
			r.inFlight += flying
			t.links[id].inFlight += flying
		}
		if in != out || handed != p.Handed {
			return fmt.Errorf("%s took in %d packets and gave out %d, %d of them to its links, which took %d: that "+
				"doesn't add up, a defect of disco", topology.Nodes[n].Name, in, out, p.Handed, handed)
		}
	}
	lost := int64(0)
	for _, n := range r.lost {
		lost += n
	}
	if r.sent+r.carried != r.delivered+lost+r.inFlight {
		return fmt.Errorf("%d packets were sent or there before, but %d delivered, %d lost and %d are in flight: that "+
			"doesn't add up, a defect of disco", r.sent+r.carried, r.delivered, lost, r.inFlight)
	}
	return nil
}

// channelName is what people call a channel.
func (t *Topology) channelName(id int) string {
	c := &t.Channels[id]
	cable := &t.Cables[c.Cable]
	text := t.Nodes[c.From].Name + " -> " + t.Nodes[c.To].Name
	if cable.Parallel > 1 {
		text += fmt.Sprintf(" (%d)", cable.Parallel)
	}
	return text
}
