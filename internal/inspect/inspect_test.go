// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"os"
	"testing"
)

// Processes that can't be, or run nothing. Runs are looked at in internal/launch.
func TestProcessWithoutRun(t *testing.T) {
	for _, pid := range []int{1 << 30, -1, os.Getpid()} {
		if _, err := Process(pid); !errors.Is(err, ErrNoRun) {
			t.Errorf("process %d: %v, want ErrNoRun", pid, err)
		}
	}
}
