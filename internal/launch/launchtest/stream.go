// SPDX-License-Identifier: Apache-2.0

package launchtest

import (
	"encoding/binary"
	"fmt"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

// StreamKind is the kind of scenario "stream": a chain of nodes of which the first makes events at a steady rate and
// waits for nobody, and each of the others does more work for an event than the one before it. On one worker hardly
// anything is pending; over many, each worker could run ahead of the next one as far as it has memory.
//
//	model: stream
//	horizon: 10
//	nodes: 8
//	rate: 1000         # events in a simulated second
//	payload: 2000      # bytes of every event
//	effort: 1          # passes over every 16th byte of the payload at node 1, twice as many at node 2, …
func StreamKind() scenario.Kind {
	return scenario.Kind{Name: "stream", Load: loadStream}
}

// StreamScenario is the text of a scenario file.
func StreamScenario(nodes int, horizon, rate float64, payload, effort int) string {
	return fmt.Sprintf("model: stream\nhorizon: %g\nnodes: %d\nrate: %g\npayload: %d\neffort: %d\n", horizon, nodes,
		rate, payload, effort)
}

type stream struct {
	horizon, rate          float64
	nodes, payload, effort int
}

// Name implements scenario.Scenario.
func (s *stream) Name() string { return "stream" }

// Horizon implements scenario.Scenario.
func (s *stream) Horizon() float64 { return s.horizon }

// Graph implements node.Model.
func (s *stream) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"stage"}}
	for i := range s.nodes {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("n%d", i), Work: 1})
		if i > 0 {
			g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i - 1}, To: node.Endpoint{Node: i},
				Lookahead: Lookahead})
		}
	}
	return g
}

// NewHandler implements node.Model.
func (s *stream) NewHandler(p *node.Simproc) (node.Handler, error) {
	st := &stage{stream: s, data: make([]byte, s.payload)}
	if p.NodeIndex()+1 < s.nodes {
		l, err := p.LinkTo(node.Endpoint{Node: p.NodeIndex() + 1})
		st.next, st.sends = l, true
		return st, err
	}
	return st, nil
}

// stage is one node of the chain.
type stage struct {
	*stream
	next    node.LinkID
	sends   bool
	data    []byte
	handled uint64
	sum     uint64
}

// Handle implements node.Handler.
func (s *stage) Handle(p *node.Simproc, events []node.Event) error {
	first := p.NodeIndex() == 0
	if first {
		if err := p.Schedule(p.Now()+1/s.rate, nil); err != nil {
			return err
		}
		s.handled++
		binary.LittleEndian.PutUint64(s.data, s.handled)
		if s.sends {
			return p.Send(s.next, p.Now()+Lookahead, s.data)
		}
		return nil
	}
	for i := range events {
		s.handled++
		for range s.effort * p.NodeIndex() {
			for at := 0; at < len(events[i].Data); at += 16 {
				s.sum = s.sum*31 + uint64(events[i].Data[at])
			}
		}
		if s.sends {
			if err := p.Send(s.next, p.Now()+Lookahead, events[i].Data); err != nil {
				return err
			}
		}
	}
	return nil
}

// StateVersion is that of State.
func (s *stage) StateVersion() uint32 { return 1 }

// State is what the node has counted. What it sends is made anew each time.
func (s *stage) State(_ *node.Simproc, c *state.Codec) {
	c.Uint64(&s.handled)
	c.Uint64(&s.sum)
}

// Report implements node.Reporter.
func (s *stage) Report(*node.Simproc) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(nil, s.handled+s.sum), nil
}

// Accumulate implements scenario.Scenario.
func (s *stream) Accumulate() scenario.Accumulator {
	return &sum{results: Summary{ByNode: make([]uint64, s.nodes), Complete: true}}
}

func loadStream(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
	r := scenario.NewReader(doc)
	root := r.Root("horizon", "nodes", "rate", "payload", "effort")
	s := &stream{
		horizon: root.Field("horizon").Float(scenario.MoreThan(0)),
		rate:    root.Field("rate").Float(scenario.MoreThan(0)),
		nodes:   root.Field("nodes").Int(scenario.Between(1, 1000)),
		payload: root.Field("payload").Int(scenario.Between(8, 1<<24)),
		effort:  root.Field("effort").Int(scenario.Between(0, 1000)),
	}
	if opt.Horizon > 0 {
		s.horizon = opt.Horizon
	}
	return s, r.Err()
}
