// SPDX-License-Identifier: Apache-2.0

package phold_test

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/perf/phold"
)

// An engine with every event of PHOLD pending, and 1000 calls of handlers.
func ExampleNewEngine() {
	e, err := phold.NewEngine(phold.Config{LPs: 64, Start: 16, Remote: 0.1, Lookahead: 0.1})
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := e.Run(1000, math.Inf(1))
	fmt.Println(n, e.Pending(), err)
	// Output: 1000 1024 <nil>
}
