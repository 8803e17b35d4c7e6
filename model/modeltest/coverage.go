// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// experiments is how many experiments Coverage makes; the long form, whose figures
// docs/intervals.md has, is -experiments 400.
var experiments = flag.Int("experiments", 0, "experiments of a test of confidence intervals (0: 60, or 10 with -short)")

// Covered is one interval of an experiment.
type Covered struct{ Low, High, Truth float64 }

// Coverage repeats an experiment with seeds 1, 2, … and counts how often the interval of
// each figure holds the truth, which should be in 93 to 97 of 100. With few experiments
// chance alone takes the count out of that range, so it fails only where the count is
// one that a coverage of 93 or 97 % would give in less than one of 10,000 tests.
func Coverage(t *testing.T, experiment func(seed uint64) map[string]Covered) {
	t.Helper()
	n := *experiments
	if n == 0 {
		n = 60
		if testing.Short() {
			n = 10
		}
	}
	hits := make(map[string]int)
	for seed := range n {
		for name, c := range experiment(uint64(seed) + 1) {
			hits[name] += 0
			if c.Low <= c.Truth && c.Truth <= c.High {
				hits[name]++
			}
		}
	}
	if len(hits) == 0 {
		t.Fatal("no figure has an interval")
	}
	for _, name := range slices.Sorted(maps.Keys(hits)) {
		k := float64(hits[name])
		t.Logf("%-40s %3d of %d: %.1f %%", name, hits[name], n, 100*k/float64(n))
		few := distuv.Binomial{N: float64(n), P: 0.93}.CDF(k) < rare
		many := 1-distuv.Binomial{N: float64(n), P: 0.97}.CDF(k-1) < rare
		if few || many {
			t.Errorf("%s: %d of %d intervals hold the truth, seeds 1 to %d: that isn't 93 to 97 %%", name, hits[name],
				n, n)
		}
	}
}

const rare = 1e-4
