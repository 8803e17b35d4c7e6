// SPDX-License-Identifier: Apache-2.0

package modeltest_test

import (
	"fmt"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/phold"
)

// A model runs on one engine and on three, and must do the same on both.
func ExampleRun() {
	p := phold.Defaults()
	p.LPs, p.End = 16, 20
	var events [2]uint64
	for i, workers := range []int{1, 3} {
		run, err := modeltest.Run(phold.New(p), modeltest.Config{Seed: 1, Workers: workers})
		if err != nil {
			fmt.Println(err)
			return
		}
		events[i] = run.Events
		fmt.Println(workers, "engines, events between them:", run.Crossed > 0)
	}
	fmt.Println("as many events:", events[0] == events[1])
	// Output:
	// 1 engines, events between them: false
	// 3 engines, events between them: true
	// as many events: true
}
