// SPDX-License-Identifier: Apache-2.0

package measure_test

import (
	"fmt"

	"github.com/disco-sim/disco/model/measure"
)

// Two workers measure latencies, and the launcher merges what they send.
func Example() {
	var all measure.Latencies
	for worker := range 2 {
		var l measure.Latencies
		for i := 1; i <= 100; i++ {
			if err := l.Add(float64(i+100*worker) / 1000); err != nil {
				fmt.Println(err)
				return
			}
		}
		var received measure.Latencies
		if _, err := received.Read(l.Append(nil)); err != nil {
			fmt.Println(err)
			return
		}
		all.Merge(&received)
	}
	fmt.Printf("%d, mean %.4f s, least %.3f s, greatest %.3f s\n", all.Count, all.Mean, all.Min, all.Max)
	// Output: 200, mean 0.1005 s, least 0.001 s, greatest 0.200 s
}

// The mean wait of five replications, as waiting over arrivals, and where the truth lies.
func ExampleRatio() {
	var reps []measure.Series
	for _, waiting := range []float64{310, 290, 305, 298, 302} {
		reps = append(reps, measure.Series{Y: []float64{waiting}, X: []float64{100}})
	}
	wait, ok := measure.Ratio(reps)
	fmt.Printf("%v: %.2f s, from %.2f to %.2f\n", ok, wait.Mean, wait.Low, wait.High)
	// Output: true: 3.01 s, from 2.92 to 3.10
}
