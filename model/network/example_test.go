// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"fmt"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/scenario"
)

// Packets between two towns. The topology is attached here; Kind.Attach reads it from the file that the scenario
// names.
func Example() {
	doc, err := scenario.Parse("network.yml", []byte(`model: network
horizon: 10
topology: two.gml
links: { rate_bps: 1000000 }
traffic: { matrix: uniform, packets_per_second: 100 }
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	files := []scenario.Attachment{{Name: "two.gml", Text: []byte(`graph [
		node [ id 0 label "Bonn" Latitude 50.7 Longitude 7.1 ]
		node [ id 1 label "Jena" Latitude 50.9 Longitude 11.6 ]
		edge [ source 0 target 1 ]
	]`)}}
	s, err := network.Kind().Load(doc.Attach(files), scenario.Options{})
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
	// Output: 2 nodes, 967 events in 10 s
}
