// SPDX-License-Identifier: Apache-2.0

package simtest_test

import (
	"testing"

	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
	"github.com/disco-sim/disco/sim/simtest"
)

// A model that was made without a file, in a test.
func Example() {
	_ = func(t *testing.T) {
		model, err := sim.New("sleeper", func(b *sim.Builder) {
			b.Horizon(1000)
			b.Node("bed", func(n *sim.Node) {
				slept := n.Tally("slept", sim.Unit("s"))
				n.Go(func(p *sim.Process) {
					for {
						start := p.Now()
						p.HoldFor(dist.Exponential(8))
						slept.Add(p.Now() - start)
					}
				})
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		simtest.Run(t, model)
		simtest.Agree(t, simtest.Results(t, model, 30), "bed/slept", 8)
	}
}
