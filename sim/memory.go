// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"runtime"

	"github.com/disco-sim/disco/scenario"
)

const (
	measuredNodes   = 256 // so many nodes are made to see how large they are
	activeNodeBytes = 512 // what a node has when it runs beside that: handler, random streams, schedule, wakeups
)

// Memory implements scenario.Sizer: some nodes, evenly among all, are made once more, and what that allocates is
// measured. Whatever a model's functions allocate during the run isn't in it.
func (m *Model) Memory() scenario.Memory {
	if m.Check() != nil || m.count == 0 {
		return scenario.Memory{}
	}
	var before, after runtime.MemStats
	made, stretches := 0, 0
	runtime.ReadMemStats(&before)
	for i := 0; i < m.count; i += max(1, m.count/measuredNodes) {
		g := m.groupOf(i)
		for layer := range m.layers {
			n := m.newNode(g, i-g.first, layer, nil)
			for k := range n.stats.of {
				d := &n.stats.of[k]
				stretches += d.count(m)
				if d.kind == tallyKind {
					stretches += d.count(m)
				}
			}
		}
		made++
	}
	runtime.ReadMemStats(&after)
	bytes := int(after.TotalAlloc-before.TotalAlloc) + 8*stretches
	return scenario.Memory{NodeBytes: bytes/made + activeNodeBytes*len(m.layers), ResultBytes: 8 * stretches / made,
		Pending: int64(m.count)}
}
