// SPDX-License-Identifier: Apache-2.0

package workerproc

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/procfs"
	"golang.org/x/sys/unix"
)

// processes are all worker processes of this process, of whichever run. Ctrl-Z stops the
// launcher's process group, and theirs are others.
var processes struct {
	mu   sync.Mutex
	live map[*Process]bool // guarded by mu
}

func register(p *Process) {
	processes.mu.Lock()
	defer processes.mu.Unlock()
	if processes.live == nil {
		processes.live = make(map[*Process]bool)
	}
	processes.live[p] = true
}

func unregister(p *Process) {
	processes.mu.Lock()
	defer processes.mu.Unlock()
	delete(processes.live, p)
}

func signalAll(s unix.Signal) {
	processes.mu.Lock()
	defer processes.mu.Unlock()
	for p := range processes.live {
		p.signal(s)
	}
}

// resumed is when Suspend returned last, in nanoseconds since origin; 0: never.
var (
	origin  = time.Now()
	resumed atomic.Int64
)

// SinceResumed is the later of t and the last end of a Suspend: what waits for workers
// doesn't count the time in which they were stopped.
func SinceResumed(t time.Time) time.Time {
	if r := origin.Add(time.Duration(resumed.Load())); r.After(t) {
		return r
	}
	return t
}

// Suspend does what SIGTSTP (Ctrl-Z) does to a program that leaves it alone: it stops
// this process, with all workers of all its runs, and returns when they continue (fg,
// SIGCONT). As with the signal, nothing is stopped where no shell
// watches over the process group that could let it go on. SIGSTOP can't be seen coming:
// it stops the launcher only.
func Suspend() {
	if orphaned() {
		return
	}
	signalAll(unix.SIGSTOP)
	// SIGTSTP itself would do nothing: the Go runtime keeps its handler once it was asked
	// for. The signal goes to this very thread, so that the process has been stopped, and
	// is going on, when the call returns.
	runtime.LockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP) // can't fail for oneself
	runtime.UnlockOSThread()
	resumed.Store(int64(time.Since(origin)))
	signalAll(unix.SIGCONT)
}

// orphaned reports whether no process of this session watches over this process's group: the
// nearest ancestor outside of it belongs to another session.
func orphaned() bool {
	group := unix.Getpgrp()
	session, err := unix.Getsid(0)
	if err != nil {
		return true
	}
	for pid := os.Getppid(); pid > 1; {
		theirs, err := unix.Getpgid(pid)
		if err != nil {
			return true
		}
		if theirs != group {
			of, err := unix.Getsid(pid)
			return err != nil || of != session
		}
		stat, err := procfs.Stat(pid)
		if err != nil {
			return true
		}
		pid = stat.Parent
	}
	return true
}
