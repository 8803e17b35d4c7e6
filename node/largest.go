// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"slices"
)

// Load is how many events and wakeups are pending for a simproc.
type Load struct {
	Simproc SimprocID
	Pending uint64
}

// Largest are those simprocs of this worker for which most is pending, at most n, in falling order; with equal numbers
// the lower id is first. It visits all that is pending. The calling rules are Run's.
func (e *Engine) Largest(n int) []Load {
	counts := make([]uint64, e.plan.NumHosted())
	e.eachPending(func(en *entry) { counts[en.proc]++ })
	var all []Load
	for i, count := range counts {
		if count > 0 {
			all = append(all, Load{e.idAt(uint32(i)), count})
		}
	}
	return MostLoaded(all, n)
}

// MostLoaded are those of all with the largest numbers, as Largest has them. It sorts all.
func MostLoaded(all []Load, n int) []Load {
	slices.SortFunc(all, func(a, b Load) int {
		return cmp.Or(cmp.Compare(b.Pending, a.Pending), cmp.Compare(a.Simproc, b.Simproc))
	})
	return all[:min(n, len(all))]
}
