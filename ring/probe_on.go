// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package ring

import "github.com/disco-sim/disco/internal/interleave"

// probe lets a test of the checked build stop one side in front of each of its
// accesses to shared memory, so that all orders of the two sides' steps can be
// tried on the real code.
type probe struct {
	before func(what access, slot uint64)
}

func (p probe) step(what access, slot uint64) {
	if p.before != nil {
		p.before(what, slot)
	}
	interleave.Point()
}
