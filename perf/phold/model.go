// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/disco-sim/disco/node"
)

// model is PHOLD through the public model interface.
type model struct {
	cfg   Config
	graph *node.Graph
}

type handler struct {
	m    *model
	rnd  *rand.Rand
	self node.LinkID
	data []byte
}

func newModel(cfg Config) *model {
	g := &node.Graph{Simprocs: []string{"lp"}, Meshes: []node.Mesh{{Lookahead: cfg.Lookahead}}}
	for i := range cfg.LPs {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("lp%d", i), Work: 1})
	}
	return &model{cfg, g}
}

// Graph implements node.Model.
func (m *model) Graph() *node.Graph { return m.graph }

// NewHandler implements node.Model.
func (m *model) NewHandler(p *node.Simproc) (node.Handler, error) {
	self, err := p.LinkTo(node.Endpoint{Node: p.NodeIndex()})
	return &handler{m, rand.New(p.Source("lp")), self, make([]byte, m.cfg.Payload)}, err
}

// Handle implements node.Handler: every event makes one.
func (h *handler) Handle(p *node.Simproc, events []node.Event) error {
	cfg := &h.m.cfg
	n := len(events)
	if p.Now() == 0 {
		n = cfg.Start
	}
	for range n {
		to := h.self
		if p.Now() != 0 && h.rnd.Float64() <= cfg.Remote {
			to = node.LinkID(h.rnd.IntN(cfg.LPs)) // links of a mesh are numbered like nodes
		}
		if err := p.Send(to, p.Now()+cfg.Lookahead+h.rnd.ExpFloat64()*(1-cfg.Lookahead), h.data); err != nil {
			return err
		}
	}
	return nil
}

// NewEngine makes an Engine that runs PHOLD on one worker, past its first epoch.
func NewEngine(cfg Config) (*node.Engine, error) {
	m := newModel(cfg)
	plan, err := node.NewPlan(m.graph, make([]int32, cfg.LPs), 0, 1)
	if err != nil {
		return nil, err
	}
	e, err := node.NewEngine(plan, node.Config{Model: m, Seed: 1, Horizon: math.MaxFloat64})
	if err != nil {
		return nil, err
	}
	_, err = e.Run(cfg.LPs, math.Inf(1))
	return e, err
}
