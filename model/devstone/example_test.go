// SPDX-License-Identifier: Apache-2.0

package devstone_test

import (
	"fmt"

	"github.com/disco-sim/disco/model/devstone"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// A cascade through coupled models nested in each other: one event sets off all others at the same epoch.
func Example() {
	doc, err := scenario.Parse("devstone.yml", []byte(`model: devstone
type: HI
width: 5
depth: 4
pulses: 10
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := devstone.Kind().Load(doc, scenario.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := modeltest.Run(s, modeltest.Config{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d nodes, %d events in %g s\n", len(s.Graph().Nodes), run.Events, s.Horizon())
	// Output: 14 nodes, 310 events in 10 s
}
