// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/disco-sim/disco/node"
)

// sayTime is how long it takes to tell the rumour, in seconds: nobody hears it sooner
// after somebody has begun. Such a least delay is called lookahead, and is what lets
// the workers work at the same time: the larger, the faster.
const sayTime = 5.0

// Model is one scenario. It doesn't change once it is loaded, and every worker has its
// own, made from the same file.
type Model struct {
	people    int
	talks     float64 // per second and person
	mailShare float64
	mailDelay float64 // seconds
	horizon   float64 // seconds
}

// Name implements scenario.Scenario.
func (m *Model) Name() string { return "gossip" }

// Horizon implements scenario.Scenario.
func (m *Model) Horizon() float64 { return m.horizon }

// Graph implements node.Model: every person is a node with one simproc, "ear", and may
// talk to every other.
func (m *Model) Graph() *node.Graph {
	g := &node.Graph{
		Simprocs: []string{"ear"},
		Meshes:   []node.Mesh{{Lookahead: sayTime, Rate: m.talks}},
	}
	for i := range m.people {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("person-%d", i), Work: 1})
	}
	return g
}

// NewHandler implements node.Model. It is called for the nodes that this worker hosts.
func (m *Model) NewHandler(p *node.Simproc) (node.Handler, error) {
	return &person{model: m, random: rand.New(p.Source("talks")), heardAt: math.Inf(1)}, nil
}

// person is one node's own state; no other node sees it.
type person struct {
	model   *Model
	random  *rand.Rand
	heardAt float64 // seconds; infinite: not yet
	times   uint64  // how often it was told
	byMail  bool    // the first time
}

// Ways of telling: the one byte of data that an event has.
const (
	byMouth = 0
	byMail  = 1
)

// Handle implements node.Handler. It is called once at epoch 0 and then whenever the
// person is told the rumour, or has asked to be called.
func (h *person) Handle(p *node.Simproc, events []node.Event) error {
	if p.Now() == 0 && p.NodeIndex() == 0 {
		h.heardAt = 0
	}
	for _, ev := range events {
		h.times++
		if p.Now() < h.heardAt {
			h.heardAt, h.byMail = p.Now(), ev.Data[0] == byMail
		}
	}
	switch {
	case h.heardAt == p.Now():
		return h.wait(p) // it is news: think about whom to tell
	case p.Woken() && h.heardAt < p.Now(): // the call at epoch 0 counts as a wakeup too
		if err := h.tell(p); err != nil {
			return err
		}
		return h.wait(p)
	}
	return nil
}

// wait asks to be called when it is time for the next talk.
func (h *person) wait(p *node.Simproc) error {
	return p.Wakeup(p.Now() + h.random.ExpFloat64()/h.model.talks)
}

// tell passes the rumour on to somebody else.
func (h *person) tell(p *node.Simproc) error {
	to := h.random.IntN(h.model.people - 1)
	if to >= p.NodeIndex() {
		to++
	}
	link, err := p.LinkTo(node.Endpoint{Node: to})
	if err != nil {
		return err
	}
	if h.random.Float64() < h.model.mailShare {
		return p.Send(link, p.Now()+sayTime+h.random.ExpFloat64()*h.model.mailDelay, []byte{byMail})
	}
	return p.Send(link, p.Now()+sayTime, []byte{byMouth})
}

// reportBytes is the length of a person's report.
const reportBytes = 17

// Report implements node.Reporter: what the launcher gets of this person.
func (h *person) Report(*node.Simproc) ([]byte, error) {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, reportBytes), math.Float64bits(h.heardAt))
	b = binary.LittleEndian.AppendUint64(b, h.times)
	if h.byMail {
		return append(b, 1), nil
	}
	return append(b, 0), nil
}
