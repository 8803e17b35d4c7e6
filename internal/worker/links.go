// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/router"
)

// noLane stands in the routing table where no lane leads: at the worker itself, whose
// own events the Engine delivers without asking anybody, and at peers to which the
// scenario declares no link. Something that is sent there all the same is a defect, and
// must not get lost silently.
type noLane struct{ from, to int }

var _ router.Link = noLane{}

func (n noLane) SendEvent(ev *envelope.Event) error { return n.err(ev.String()) }

func (n noLane) SendPromise(p *envelope.Promise) error { return n.err(p.String()) }

func (n noLane) Flush() error { return nil }

func (n noLane) err(what string) error {
	return fmt.Errorf("worker: %s is to go from worker %d to worker %d, but no lane leads there", what, n.from, n.to)
}

// newRouter makes the table from nodes to links.
func (l *lanes) newRouter() (*router.Router, error) {
	g := l.plan.Graph()
	cfg := router.Config{Simprocs: g.Simprocs, Placement: l.setup.Placement}
	for _, n := range g.Nodes {
		cfg.Nodes = append(cfg.Nodes, n.Name)
	}
	for peer, out := range l.out {
		if out != nil {
			cfg.Links = append(cfg.Links, out)
		} else {
			cfg.Links = append(cfg.Links, noLane{l.setup.Worker, peer})
		}
	}
	return router.New(cfg)
}
