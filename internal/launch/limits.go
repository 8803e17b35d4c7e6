// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"

	"github.com/disco-sim/disco/shm"
	"golang.org/x/sys/unix"
)

// checkLimits refuses sets of workers with such memory that need more of it at their start than the machine has
// left, or more files than a process may have open. A system that is out of
// memory ends some process rather than refuse.
func checkLimits(m *memory, sets int) error {
	workers := m.workers
	bytes, segments, err := m.needs()
	if err != nil {
		return &configError{err}
	}
	segments *= sets
	if available := shm.AvailableBytes(); int64(bytes)*int64(sets) > available {
		return badConfig("launch: %d workers need %d MiB of memory for their lanes and pools, but %d MiB are "+
			"available: use fewer workers, smaller rings or smaller pools",
			sets*workers, bytes*sets>>20, available>>20)
	}
	if !m.shared {
		return nil
	}
	allowed, err := filesAllowed()
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	// A file for each segment; for each worker its control stream and three pipes.
	if need := uint64(segments + 8*sets*workers + otherFiles); need > allowed {
		return badConfig("launch: %d workers need up to %d open files, but %d are allowed: use fewer workers, "+
			"or raise the limit (ulimit -n)", sets*workers, need, allowed)
	}
	return nil
}

// otherFiles are those that a launcher has open besides its workers': results, traces,
// the Go runtime's own.
const otherFiles = 16

// filesAllowed is how many files a process may have open.
func filesAllowed() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	return limit.Cur, nil
}
