// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"os"
	"testing"

	"github.com/disco-sim/disco/internal/counters"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/shm"
)

// Processes that can't be, or run nothing. Runs are looked at in internal/launch.
func TestProcessWithoutRun(t *testing.T) {
	for _, pid := range []int{1 << 30, -1, os.Getpid()} {
		if _, err := Process(pid); !errors.Is(err, ErrNoRun) {
			t.Errorf("process %d: %v, want ErrNoRun", pid, err)
		}
	}
}

// A launcher that is making its boards has no run yet. One that holds something else has a board that is broken.
func TestProcessMakesBoards(t *testing.T) {
	board, err := shm.Create(shm.Config{Name: BoardName(0), Kind: worker.KindBoard, Size: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer board.Close()
	if _, err := Process(os.Getpid()); !errors.Is(err, ErrNoRun) {
		t.Errorf("a board that isn't formatted: %v, want ErrNoRun", err)
	}
	for i := range board.Body() {
		board.Body()[i] = 1
	}
	if _, err := Process(os.Getpid()); errors.Is(err, ErrNoRun) || !errors.Is(err, counters.ErrCorrupt) {
		t.Errorf("a board of ones: %v, want ErrCorrupt", err)
	}
}
