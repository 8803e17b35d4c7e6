// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"fmt"

	"github.com/disco-sim/disco/model/timeline"
)

// Two outages overlap; events are counted before, during and after the first of them.
func Example() {
	const horizon = 100
	outages := []timeline.Window{{From: 20, To: 30}, {From: 25, To: 40}}
	spans := timeline.NewSpans(outages, horizon)
	counts := make([]int, spans.Count())
	at := spans.Cursor()
	for now := 0.5; now < horizon; now++ { // an event a second
		counts[at.At(now)]++
	}
	sum := func(w timeline.Window) (n int) {
		for i, end := spans.Within(w); i < end; i++ {
			n += counts[i]
		}
		return n
	}
	before, during, after := timeline.Around(outages[0], horizon)
	fmt.Println(before, sum(before), during, sum(during), after, sum(after))
	fmt.Println(timeline.Merge(outages))
	// Output:
	// {10 20} 10 {20 30} 10 {30 40} 10
	// [{20 40}]
}
