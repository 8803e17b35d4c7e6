// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
)

// router is one node of the network: the source of its flows, the end of others, and
// the channels to its neighbours. It is the handler of the node's only simproc.
type router struct {
	m        *maker
	self     int
	horizon  float64
	schedule *schedule
	source   *source
	asked    float64 // the wakeup asked for last

	next  []int32 // by node: index of the channel towards it; noRoute, or hereRoute
	seen  int     // changes of the network that the routes know
	stale bool    // there are more
	down  []timeline.Window
	out   []channel
	span  int     // of the detailed schedule, at the last activation
	warm  float64 // when the router begins to count; +Inf: it has

	books
	flows  []flowEnd              // by Model.inOf, of the flows that end here
	lossOf map[uint32]*flowLosses // by flow
	all    []measure.Latencies    // by span: of packets delivered; one where nothing is looked at closely
	sentIn []int64                // by span: packets that began here
	lostIn [][causes]int64        // by span: packets lost here

	windows *measure.Windows // nil: no time series are asked for

	before     warmBooks
	lossBefore map[uint32]int64 // by flow
}

type flowLosses = [causes]int64

// books are the counts of a router: born + received = delivered + lost + handed.
type books struct {
	Born      int64
	Received  []int64 // by input
	Delivered int64
	Refused   [causes]int64 // lost here before any channel took it
	Handed    int64         // taken by channels
}

// flowEnd is what is known of a flow where it ends.
type flowEnd struct {
	measure.Latencies
	hops    int64
	hopsMax uint32
	before  int64 // packets delivered at the end of the warm-up, which isn't counted
}

const (
	noRoute   = -1
	hereRoute = -2
)

// newRouter makes the logic of one node.
func newRouter(m *maker, p *node.Simproc) (*router, error) {
	self, s := p.NodeIndex(), m.spec
	starts, err := m.starts(self)
	if err != nil {
		return nil, err
	}
	r := &router{m: m, self: self, horizon: p.Horizon(), schedule: m.schedule(p), stale: true, asked: -1,
		lossOf: make(map[uint32]*flowLosses), warm: warmFrom(s.Warmup, 0)}
	if s.Warmup > 0 {
		r.lossBefore = make(map[uint32]int64)
	}
	r.source = newSource(m, starts, p.Source)
	r.down = r.schedule.nodeDown[self]
	r.Received = make([]int64, len(s.Topology.In[self]))
	r.flows = make([]flowEnd, m.ending[self])
	spans := r.schedule.spans.Count()
	r.all = make([]measure.Latencies, spans)
	r.sentIn, r.lostIn = make([]int64, spans), make([][causes]int64, spans)
	if s.windows > 0 {
		r.windows = measure.NewWindows(r.horizon, s.windows, routerFields+channelFields*len(s.Topology.Out[self]))
	}
	r.out = make([]channel, len(s.Topology.Out[self]))
	for i, id := range s.Topology.Out[self] {
		if err := r.wire(&r.out[i], int(id), p); err != nil {
			return nil, err
		}
		r.out[i].field = routerFields + channelFields*i
	}
	return r, nil
}

// wire makes one channel.
func (r *router) wire(c *channel, id int, p *node.Simproc) error {
	s := r.m.spec
	ch := &s.Topology.Channels[id]
	cable := &s.Topology.Cables[ch.Cable]
	link, err := p.LinkTo(node.Endpoint{Node: ch.To})
	if err != nil {
		return err
	}
	*c = channel{
		link: link, input: uint32(ch.Input), rate: cable.Rate, delay: cable.Delay, horizon: r.horizon,
		packetsMax: uint64(s.BufferPackets), bytesMax: int64(s.BufferBytes),
		down: r.schedule.cableDown[ch.Cable], added: r.schedule.added[ch.Cable].Reader(),
		loss: r.schedule.loss[ch.Cable].Reader(), outages: r.schedule.cableDown[ch.Cable],
	}
	if !r.schedule.loss[ch.Cable].Zero() {
		c.src = p.Source(fmt.Sprintf("loss/%d", id))
		c.chance = rand.New(c.src)
	}
	if r.schedule.touched[ch.Cable] {
		n := r.schedule.spans.Count()
		c.busyIn, c.waitIn = make([]float64, n), make([]float64, n)
		c.carriedIn, c.lossIn = make([]int64, n), make([]int64, n)
	}
	return nil
}

// Handle is called by the engine only: packets that arrive come first, then those that
// begin here.
func (r *router) Handle(p *node.Simproc, events []node.Event) error {
	now := p.Now()
	if now >= r.warm {
		r.begin(r.warm)
	}
	r.pass(now)
	var pkt packet
	for i := range events {
		pkt.get(&events[i])
		r.Received[pkt.input]++
		if err := r.arrive(p, now, &pkt); err != nil {
			return err
		}
	}
	for r.source.at() <= now {
		pkt = r.source.make(r.m.spec)
		r.Born++
		r.sentIn[r.span]++
		r.windows.At(now, bornHere, 1)
		if err := r.forward(p, now, &pkt); err != nil {
			return err
		}
	}
	if at := r.source.at(); at != r.asked && at < r.horizon {
		r.asked = at
		return p.Wakeup(at)
	}
	return nil
}

// pass takes note of everything planned up to now.
func (r *router) pass(now float64) {
	for len(r.down) > 0 && r.down[0].To <= now {
		r.down = r.down[1:]
	}
	for r.span < len(r.schedule.spans) && r.schedule.spans[r.span] <= now {
		r.span++
	}
	for r.seen < len(r.schedule.changes) && r.schedule.changes[r.seen]+r.m.spec.Reconverge <= now {
		r.seen++
		r.stale = true
	}
}

// isDown reports whether this node is down.
func (r *router) isDown(now float64) bool { return len(r.down) > 0 && r.down[0].From <= now }

// arrive takes a packet from a neighbour.
func (r *router) arrive(p simproc, now float64, pkt *packet) error {
	if r.m.endOf(pkt.flow) != r.self || r.isDown(now) {
		return r.forward(p, now, pkt)
	}
	r.Delivered++
	if p.Recording() {
		r.record(p, recordDelivered, 0, 0, pkt, 0, now)
	}
	if err := r.all[r.span].Add(pkt.delay); err != nil {
		return err
	}
	if r.windows != nil {
		r.windows.At(now, deliveredHere, 1)
		r.windows.At(now, latencySum, pkt.delay)
		r.windows.Value(now, pkt.delay)
	}
	f := &r.flows[r.m.indexAtEnd(pkt.flow)]
	f.hops += int64(pkt.hops)
	f.hopsMax = max(f.hopsMax, pkt.hops)
	if !r.m.perFlow {
		f.Moments.Add(pkt.delay)
		return nil
	}
	return f.Add(pkt.delay)
}

// forward hands a packet to the channel towards its end, or loses it.
func (r *router) forward(p simproc, now float64, pkt *packet) error {
	if r.isDown(now) {
		r.drop(p, pkt, lostOutage, now)
		return nil
	}
	if r.stale {
		r.route()
	}
	i := r.next[r.m.endOf(pkt.flow)]
	if i < 0 {
		r.drop(p, pkt, lostRoute, now)
		return nil
	}
	c := &r.out[i]
	if p.Recording() {
		before := c.channelBooks
		err := c.accept(r, p, now, pkt)
		r.Handed += c.Handed - before.Handed
		r.recordAccepted(p, now, int(i), pkt, &before)
		return err
	}
	before := c.Handed
	err := c.accept(r, p, now, pkt)
	r.Handed += c.Handed - before
	return err
}

// drop loses a packet that no channel has taken.
func (r *router) drop(p simproc, pkt *packet, why cause, now float64) {
	if p.Recording() {
		r.record(p, recordLost, uint64(why), noChannel, pkt, 0, now)
	}
	r.Refused[why]++
	r.lose(pkt.flow, why, now)
}

// lose files a loss under its flow and its time.
func (r *router) lose(flow uint32, why cause, at float64) {
	l := r.lossOf[flow]
	if l == nil {
		l = new(flowLosses)
		r.lossOf[flow] = l
	}
	l[why]++
	r.lostIn[r.schedule.spans.At(at)][why]++
	r.windows.At(at, lostHere, 1)
}

// route computes the routes for the network as it was at the last change that may be
// known. All routers know the same changes at the same time.
func (r *router) route() {
	t, down := r.m.spec.Topology, func(int) bool { return false }
	if r.seen > 0 {
		at := r.schedule.changes[r.seen-1]
		down = func(cable int) bool { return timeline.Contains(r.schedule.cableDown[cable], at) }
	}
	ways := t.shortest(r.self, r.m.metric, down)
	if r.next == nil {
		r.next = make([]int32, len(t.Nodes))
	}
	index := make(map[int32]int32, len(r.out))
	for i, id := range t.Out[r.self] {
		index[id] = int32(i)
	}
	for n, first := range ways.first {
		r.next[n] = noRoute
		if first >= 0 {
			r.next[n] = index[first]
		}
	}
	r.next[r.self] = hereRoute
	r.stale = false
}

// Report is called by the engine only, once, after the last Handle.
func (r *router) Report(p *node.Simproc) ([]byte, error) {
	return r.report(p.Now())
}

func (r *router) report(end float64) ([]byte, error) {
	if !math.IsInf(r.warm, 1) {
		r.begin(min(r.warm, end))
	}
	report := &nodeReport{End: end, Before: r.before}
	for i := range r.out {
		report.Channels = append(report.Channels, r.out[i].close(r, end))
	}
	if invariants.Enabled {
		text := r.unsound()
		invariants.Assert(text == "", "network: %s: %s", r.m.spec.Topology.Nodes[r.self].Name, text)
	}
	report.books = r.books
	report.SentIn, report.LostIn = r.sentIn, r.lostIn
	for i := range r.all {
		report.Latencies = r.all[i].Append(report.Latencies)
	}
	r.windows.Reach(end)
	report.Windows = r.windows.Append(nil)
	r.reportFlows(report)
	if r.self == 0 {
		report.Detailed = make([]occurrenceReport, len(r.schedule.detailed))
		for i, o := range r.schedule.detailed {
			report.Detailed[i] = occurrenceReport{Event: o.event, Target: o.target, From: o.From, To: o.To}
		}
		report.History = r.schedule.history(r.m.spec, end)
	}
	return report.encode()
}

// reportFlows writes what this router has counted of flows.
func (r *router) reportFlows(report *nodeReport) {
	w := &report.Flows
	for i := range r.source.flows {
		f := &r.source.flows[i]
		w.whole(uint64(f.sent - f.before))
		w.whole(uint64(f.before))
	}
	for i := range r.flows {
		f := &r.flows[i]
		w.whole(uint64(f.hops))
		w.whole(uint64(f.hopsMax))
		w.whole(uint64(f.before))
		if r.m.perFlow {
			*w = f.Latencies.Append(*w)
		} else {
			w.moments(&f.Moments)
		}
	}
	w.whole(uint64(len(r.lossOf)))
	for _, flow := range slices.Sorted(maps.Keys(r.lossOf)) {
		w.whole(uint64(flow))
		for _, n := range r.lossOf[flow] {
			w.whole(uint64(n))
		}
	}
	w.whole(uint64(len(r.lossBefore)))
	for _, flow := range slices.Sorted(maps.Keys(r.lossBefore)) {
		w.whole(uint64(flow))
		w.whole(uint64(r.lossBefore[flow]))
	}
}

// unsound says how packets were lost or made twice inside the router; "": none was.
func (r *router) unsound() string {
	in, out := r.Born, r.Delivered+r.Handed
	for _, n := range r.Received {
		in += n
	}
	var lost flowLosses
	for why := range causes {
		out += r.Refused[why]
		lost[why] = r.Refused[why]
		for i := range r.out {
			lost[why] += r.out[i].Refused[why] + r.out[i].Lost[why]
			out += r.out[i].Refused[why]
		}
	}
	byFlow := r.lost()
	for _, l := range r.lossOf {
		for why, n := range l {
			byFlow[why] += n
		}
	}
	var count int64
	for i := range r.all {
		count += r.all[i].Count
	}
	if in == out && lost == byFlow && count == r.Delivered {
		return ""
	}
	return fmt.Sprintf("%d packets came in and %d went out; lost %v, by flow %v; delivered %d, measured %d", in, out,
		lost, byFlow, r.Delivered, count)
}
