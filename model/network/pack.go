// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// A packed scenario is what the routers of workers are made from: wire.Packed, whose items are the flows that begin at
// each node, and what all routers need is the network, its events, and where each flow ends (docs/format/control.md,
// "Packed scenarios").

// Pack appends what workers need, for scenario.Packer.
func (m *Model) Pack(buf []byte) ([]byte, error) {
	flows := func(n int) (func(*wire.Codec), error) {
		starts, err := m.starts(n)
		return func(c *wire.Codec) { m.startFields(c, &starts) }, err
	}
	buf, err := wire.AppendPacked(buf, m.fields, len(m.spec.Topology.Nodes), lengthBytes, flows)
	if err != nil {
		return nil, fmt.Errorf("network: packing the scenario: %w", err)
	}
	return buf, nil
}

// packed is a scenario as its workers have it.
type packed struct {
	maker
	items wire.Packed // by node
}

// unpack opens what Pack has written. Flows are decoded when the nodes are made at which they begin.
func unpack(b []byte) (scenario.Scenario, error) {
	p := &packed{maker: maker{spec: &Spec{Topology: &Topology{}}}}
	var err error
	if p.items, err = wire.OpenPacked(b, p.fields); err == nil {
		err = p.countEnding()
	}
	if err != nil {
		return nil, fmt.Errorf("network: packed scenario of %d bytes: %w", len(b), err)
	}
	p.starts, p.metric = p.startsAt, p.spec.metric()
	return p, nil
}

// countEnding counts the flows that end at each node, and checks where they do.
func (m *maker) countEnding() error {
	m.ending = make([]int32, len(m.spec.Topology.Nodes))
	if len(m.ends)%flowEndBytes != 0 {
		return fmt.Errorf("found the ends of flows in %d bytes, want a multiple of %d", len(m.ends), flowEndBytes)
	}
	for f := range uint32(len(m.ends) / flowEndBytes) {
		to, index := m.endOf(f), m.indexAtEnd(f)
		if to >= len(m.ending) || index != int(m.ending[to]) {
			return fmt.Errorf("found flow %d to end at node %d of %d, the %dth there", f, to, len(m.ending), index)
		}
		m.ending[to]++
	}
	return nil
}

// startsAt decodes the flows that begin at node n.
func (p *packed) startsAt(n int) (starts []flowStart, err error) {
	if err = p.items.Decode(n, func(c *wire.Codec) { p.startFields(c, &starts) }); err != nil {
		return nil, fmt.Errorf("network: packed flows of node %d: %w", n, err)
	}
	return starts, nil
}

// Graph is the launcher's alone.
func (p *packed) Graph() *node.Graph { return nil }

// Accumulate is the launcher's alone.
func (p *packed) Accumulate() scenario.Accumulator { return nil }

// Bytes that elements of lists have at least.
const (
	lengthBytes    = 4
	cableBytes     = 8 + 8
	channelBytes   = 4 + 4 + 4
	flowStartBytes = 4 + 8
	eventBytesMin  = 4 + 1 + 1 + 6*8 + lengthBytes
	targetBytesMin = 4 + 8 + lengthBytes
)

// Words by their numbers in packed scenarios.
var (
	arrivalKinds = []string{Poisson, Constant}
	sizeKinds    = []string{Fixed, Exponential, Uniform, Discrete}
	eventKinds   = []string{LinkDown, NodeDown, Latency, Loss}
)

func (m *maker) fields(c *wire.Codec) {
	s := m.spec
	c.String(&s.Name)
	c.Float(&s.Horizon)
	c.Float(&s.Warmup)
	c.Float(&s.Reconverge)
	c.Int(&s.BufferPackets)
	c.Int(&s.BufferBytes)
	c.Word(&s.Arrivals, arrivalKinds)
	s.Sizes.fields(c)
	s.Topology.fields(c)
	wire.List(c, &s.Events, eventBytesMin, func(e *Event) { e.fields(c, s.Topology) })
	c.Bool(&m.perFlow)
	c.Bytes(&m.ends)
	if c.Int(&s.windows); c.Decoding() && !measure.WindowsFit(s.windows) {
		c.Fail("found %d windows, want 0 or an even number of at most %d", s.windows, measure.WindowsMax)
	}
	if c.Decoding() && !(s.Horizon > 0 && s.Warmup >= 0 && s.Warmup < s.Horizon && s.Reconverge >= 0 &&
		s.BufferPackets >= 0 &&
		s.BufferPackets <= bufferPacketsMax && s.BufferBytes >= 0 && s.BufferBytes <= bufferBytesMax) {
		c.Fail("found the horizon %v, the warm-up %v, reconverge_s %v, buffers of %d packets and %d bytes",
			s.Horizon, s.Warmup, s.Reconverge, s.BufferPackets, s.BufferBytes)
	}
}

func (m *maker) startFields(c *wire.Codec, starts *[]flowStart) {
	wire.List(c, starts, flowStartBytes, func(f *flowStart) {
		c.Uint32(&f.id)
		c.Float(&f.rate)
		if flows := len(m.ends) / flowEndBytes; c.Decoding() && (int(f.id) >= flows || !(f.rate > 0)) {
			c.Fail("found flow %d of %d, with the rate %v", f.id, flows, f.rate)
		}
	})
}

func (s *Sizes) fields(c *wire.Codec) {
	c.Word(&s.Kind, sizeKinds)
	for _, v := range []*float64{&s.Mean, &s.Min, &s.Max} {
		c.Float(v)
	}
	wire.Floats(c, &s.Bytes)
	wire.Floats(c, &s.Shares)
	if c.Decoding() && (!(s.Mean > 0) || len(s.Bytes) != len(s.Shares) || (s.Kind == Discrete && len(s.Bytes) == 0)) {
		c.Fail("found the mean size %v, %d sizes, %d shares", s.Mean, len(s.Bytes), len(s.Shares))
	}
}

// fields are those that routes and packets depend on.
func (t *Topology) fields(c *wire.Codec) {
	wire.List(c, &t.Nodes, lengthBytes, func(p *Place) { c.String(&p.Name) })
	wire.List(c, &t.Cables, cableBytes, func(cable *Cable) {
		c.Float(&cable.Rate)
		c.Float(&cable.Delay)
		if c.Decoding() && !(cable.Rate > 0 && cable.Delay >= 0) {
			c.Fail("found a cable with the rate %v and the delay %v", cable.Rate, cable.Delay)
		}
	})
	nodes := len(t.Nodes)
	if c.Decoding() {
		t.Out, t.In = make([][]int32, nodes), make([][]int32, nodes)
	}
	at := 0
	wire.List(c, &t.Channels, channelBytes, func(ch *Channel) {
		from, to, cable := uint32(ch.From), uint32(ch.To), uint32(ch.Cable)
		for _, v := range []*uint32{&from, &to, &cable} {
			c.Uint32(v)
		}
		switch {
		case !c.Decoding():
		case int(from) >= nodes || int(to) >= nodes || int(cable) >= len(t.Cables):
			c.Fail("found a channel from node %d to %d of %d, on cable %d of %d", from, to, nodes, cable, len(t.Cables))
		default:
			ch.From, ch.To, ch.Cable = int(from), int(to), int(cable)
			t.attach(at)
		}
		at++
	})
}

func (e *Event) fields(c *wire.Codec, t *Topology) {
	c.String(&e.ID)
	c.Word(&e.Kind, eventKinds)
	c.Bool(&e.Random)
	for _, v := range []*float64{&e.From, &e.To, &e.MTBF, &e.MTTR, &e.Added, &e.Probability} {
		c.Float(v)
	}
	wire.List(c, &e.Targets, targetBytesMin, func(target *Target) {
		c.String(&target.Name)
		c.Int(&target.Node)
		wire.List(c, &target.Cables, 1, func(cable *int) {
			n := int64(*cable)
			if c.Varint(&n); c.Decoding() {
				*cable = int(n)
			}
			if n < 0 || n >= int64(len(t.Cables)) {
				c.Fail("found cable %d of %d", n, len(t.Cables))
			}
		})
		if target.Node < -1 || target.Node >= len(t.Nodes) || (e.Kind == NodeDown && target.Node < 0) {
			c.Fail("found the node %d of %d", target.Node, len(t.Nodes))
		}
	})
	if c.Decoding() && (e.Random && !(e.MTBF > 0 && e.MTTR > 0) || !(e.Added >= 0) || !(e.Probability >= 0)) {
		c.Fail("found %s with mtbf_s %v, mttr_s %v, %v s added and the probability %v", e.Kind, e.MTBF, e.MTTR,
			e.Added, e.Probability)
	}
}
