// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/disco-sim/disco/shm"
)

// local is a side that runs on a thread of this process.
type local struct {
	jobs  map[string]Job
	arena *Arena
	abort *atomic.Bool

	task Task
	run  *Run
	ends chan ending
}

type ending struct {
	result Result
	err    error
}

func (l *local) prepare(t Task) (address string, err error) {
	job, ok := l.jobs[t.Job]
	if !ok {
		return "", fmt.Errorf("bench: this process knows no job %q", t.Job)
	}
	l.close()
	l.task = t
	if l.run, err = job.Open(&Side{Task: t, Arena: l.arena, abort: l.abort}); err != nil {
		return "", fmt.Errorf("bench: %s: %w", t.Job, err)
	}
	return l.run.Address, nil
}

func (l *local) start() error {
	l.ends = make(chan ending, 1)
	go func(t Task, run *Run, ends chan<- ending) {
		// Never unlocked: a thread that was bound to a processor ends with its goroutine.
		runtime.LockOSThread()
		r, err := measure(t, run)
		ends <- ending{r, err}
	}(l.task, l.run, l.ends)
	return nil
}

func measure(t Task, run *Run) (Result, error) {
	if t.CPU >= 0 {
		if err := shm.SetAffinity(t.CPU); err != nil {
			return Result{}, err
		}
	}
	m := newMeter(t)
	if err := run.Do(m); err != nil {
		return Result{}, err
	}
	return m.finish()
}

func (l *local) result() (Result, error) {
	e := <-l.ends
	l.close()
	return e.result, e.err
}

// close frees what the last run took. The run has ended, or never started.
func (l *local) close() {
	if l.run != nil && l.run.Close != nil {
		l.run.Close()
	}
	l.run = nil
}

// isAborted reports whether an error is only the consequence of one on another side.
func isAborted(err error) bool { return errors.Is(err, ErrAborted) }

// Where the two sides of a pair run.
const (
	// AnyCPU leaves the placement to the kernel.
	AnyCPU = -1
	// ApartCPUs binds each side to a processor of its own, as far as there are enough.
	ApartCPUs = -2
	// SameCPU binds both sides of a pair to one processor.
	SameCPU = -3
	// GatherCPUs gives the leading side of the first pair a processor of its own, and shares the others among the
	// following sides of all pairs.
	GatherCPUs = -4
)

// cpuOf gives the processor of one side: a number, or AnyCPU.
func cpuOf(placement, pair, side int) int {
	if placement == AnyCPU {
		return AnyCPU
	}
	cpus, err := shm.CPUs()
	if err != nil || len(cpus) == 0 {
		return AnyCPU
	}
	if placement == SameCPU {
		return cpus[pair%len(cpus)]
	}
	if placement == GatherCPUs && side == 1 && len(cpus) > 1 {
		return cpus[1+pair%(len(cpus)-1)]
	}
	return cpus[(2*pair+side)%len(cpus)]
}
