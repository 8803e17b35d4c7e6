// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"strings"
	"testing"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// pair is two nodes that send one event to and fro, far apart in time against their
// lookahead; wrong makes it depend on how often handlers were made.
type pair struct {
	graph *node.Graph
	wrong bool
	made  byte
}

func newPair(wrong bool) *pair {
	link := func(from, to int) node.Link {
		return node.Link{From: node.Endpoint{Node: from}, To: node.Endpoint{Node: to}, Lookahead: 1e-6}
	}
	return &pair{wrong: wrong, graph: &node.Graph{
		Simprocs: []string{"x"}, Nodes: []node.Node{{Name: "a"}, {Name: "b"}},
		Links: []node.Link{link(0, 1), link(1, 0)},
	}}
}

func (m *pair) Graph() *node.Graph               { return m.graph }
func (m *pair) Name() string                     { return "pair" }
func (m *pair) Horizon() float64                 { return 1000.5 }
func (m *pair) Accumulate() scenario.Accumulator { return nil }

func (m *pair) NewHandler(p *node.Simproc) (node.Handler, error) {
	m.made++
	l, err := p.LinkTo(node.Endpoint{Node: 1 - p.NodeIndex()})
	h := &half{link: l, data: []byte{0}}
	if m.wrong {
		h.data[0] = m.made
	}
	return h, err
}

type half struct {
	link node.LinkID
	data []byte
}

func (h *half) Handle(p *node.Simproc, events []node.Event) error {
	if len(events) == 0 && p.NodeIndex() == 1 {
		return nil
	}
	return p.Send(h.link, p.Now()+1, h.data)
}

func (h *half) Report(*node.Simproc) ([]byte, error) { return h.data, nil }

func TestRun(t *testing.T) {
	o := ComparePlacements(t, newPair(false), 1)
	if o.Events != 1000 || o.Activations != 1002 || string(o.Replication.Reports[1]) != "\x00" {
		t.Errorf("%+v", o)
	}
	two, err := Run(newPair(false), Config{Workers: 2})
	if err != nil || two.Crossed != 1000 || two.Jumps < 900 {
		t.Errorf("%+v, %v: a gap of 10^6 lookaheads is for a jump", two, err)
	}
}

// TestDifferences: what ComparePlacements looks for is found.
func TestDifferences(t *testing.T) {
	m := newPair(true)
	first, err := Run(m, Config{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Run(m, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.differs(m, second); err == nil || !strings.Contains(err.Error(), "the hash of a/x") {
		t.Errorf("two runs with other data: %v", err)
	}
	second.Hashes = first.Hashes
	if err := first.differs(m, second); err == nil || !strings.Contains(err.Error(), "reports") {
		t.Errorf("two runs with other reports: %v", err)
	}
	second.Events++
	if err := first.differs(m, second); err == nil || !strings.Contains(err.Error(), "1001 events") {
		t.Errorf("two runs with other counts: %v", err)
	}
}
