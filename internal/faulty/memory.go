// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

func memoryKind() scenario.Kind {
	return scenario.Kind{Name: "memory", Load: func(*scenario.Document, scenario.Options) (scenario.Scenario, error) {
		return memory{}, nil
	}}
}

// memory is a raw model whose handlers keep the data of an event until the next one comes.
type memory struct{}

func (memory) Name() string                                   { return "memory" }
func (memory) Horizon() float64                               { return 50 }
func (memory) Accumulate() scenario.Accumulator               { return &memoryResults{} }
func (memory) NewHandler(*node.Simproc) (node.Handler, error) { return &memoryNode{}, nil }
func (memory) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"main"}, NodeCount: 2,
		NodeAt: func(i int) node.Node { return node.Node{Name: fmt.Sprintf("k%d", i)} }}
	for i := range 2 {
		g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: 1 - i}, Lookahead: 1})
	}
	return g
}

type memoryNode struct {
	link node.LinkID
	kept []byte
	sum  uint64
}

func (k *memoryNode) Handle(p *node.Simproc, events []node.Event) (err error) {
	if len(events) == 0 {
		if k.link, err = p.LinkTo(node.Endpoint{Node: 1 - p.NodeIndex()}); err != nil {
			return err
		}
	}
	if len(k.kept) == 8 {
		k.sum += binary.LittleEndian.Uint64(k.kept)
	}
	if len(events) > 0 {
		k.kept = events[0].Data
	}
	return p.Send(k.link, p.Now()+1, binary.LittleEndian.AppendUint64(nil, uint64(p.Now())))
}

func (k *memoryNode) Report(*node.Simproc) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(nil, k.sum), nil
}

// memoryResults are sums.
type memoryResults struct{ Sums []uint64 }

func (r *memoryResults) Add(rep scenario.Replication) error {
	for _, b := range rep.Reports {
		r.Sums = append(r.Sums, binary.LittleEndian.Uint64(b))
	}
	return nil
}
func (r *memoryResults) Summary() (scenario.Summary, error) { return r, nil }
func (r *memoryResults) WriteText(w io.Writer) error {
	_, err := fmt.Fprintln(w, r.Sums)
	return err
}
