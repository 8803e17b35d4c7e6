// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
)

// A run goes on from what was saved anywhere: with all distributions, limited buffers, customers who stay, promises.
func TestResume(t *testing.T) {
	for name, text := range map[string]string{
		"all kinds": packedText,
		"closed": network(300, "id: a, initial: 6, "+exp1+", to: { b: 0.5, c: 0.5 }",
			"id: b, "+exp1+", to: { c: 0.3, a: 0.7 }", "id: c, "+exp1+", to: { a: 1 }"),
		"all together": "transit: 1\n" + network(200,
			"id: a, arrivals: {distribution: constant, mean: 1}, servers: 2, buffer: 1, "+const1+
				", to: {a: 0.5, b: 0.5}",
			"id: b, buffer: 0, "+const1+", to: {a: 0.1}"),
	} {
		t.Run(name, func(t *testing.T) {
			s := modeltest.MustLoad(t, Kind(), text)
			for seed := range uint64(3) {
				modeltest.ResumeEverywhere(t, s, seed)
			}
			modeltest.DamagedStates(t, s, 1)
		})
	}
}
