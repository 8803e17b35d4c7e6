// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// A packed scenario is what the boxes of workers are made from: wire.Packed, whose items are boxes, and what all of
// them need is common (docs/format/control.md, "Packed scenarios"). A worker decodes common, and of the rest only the
// boxes that it hosts.

// Pack appends what workers need, for scenario.Packer.
func (m *Model) Pack(buf []byte) ([]byte, error) {
	c := m.common
	c.name = m.Name()
	box := func(n int) (func(*wire.Codec), error) {
		b, err := m.box(n)
		return b.fields, err
	}
	buf, err := wire.AppendPacked(buf, c.fields, len(m.topology.boxes), boxBytesMin, box)
	if err != nil {
		return nil, fmt.Errorf("service: packing the scenario: %w", err)
	}
	return buf, nil
}

// packed is a scenario as its workers have it.
type packed struct {
	maker
	items wire.Packed // by box: its boxSpec
}

// unpack opens what Pack has written. What it says of boxes is decoded when they are made.
func unpack(b []byte) (scenario.Scenario, error) {
	p := &packed{}
	var err error
	if p.items, err = wire.OpenPacked(b, p.fields); err != nil {
		return nil, fmt.Errorf("service: packed scenario of %d bytes: %w", len(b), err)
	}
	p.boxes = p.box
	p.share()
	return p, nil
}

// box decodes what making box n takes.
func (p *packed) box(n int) (b boxSpec, err error) {
	if err = p.items.Decode(n, b.fields); err == nil && b.role == serverRole && uint64(b.list) >= uint64(len(p.lists)) {
		err = fmt.Errorf("found list %d of endpoints, there are %d", b.list, len(p.lists))
	}
	if err != nil {
		err = fmt.Errorf("service: packed box %d: %w", n, err)
	}
	return b, err
}

// Name is the scenario's name, for people.
func (p *packed) Name() string { return p.name }

// Graph is the launcher's alone.
func (p *packed) Graph() *node.Graph { return nil }

// Accumulate is the launcher's alone.
func (p *packed) Accumulate() scenario.Accumulator { return nil }

// Bytes that the elements of lists have at least.
const (
	endpointBytesMin = 8 + 4
	stepBytesMin     = 1 + distBytesMin
	distBytesMin     = 1 + 8 + 8
	windowBytes      = 8 + 8
	pieceBytes       = windowBytes + 8
	changeBytesMin   = 8 + 1 + 1
	edgeSpecBytesMin = 4 + 1 + 1 + distBytesMin + 8 + 4 + 4
	boxBytesMin      = 4 + 1 + 1 + 4 + 1 + 8 + 1 + 4
)

func (p *common) fields(c *wire.Codec) {
	c.String(&p.name)
	c.Float(&p.horizon)
	p.users.fields(c)
	c.Float(&p.warmup)
	for _, v := range []*float64{&p.perMinute, &p.window, &p.period} {
		c.Float(v)
	}
	c.Bool(&p.sampling)
	if c.Int(&p.windows); c.Decoding() && !measure.WindowsFit(p.windows) {
		c.Fail("found %d windows, want 0 or an even number of at most %d", p.windows, measure.WindowsMax)
	}
	windows(c, &p.events)
	wire.List(c, &p.lists, 4, func(l *[]Endpoint) { endpointFields(c, l) })
	if c.Decoding() && !(p.horizon > 0 && p.warmup >= 0 && p.warmup < p.horizon) {
		c.Fail("found the horizon %v and the warm-up %v, want one above 0 and one below it", p.horizon, p.warmup)
	}
}

// appendLists appends lists of endpoints as far as programs depend on them.
func appendLists(buf []byte, lists *[][]Endpoint) []byte {
	buf, err := wire.Append(buf, func(c *wire.Codec) {
		wire.List(c, lists, 4, func(l *[]Endpoint) { endpointFields(c, l) })
	})
	if err != nil {
		panic(fmt.Sprintf("service: %v: the loader lets only finite numbers through", err))
	}
	return buf
}

// endpointFields are those of a list of endpoints: what programs are made from.
func endpointFields(c *wire.Codec, list *[]Endpoint) {
	wire.List(c, list, endpointBytesMin, func(e *Endpoint) {
		c.Float(&e.RAM)
		wire.List(c, &e.Steps, stepBytesMin, func(s *Step) {
			c.Bool(&s.CPU)
			s.Time.fields(c)
		})
	})
	if c.Decoding() && len(*list) == 0 {
		c.Fail("found no endpoint, want one at least")
	}
}

func (b *boxSpec) fields(c *wire.Codec) {
	c.String(&b.id)
	of, cores, list := int64(b.role), int64(b.cores), int64(b.list)
	c.Varint(&of)
	c.Bool(&b.least)
	wire.List(c, &b.changes, changeBytesMin, func(x *change) {
		edge := int64(x.edge)
		c.Float(&x.at)
		c.Varint(&edge)
		c.Bool(&x.up)
		x.edge = int32(edge)
	})
	c.Varint(&cores)
	c.Float(&b.ram)
	c.Varint(&list)
	wire.List(c, &b.edges, edgeSpecBytesMin, func(e *edgeSpec) { e.fields(c) })
	if !c.Decoding() {
		return
	}
	if of < 0 || of > int64(serverRole) || cores < 0 || cores > coresMax || list < 0 || list > serversMax {
		c.Fail("found role %d, %d cores, endpoints %d", of, cores, list)
	}
	b.role, b.cores, b.list = role(of), int32(cores), int32(list)
	for _, x := range b.changes {
		if uint64(x.edge) >= uint64(len(b.edges)) {
			c.Fail("found a change of edge %d of %d", x.edge, len(b.edges))
		}
	}
}

func (e *edgeSpec) fields(c *wire.Codec) {
	c.String(&e.id)
	to, rank := int64(e.to.Node), int64(e.to.Simproc)
	c.Varint(&to)
	c.Varint(&rank)
	e.latency.fields(c)
	c.Float(&e.dropout)
	wire.List(c, &e.spikes, pieceBytes, func(p *timeline.Piece) {
		c.Float(&p.From)
		c.Float(&p.To)
		c.Float(&p.Value)
	})
	windows(c, &e.touching)
	if c.Decoding() {
		e.to = node.Endpoint{Node: int(to), Simproc: int(rank)} // LinkTo checks it
	}
}

func windows(c *wire.Codec, list *[]timeline.Window) {
	wire.List(c, list, windowBytes, func(w *timeline.Window) {
		c.Float(&w.From)
		c.Float(&w.To)
	})
}

// distKinds are the kinds of distributions by their numbers in packed scenarios.
var distKinds = []string{Exponential, Normal, LogNormal, Poisson, Uniform, Constant}

func (d *Dist) fields(c *wire.Codec) {
	c.Word(&d.Kind, distKinds)
	c.Float(&d.Mean)
	c.Float(&d.StdDev)
}
