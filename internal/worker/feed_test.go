// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/shm"
)

// A thread that doesn't end is an error, which ends the run, and not a panic.
func TestThreadThatDoesNotEnd(t *testing.T) {
	bell, err := shm.OpenDoorbell(aligned.Bytes(shm.DoorbellBytes, shm.DoorbellBytes))
	if err != nil {
		t.Fatal(err)
	}
	f := &threadFeed{outer: bell, done: make(chan struct{})} // nobody closes done
	if err := f.closeWithin(10 * time.Millisecond); !errors.Is(err, errThread) {
		t.Errorf("%v, want %v", err, errThread)
	}
	close(f.done)
	if err := f.close(); err != nil {
		t.Errorf("after its end: %v", err)
	}
}
