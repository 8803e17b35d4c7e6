// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Recorder = (*Model)(nil)

// A router records a packet each time it decides what becomes of it. Packets have no numbers, and none is given to them
// for that, so that a run that is recorded sends the same events as one that isn't: a packet is found again by the
// channel that it comes over and its time of arrival.
//
// Words: what (the lowest byte), cause (the next one), and the index of the channel among those of the router (from bit
// 32 on), noChannel for none; input, bornMark for one that begins here; flow, and bytes from bit 32 on; how long it
// waits there; when it arrives, or is lost; hops so far.
const (
	recordSent = iota
	recordLost
	recordDelivered
)

const (
	bornMark  = 1 << 32
	noChannel = 1<<32 - 1
)

// record records what becomes of a packet at a time; i is the channel's index.
func (r *router) record(p simproc, what, why uint64, i int, pkt *packet, waited, at float64) {
	input := uint64(pkt.input)
	if pkt.hops == 0 {
		input = bornMark
	}
	p.Record(node.Row{what | why<<8 | uint64(i)<<32, input, uint64(pkt.flow) | uint64(pkt.bytes)<<32,
		math.Float64bits(waited), math.Float64bits(at), uint64(pkt.hops)})
}

// recordAccepted records what channel i has made of a packet; before are its counts before that.
func (r *router) recordAccepted(p simproc, now float64, i int, pkt *packet, before *channelBooks) {
	c := &r.out[i]
	if c.Handed == before.Handed {
		why := lostFull
		if c.Refused[lostOutage] > before.Refused[lostOutage] {
			why = lostOutage
		}
		r.record(p, recordLost, uint64(why), i, pkt, 0, now)
		return
	}
	e := c.at(c.tail - 1)
	waited := e.start - e.arrived
	switch e.outcome {
	case outcomeLostRandom:
		r.record(p, recordLost, uint64(lostRandom), i, pkt, waited, e.release)
	case outcomeCutWhileSending:
		r.record(p, recordLost, uint64(lostOutage), i, pkt, waited, e.release)
	case outcomeCutOnLink:
		r.record(p, recordLost, uint64(lostOutage), i, pkt, waited, c.fallAt)
	default:
		// As launch adds it up: what was sent completely is released when that has ended.
		r.record(p, recordSent, 0, i, pkt, waited, e.release+(c.delay+c.added.At(e.release)))
	}
}

// Columns of records.
const (
	recordFrom = iota
	recordTo
	recordBytes
	recordBegan
	recordEnded
	recordWaited
	recordHops
	recordOutcome
	recordLink
)

// Outcomes of packets, behind the causes of losses.
const (
	packetDelivered = int(causes) + iota
	packetInFlight
)

var packetOutcomes = []string{"full_buffer", "outage", "no_route", "random", "delivered", "in_flight"}

// RecordColumns implements scenario.Recorder: a row is a packet.
func (m *Model) RecordColumns() []scenario.RecordColumn {
	name := func(n int) string { return m.spec.Topology.Nodes[n].Name }
	return []scenario.RecordColumn{
		{Name: "from", Type: scenario.RecordName, NameOf: name}, {Name: "to", Type: scenario.RecordName, NameOf: name},
		{Name: "bytes", Type: scenario.RecordInt}, {Name: "began_s", Type: scenario.RecordNumber},
		{Name: "ended_s", Type: scenario.RecordNumber}, {Name: "waited_s", Type: scenario.RecordNumber},
		{Name: "hops", Type: scenario.RecordInt},
		{Name: "outcome", Type: scenario.RecordName, NameOf: func(n int) string { return packetOutcomes[n] }},
		{Name: "link", Type: scenario.RecordName, NameOf: m.spec.Topology.channelName},
	}
}

// packets makes rows of what routers have recorded.
type packets struct {
	m       *Model
	reached float64
	on      [][]flying // by channel: handed to it and not arrived, in that order
}

// flying is a packet that a channel has taken.
type flying struct {
	born, waited, arrives float64
	flow, bytes           uint32
	hops                  uint32 // channels before this one
}

// Records implements scenario.Recorder.
func (m *Model) Records(reached float64) scenario.Records {
	return &packets{m, reached, make([][]flying, len(m.spec.Topology.Channels))}
}

// Take implements scenario.Records.
func (k *packets) Take(r *node.Recorded, w scenario.RecordWriter) error {
	at, words := int(r.Simproc), &r.Row
	topology := k.m.spec.Topology
	what, why, i := words[0]&0xff, words[0]>>8&0xff, words[0]>>32
	x := flying{born: r.Epoch, flow: uint32(words[2]), bytes: uint32(words[2] >> 32), hops: uint32(words[5]),
		arrives: math.Float64frombits(words[4])}
	if words[1] != bornMark {
		if words[1] >= uint64(len(topology.In[at])) {
			return fmt.Errorf("network: a packet comes over input %d of %s: a defect of disco", words[1],
				topology.Nodes[at].Name)
		}
		before, ok := k.arrived(int(topology.In[at][words[1]]), r.Epoch)
		if !ok || before.flow != x.flow || before.bytes != x.bytes {
			return fmt.Errorf("network: a packet comes to %s at %v s that no link has sent there: a defect of disco",
				topology.Nodes[at].Name, r.Epoch)
		}
		x.born, x.waited = before.born, before.waited
	}
	x.waited += math.Float64frombits(words[3])
	if int(x.flow) >= len(k.m.spec.Flows) {
		return fmt.Errorf("network: a packet of flow %d of %d: a defect of disco", x.flow, len(k.m.spec.Flows))
	}
	channel := -1
	if what != recordDelivered && i < uint64(len(topology.Out[at])) {
		channel = int(topology.Out[at][i])
	}
	switch {
	case what == recordDelivered:
		return k.write(w, &x, r.Epoch, packetDelivered, -1)
	case what == recordSent && channel >= 0 || what == recordLost && x.arrives >= k.reached && channel >= 0:
		k.on[channel] = append(k.on[channel], x)
		return nil
	case what == recordLost && why < uint64(causes):
		return k.write(w, &x, x.arrives, int(why), channel)
	}
	return fmt.Errorf("network: record %d of %s: a defect of disco", what, topology.Nodes[at].Name)
}

// arrived takes the packet off a channel that arrives at a time: the first of several, since that was sent first.
func (k *packets) arrived(channel int, at float64) (x flying, ok bool) {
	on := k.on[channel]
	for i := range on {
		if on[i].arrives == at {
			x = on[i]
			k.on[channel] = on[:i+copy(on[i:], on[i+1:])]
			return x, true
		}
	}
	return x, false
}

// write writes a row. What hasn't ended is at a channel, below 0: at none.
func (k *packets) write(w scenario.RecordWriter, x *flying, ended float64, outcome, channel int) error {
	flow := &k.m.spec.Flows[x.flow]
	w.Name(recordFrom, flow.From)
	w.Name(recordTo, flow.To)
	w.Int(recordBytes, int64(x.bytes))
	w.Number(recordBegan, x.born)
	if outcome != packetInFlight {
		w.Number(recordEnded, ended)
	}
	w.Number(recordWaited, x.waited)
	w.Int(recordHops, int64(x.hops))
	w.Name(recordOutcome, outcome)
	if channel >= 0 {
		w.Name(recordLink, channel)
	}
	return w.Row()
}

// End implements scenario.Records: those in flight, channel by channel.
func (k *packets) End(w scenario.RecordWriter) error {
	for channel, on := range k.on {
		for i := range on {
			if err := k.write(w, &on[i], 0, packetInFlight, channel); err != nil {
				return err
			}
		}
	}
	return nil
}
