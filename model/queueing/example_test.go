// SPDX-License-Identifier: Apache-2.0

package queueing_test

import (
	"fmt"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/scenario"
)

// A station with one server, run on one engine: what disco-run does with a file, in a program of one's own.
func Example() {
	doc, err := scenario.Parse("queueing.yml", []byte(`model: queueing
horizon: 1000
stations:
  - id: desk
    arrivals: 1
    service: { distribution: exponential, mean: 0.5 }
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := queueing.Kind().Load(doc, scenario.Options{})
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
	// Output: 1 nodes, 999 events in 1000 s
}
