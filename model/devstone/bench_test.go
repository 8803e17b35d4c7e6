// SPDX-License-Identifier: Apache-2.0

package devstone

import (
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
)

// BenchmarkCascade is one pulse through each type.
func BenchmarkCascade(b *testing.B) {
	for _, p := range []Params{
		{Type: LI, Width: 200, Depth: 200, Pulses: 10},
		{Type: HI, Width: 100, Depth: 100, Pulses: 10},
		{Type: HOmod, Width: 12, Depth: 12, Pulses: 1},
	} {
		b.Run(p.Type, func(b *testing.B) {
			m := New(p)
			events := uint64(0)
			for range b.N {
				o, err := modeltest.Run(m, modeltest.Config{Steps: 1 << 20})
				if err != nil {
					b.Fatal(err)
				}
				events += o.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}
