// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"encoding/binary"
	"fmt"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

// Forgetful is a raw model whose handlers can be saved, and leave out one of their fields: behind a checkpoint it goes
// on with other numbers. Whole leaves out none. Only modeltest.ResumeEverywhere tells them apart.
func Forgetful() scenario.Scenario { return forgetful{true} }

// Whole is Forgetful without its fault.
func Whole() scenario.Scenario { return forgetful{} }

type forgetful struct{ faulty bool }

func (forgetful) Name() string                     { return "forgetful" }
func (forgetful) Horizon() float64                 { return 50 }
func (forgetful) Accumulate() scenario.Accumulator { return &memoryResults{} }
func (forgetful) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"main"}, NodeCount: 2,
		NodeAt: func(i int) node.Node { return node.Node{Name: fmt.Sprintf("f%d", i)} }}
	for i := range 2 {
		g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: 1 - i}, Lookahead: 1})
	}
	return g
}

func (f forgetful) NewHandler(p *node.Simproc) (node.Handler, error) {
	link, err := p.LinkTo(node.Endpoint{Node: 1 - p.NodeIndex()})
	return &forgetfulNode{link: link, faulty: f.faulty}, err
}

// forgetfulNode adds up what it gets, and sends on the sum every third time.
type forgetfulNode struct {
	link   node.LinkID
	faulty bool
	sum    uint64
	calls  uint64
}

func (f *forgetfulNode) Handle(p *node.Simproc, events []node.Event) error {
	for i := range events {
		f.sum += binary.LittleEndian.Uint64(events[i].Data)
	}
	f.calls++
	x := uint64(1)
	if f.calls%3 == 0 {
		x = f.sum
	}
	return p.Send(f.link, p.Now()+1, binary.LittleEndian.AppendUint64(nil, x))
}

func (f *forgetfulNode) StateVersion() uint32 { return 1 }

func (f *forgetfulNode) State(_ *node.Simproc, c *state.Codec) {
	c.Uint64(&f.sum)
	if !f.faulty {
		c.Uint64(&f.calls)
	}
}

func (f *forgetfulNode) Report(*node.Simproc) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(nil, f.sum), nil
}
