// SPDX-License-Identifier: Apache-2.0

package group

import "slices"

// Keep implements child.Host.
func (j *joiner) Keep(slots []int) { j.keeps = slices.Clone(slots) }

// free gives back what the run doesn't use: slots, and machines, which then end their part of it in order. A machine
// that can't be reached has freed its slots, or does so when it finds that the run has ended.
func (j *joiner) free() {
	for m, slots := range j.keeps {
		switch {
		case slots > 0 && slots < j.run.Accepted(m).Slots:
			_ = j.run.Keep(m, slots)
		case slots == 0:
			j.mu.Lock()
			j.unused[m] = true
			j.mu.Unlock()
			j.freeing.Go(func() { j.hub.Alone(m, j.sessions.pair(m).finish) })
		}
	}
	j.keeps = nil
}
