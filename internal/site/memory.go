// SPDX-License-Identifier: Apache-2.0

package site

import (
	"os"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/shm"
)

// memoryEvery is the least time between two looks at what is taken: the launcher looks as often at its own machine.
const memoryEvery = 100 * time.Millisecond

// usage is what the run takes of this machine's memory. Any goroutine uses it.
type usage struct {
	mu          sync.Mutex     // guards the rest
	sets        map[*set]int64 // bytes of each one's segments
	processes   map[int]bool
	at          time.Time
	taken, left int64
}

func newUsage() *usage {
	return &usage{sets: map[*set]int64{}, processes: map[int]bool{os.Getpid(): true}}
}

// made takes in that a set's segments were made.
func (u *usage) made(s *set, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sets[s] = bytes
}

// freed takes in that they are no more.
func (u *usage) freed(s *set) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.sets, s)
}

// runs takes in that a process of the run begins, or has ended.
func (u *usage) runs(pid int, now bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now {
		u.processes[pid] = true
	} else {
		delete(u.processes, pid)
	}
}

// look gives what the run takes here, and what the machine has left for it: as of the last look, where that isn't long
// ago.
func (u *usage) look() (taken, left int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); now.Sub(u.at) >= memoryEvery {
		u.at, u.taken, u.left = now, 0, shm.AvailableBytes()
		for _, bytes := range u.sets {
			u.taken += bytes
		}
		for pid := range u.processes {
			if bytes, err := procfs.PrivateBytes(pid); err == nil { // else it has ended
				u.taken += bytes
			}
		}
	}
	return u.taken, u.left
}
