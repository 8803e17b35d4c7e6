// SPDX-License-Identifier: Apache-2.0

package devstone

import (
	"fmt"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// A packed scenario is what the components of workers are made from: wire.Packed, whose items are nodes
// (docs/format/control.md, "Packed scenarios").

// Pack appends what workers need, for scenario.Packer.
func (m *Model) Pack(buf []byte) ([]byte, error) {
	shared := common{name: m.Name(), horizon: m.Horizon(), windows: m.windows()}
	item := func(n int) (func(*wire.Codec), error) {
		i := item{m.wiring.input[n], m.wiring.out[n]}
		return i.fields, nil
	}
	buf, err := wire.AppendPacked(buf, shared.fields, len(m.wiring.out), itemBytesMin, item)
	if err != nil {
		return nil, fmt.Errorf("devstone: packing the scenario: %w", err)
	}
	return buf, nil
}

// common is what all nodes share.
type common struct {
	name    string
	horizon float64
	windows int // of each component
}

func (p *common) fields(c *wire.Codec) {
	c.String(&p.name)
	c.Float(&p.horizon)
	c.Int(&p.windows)
	if c.Decoding() && !(p.horizon > 0) {
		c.Fail("found the horizon %v, want one above 0", p.horizon)
	}
	if c.Decoding() && !measure.WindowsFit(p.windows) {
		c.Fail("found %d windows, want 0 or an even number of at most %d", p.windows, measure.WindowsMax)
	}
}

// item is what one node is made from.
type item struct {
	input bool
	out   []int // nodes that its output reaches
}

// itemBytesMin is what an item has at least.
const itemBytesMin = 1 + 4

func (i *item) fields(c *wire.Codec) {
	c.Bool(&i.input)
	wire.List(c, &i.out, 4, func(to *int) {
		n := uint32(*to)
		if c.Uint32(&n); c.Decoding() {
			*to = int(n) // LinkTo checks it
		}
	})
}

// packed is a scenario as its workers have it.
type packed struct {
	common
	items wire.Packed // by node
}

// unpack opens what Pack has written. What it says of nodes is decoded when they are made.
func unpack(b []byte) (scenario.Scenario, error) {
	p := &packed{}
	var err error
	if p.items, err = wire.OpenPacked(b, p.fields); err != nil {
		return nil, fmt.Errorf("devstone: packed scenario of %d bytes: %w", len(b), err)
	}
	return p, nil
}

// item decodes what making node n takes.
func (p *packed) item(n int) (i item, err error) {
	if err = p.items.Decode(n, i.fields); err != nil {
		err = fmt.Errorf("devstone: packed node %d: %w", n, err)
	}
	return i, err
}

// Name is for people.
func (p *packed) Name() string { return p.name }

// Horizon is one second after the last pulse.
func (p *packed) Horizon() float64 { return p.horizon }

// NewHandler makes the generator or a component.
func (p *packed) NewHandler(s *node.Simproc) (node.Handler, error) {
	i, err := p.item(s.NodeIndex())
	if err != nil {
		return nil, err
	}
	return newHandler(s, i.input, i.out, p.windows)
}

// Graph is the launcher's alone.
func (p *packed) Graph() *node.Graph { return nil }

// Accumulate is the launcher's alone.
func (p *packed) Accumulate() scenario.Accumulator { return nil }
