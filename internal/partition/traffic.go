// SPDX-License-Identifier: Apache-2.0

package partition

import "github.com/disco-sim/disco/node"

// leastTraffic is what a link counts for whose rate is too small to be a share of anything.
const leastTraffic = 1e-9

// Traffic is what each worker is expected to send each other one when node n is on worker of[n]: traffic[from][to],
// events in a unit that is the same for all pairs, 0 where no link leads, and more than 0 where one does. The unit is
// such that no sum overflows; a link without a known rate counts as the mean of those with one.
func Traffic(s *node.Structure, of []int32, workers int) [][]float64 {
	traffic := make([][]float64, workers)
	for from := range traffic {
		traffic[from] = make([]float64, workers)
	}
	if workers == 1 {
		return traffic
	}
	a := newAssignment(s, Run{Workers: workers}, of, nil) // without proceed, nothing below fails
	_ = a.weigh()
	stretches, _ := eachStretch(a, func(sum *[]float64, _ node.SimprocID, k, n, to int) {
		if from, to := of[n], of[to]; from != to {
			if *sum == nil {
				*sum = make([]float64, workers*workers)
			}
			(*sum)[int(from)*workers+int(to)] += max(a.rate(k), leastTraffic)
		}
	})
	for _, sum := range stretches {
		for lane, t := range sum {
			traffic[lane/workers][lane%workers] += t
		}
	}
	hosted, n := make([]float64, workers), float64(len(of))
	for _, w := range of {
		hosted[w]++
	}
	for _, m := range s.Meshes() {
		rate := a.meshRate(m)
		for from := range traffic {
			for to := range traffic[from] {
				if from != to && hosted[from] > 0 && hosted[to] > 0 {
					traffic[from][to] += max(rate*hosted[from]/n*hosted[to]/n, leastTraffic)
				}
			}
		}
	}
	return traffic
}
