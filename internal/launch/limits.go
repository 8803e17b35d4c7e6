// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// checkFiles refuses sets of so many worker processes, each set with so many segments, that need more files than a
// process may have open.
func checkFiles(workers, segments, sets int) error {
	segments = segments*sets + 1 // the input
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
