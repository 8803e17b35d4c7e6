// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Discrete is one of the values, each with a probability in proportion to its weight.
func Discrete(values, weights []float64) Dist { return mustList(discrete(values, weights)) }

// Empirical is one of the samples, each as probable.
func Empirical(samples []float64) Dist { return mustList(empirical(samples)) }

// Linear has a distribution function that goes through the points (values[i], sums[i]) and is straight between them:
// what was observed as shares. values rise, sums don't fall; the first sum is 0 and the last 1.
func Linear(values, sums []float64) Dist { return mustList(linear(values, sums)) }

// listFault is what is wrong with lists.
type listFault struct {
	list, index int // which one; where in it, −1: the whole
	found, want string
}

func mustList(d Dist, wrong *listFault) Dist {
	if wrong != nil {
		panic(refused("dist: lists of a distribution: found %s, want %s", wrong.found, wrong.want))
	}
	return d
}

// ofList makes the distribution of a core.
func ofList(text string, c core) Dist {
	return Dist{law: &law{scale: 1, low: math.Inf(-1), core: c, text: text}}
}

// checkLists wants two lists of the same length, not empty, of numbers in range.
func checkLists(a, b []float64) *listFault {
	if len(a) == 0 {
		return &listFault{0, -1, "an empty list", "one number or more"}
	}
	if len(a) != len(b) {
		return &listFault{1, -1, fmt.Sprintf("%d numbers", len(b)), fmt.Sprintf("%d, one for each value", len(a))}
	}
	for which, list := range [][]float64{a, b} {
		for i, x := range list {
			if !anyRange.Holds(x) {
				return &listFault{which, i, number(x), anyRange.String()}
			}
		}
	}
	return nil
}

func discrete(values, weights []float64) (Dist, *listFault) {
	if wrong := checkLists(values, weights); wrong != nil {
		return Dist{}, wrong
	}
	order := make([]int, len(values))
	total := 0.0
	for i, w := range weights {
		if order[i] = i; w < 0 {
			return Dist{}, &listFault{1, i, number(w), "a weight >= 0"}
		}
		total += w
	}
	if total <= 0 {
		return Dist{}, &listFault{1, -1, "weights that are all 0", "one above 0"}
	}
	sort.SliceStable(order, func(i, j int) bool { return values[order[i]] < values[order[j]] })
	c := &discreteCore{}
	sum := 0.0
	for _, i := range order {
		if sum += weights[i] / total; weights[i] == 0 {
			continue
		}
		if n := len(c.values); n > 0 && c.values[n-1] == values[i] {
			c.sums[n-1] = sum
			continue
		}
		c.values, c.sums = append(c.values, values[i]), append(c.sums, sum)
	}
	for i, s := range c.sums {
		c.sums[i] = min(s/sum, 1)
	}
	c.sums[len(c.sums)-1] = 1
	return ofList(fmt.Sprintf("discrete(%d values)", len(c.values)), c), nil
}

func empirical(samples []float64) (Dist, *listFault) {
	if wrong := checkLists(samples, samples); wrong != nil {
		return Dist{}, wrong
	}
	sorted := slices.Clone(samples)
	slices.Sort(sorted)
	return ofList(fmt.Sprintf("empirical(%d samples)", len(sorted)), &empiricalCore{samples: sorted}), nil
}

func linear(values, sums []float64) (Dist, *listFault) {
	if wrong := checkLists(values, sums); wrong != nil {
		return Dist{}, wrong
	}
	n := len(values)
	if n < 2 {
		return Dist{}, &listFault{0, -1, "one value", "two or more"}
	}
	for i := 1; i < n; i++ {
		if values[i] <= values[i-1] {
			return Dist{}, &listFault{0, i, number(values[i]), "more than " + number(values[i-1])}
		}
		if sums[i] < sums[i-1] {
			return Dist{}, &listFault{1, i, number(sums[i]), number(sums[i-1]) + " or more"}
		}
	}
	if sums[0] != 0 {
		return Dist{}, &listFault{1, 0, number(sums[0]), "0"}
	}
	if sums[n-1] != 1 {
		return Dist{}, &listFault{1, n - 1, number(sums[n-1]), "1"}
	}
	first := upTo(sums, 0) - 1 // what lies before has no probability
	last := sort.SearchFloat64s(sums, 1)
	c := &linearCore{values: slices.Clone(values[first : last+1]), sums: slices.Clone(sums[first : last+1])}
	return ofList(fmt.Sprintf("linear(%d points)", n), c), nil
}
