// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/shm"
	"golang.org/x/sys/unix"
)

// checkLimits refuses sets of so many workers that need more memory than the machine has
// left, or more files than a process may have open. The pages are taken when the
// segments are made, and a system that is out of them ends some process rather than
// refuse.
func checkLimits(transport string, sets, workers int, tuning worker.Tuning) error {
	plan, err := worker.SegmentLayout(workers, tuning)
	if err != nil {
		return &configError{err}
	}
	segments := sets * workers * (workers + 1)
	need := sets * workers * (plan.Board.Size + plan.Pool.Size + (workers-1)*plan.Lane.Size)
	if available := shm.AvailableBytes(); int64(need) > available {
		return badConfig("launch: %d workers need %d MiB of memory for their lanes and pools, but %d MiB are "+
			"available: use fewer workers, smaller rings or smaller pools",
			sets*workers, need>>20, available>>20)
	}
	if transport != TransportShm {
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
