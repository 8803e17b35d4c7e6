// SPDX-License-Identifier: Apache-2.0

package phold_test

import (
	"fmt"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/scenario"
)

// A small PHOLD on one engine. No event leaves: the number handled in a second depends on the seed alone.
func Example() {
	doc, err := scenario.Parse("phold.yml", []byte(`model: phold
lps: 16
events: 4
remote: 0.5
lookahead: 0.1
end: 100
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := phold.Kind().Load(doc, scenario.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := modeltest.Run(s, modeltest.Config{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d nodes, %d events in %g s\n", s.Graph().Len(), run.Events, s.Horizon())
	// Output: 16 nodes, 6298 events in 100 s
}
