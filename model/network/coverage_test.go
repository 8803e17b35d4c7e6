// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
)

// TestCoverage: of every figure that has an interval, the interval holds the truth as
// often as it says. One link with exponential sizes and room for k packets is M/M/1/k:
// who finds n packets before him takes an Erlang time of n+1 stages. The start, empty,
// moves the means by less than a tenth of a standard error.
func TestCoverage(t *testing.T) {
	const load, k = 0.8, 5
	m := New(oneLink(t, load, exponential, k-1, 2000))
	delay := m.spec.Topology.Cables[0].Delay
	var p [k + 1]float64
	total := 0.0
	for n := range p {
		p[n] = math.Pow(load, float64(n))
		total += p[n]
	}
	for n := range p {
		p[n] /= total
	}
	lost := p[k]
	mean := 0.0
	for n := range k {
		mean += p[n] / (1 - lost) * float64(n+1)
	}
	later := func(x float64) (q float64) { // the part of the packets that takes longer
		for n := range k {
			tail, term := 0.0, math.Exp(-x)
			for i := 0; i <= n; i++ {
				tail += term
				term *= x / float64(i+1)
			}
			q += p[n] / (1 - lost) * tail
		}
		return q
	}
	low, high := 0.0, 100.0
	for range 100 {
		if x := (low + high) / 2; later(x) > 0.01 {
			low = x
		} else {
			high = x
		}
	}
	modeltest.Coverage(t, func(seed uint64) map[string]modeltest.Covered {
		c := modeltest.Summarize(t, m, seed, 10).(*Results).Confidence
		return map[string]modeltest.Covered{
			"delivered":    {Low: c.DeliveredPPS.Low, High: c.DeliveredPPS.High, Truth: load * (1 - lost)},
			"loss ratio":   {Low: c.LossRatio.Low, High: c.LossRatio.High, Truth: lost},
			"latency mean": {Low: c.LatencyMean.Low, High: c.LatencyMean.High, Truth: mean + delay},
			"latency p99":  {Low: c.LatencyP99.Low, High: c.LatencyP99.High, Truth: low + delay},
		}
	})
}

// TestBounded: of a replication hardly more than its row of results is kept, nor of its
// random outages, which are rows of the first replications only.
func TestBounded(t *testing.T) {
	spec := oneLink(t, 0.8, exponential, 4, 20)
	cables := []Target{{Name: "the link", Node: -1, Cables: []int{0}}}
	spec.Events = []Event{{ID: "cut", Kind: LinkDown, Targets: cables, Random: true, MTBF: 3, MTTR: 1}}
	m := New(spec)
	modeltest.Bounded(t, m, 300)
	r := modeltest.Summarize(t, m, 1, 2*outagesOf).(*Results)
	random, last := 0, 0
	for _, o := range r.Outages {
		if o.Replication != nil {
			random, last = random+1, max(last, *o.Replication)
		}
	}
	if random < outagesOf || last >= outagesOf || last < outagesOf/2 {
		t.Errorf("%d rows of random outages, up to those of replication %d, want them of the first %d", random, last,
			outagesOf)
	}
}
