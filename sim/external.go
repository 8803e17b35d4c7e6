// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"slices"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/node"
)

// External declares something outside of the simulation that the model's nodes may ask: a solver, a service. What it
// answers is recorded, so that a run that goes back or is resumed gets the same. It is called in the build function, so
// that addresses and programs may be parameters. docs/external.md is the page for it.
//
//	b.External(external.External{Name: "solver", Ask: command.Command{Path: p.Solver}.Ask})
//	b.Node("planner", func(n *sim.Node) {
//		solver := n.External("solver")
//		n.Every(p.Day, func(c *sim.Context) {
//			plan, err := solver.Ask(c, orders)
//			…
//		})
//	})
func (b *Builder) External(x external.External) {
	all := append(slices.Clone(b.m.externals), x)
	if err := external.CheckAll(all); err != nil {
		panic(&failure{err.Error() + place()})
	}
	b.m.externals = all
}

// Externals implements scenario.Asker.
func (m *Model) Externals() []external.External { return m.externals }

// External is something outside of the simulation, as one node may ask it.
type External struct {
	n  *Node
	id node.ExternalID
}

// External is what Builder.External has declared under a name. It is called in the setup function.
func (n *Node) External(name string) *External {
	n.setupOnly("External")
	i := slices.IndexFunc(n.m.externals, func(x external.External) bool { return x.Name == name })
	if i < 0 {
		n.misuse("External(%q): the build function declares none of this name (Builder.External)", name)
	}
	return &External{n, node.ExternalID(i)}
}

// Ask asks, and returns the answer. It takes wall time and no simulated time, and nothing else of the node happens
// meanwhile. The error is that of the outside, a *node.ExternalError, after all attempts; it is recorded as an answer
// is.
func (x *External) Ask(c Caller, request []byte) ([]byte, error) {
	n := nodeOf(c)
	if n != x.n {
		n.misuse("the external of %s: every node declares and uses its own", x.n.name)
	}
	n.running("External.Ask")
	answer, err := n.proc.External(x.id, request)
	var failed *node.ExternalError
	if err != nil && !errors.As(err, &failed) {
		unsent(err)
	}
	return answer, err
}
