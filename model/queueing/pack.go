// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// A packed scenario is what the stations of workers are made from: wire.Packed, whose items are stations, and what all
// of them need is common (docs/format/control.md, "Packed scenarios").

// Pack appends what workers need, for scenario.Packer.
func (m *Model) Pack(buf []byte) ([]byte, error) {
	station := func(n int) (func(*wire.Codec), error) { return m.spec.Stations[n].fields, nil }
	buf, err := wire.AppendPacked(buf, m.fields, len(m.spec.Stations), stationBytesMin, station)
	if err != nil {
		return nil, fmt.Errorf("queueing: packing the scenario: %w", err)
	}
	return buf, nil
}

// packed is a scenario as its workers have it.
type packed struct {
	maker
	items wire.Packed // by station
}

// unpack opens what Pack has written. What it says of stations is decoded when they are made.
func unpack(b []byte) (scenario.Scenario, error) {
	p := &packed{}
	var err error
	if p.items, err = wire.OpenPacked(b, p.fields); err != nil {
		return nil, fmt.Errorf("queueing: packed scenario of %d bytes: %w", len(b), err)
	}
	p.stations = p.station
	return p, nil
}

// station decodes station n.
func (p *packed) station(n int) (*Station, error) {
	st := &Station{}
	if err := p.items.Decode(n, st.fields); err != nil {
		return nil, fmt.Errorf("queueing: packed station %d: %w", n, err)
	}
	return st, nil
}

// Graph is the launcher's alone.
func (p *packed) Graph() *node.Graph { return nil }

// Accumulate is the launcher's alone.
func (p *packed) Accumulate() scenario.Accumulator { return nil }

// Bytes that a station and its lists' elements have at least.
const (
	stationBytesMin = 4 + 8 + distBytesMin + 8 + 1 + 8 + 4 + 1
	distBytesMin    = 1 + 8 + 8 + 8 + 8 + 8
	routeBytesMin   = 1 + 8
)

func (p *common) fields(c *wire.Codec) {
	c.String(&p.name)
	for _, v := range []*float64{&p.horizon, &p.warmup, &p.transit} {
		c.Float(v)
	}
	c.Int(&p.stretches)
	c.Bool(&p.promises)
	if c.Decoding() && !(p.horizon > 0 && p.warmup >= 0 && p.warmup < p.horizon && p.transit >= 0 &&
		p.stretches >= batchCount && measure.WindowsFit(p.stretches)) {
		c.Fail("found the horizon %v, the warm-up %v, the transit %v, %d stretches of time", p.horizon, p.warmup,
			p.transit,
			p.stretches)
	}
}

func (st *Station) fields(c *wire.Codec) {
	c.String(&st.ID)
	for _, n := range []*int{&st.Servers, &st.Buffer, &st.Initial} {
		c.Int(n)
	}
	st.Service.fields(c)
	wire.Optional(c, &st.Arrivals, (*Dist).fields)
	wire.List(c, &st.To, routeBytesMin, func(r *Route) {
		to := int64(r.Station)
		c.Varint(&to)
		c.Float(&r.Probability)
		if c.Decoding() {
			r.Station = int(to) // LinkTo checks it
		}
	})
	c.Bool(&st.Stay)
	if c.Decoding() && (st.Servers < 1 || st.Servers > serversMax || st.Buffer < Unlimited || st.Buffer > bufferMax ||
		st.Initial < 0 || st.Initial > initialMax) {
		c.Fail("found %d servers, a buffer of %d, %d initial customers", st.Servers, st.Buffer, st.Initial)
	}
}

// distKinds are the kinds of distributions by their numbers in packed scenarios.
var distKinds = []string{Exponential, Constant, Uniform, Erlang, Gamma, LogNormal, Hyperexponential}

func (d *Dist) fields(c *wire.Codec) {
	c.Word(&d.Kind, distKinds)
	for _, v := range []*float64{&d.Mean, &d.CV, &d.Min, &d.Max} {
		c.Float(v)
	}
	c.Int(&d.Shape)
	if c.Decoding() && !d.drawable() {
		c.Fail("found %+v, which can't be drawn from", *d)
	}
}

// drawable reports whether a sampler gives times, as it does of all that Load lets through.
func (d *Dist) drawable() bool {
	switch d.Kind {
	case Uniform:
		return d.Min >= 0 && d.Max > d.Min
	case Erlang:
		return d.Mean > 0 && d.Shape > 0
	case Gamma, LogNormal:
		return d.Mean > 0 && d.CV > 0
	case Hyperexponential:
		return d.Mean > 0 && d.CV >= 1
	}
	return d.Mean > 0
}
