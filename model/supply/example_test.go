// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"fmt"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/supply"
	"github.com/disco-sim/disco/scenario"
)

// A shop that a maker supplies, run on one engine: what disco-run does with a file, in a program of one's own.
func Example() {
	doc, err := scenario.Parse("tea.yml", []byte(`model: supply
horizon: 1000
locations: [{id: shop}, {id: maker, source: true}]
products: [{id: tea}]
links: [{from: maker, to: shop, lead_time: exponential(3)}]
stock: [{at: shop, policy: base_stock, up_to: 8}]
demand: [{at: shop, gap: exponential(0.5)}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := supply.Kind().Load(doc, scenario.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := modeltest.Run(s, modeltest.Config{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := modeltest.Sum(s, run.Replication)
	if err != nil {
		fmt.Println(err)
		return
	}
	fill := results.(*supply.Results).Total["fill_rate"].Mean
	fmt.Printf("%d events in %g s, fill rate %.2f\n", run.Events, s.Horizon(), fill)
	// Output: 5973 events in 1000 s, fill rate 0.71
}
