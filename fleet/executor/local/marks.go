// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/procfs"
)

// The marks in the environment of all that is started, and of what that starts.
const (
	ownerVariable = "DISCO_FLEET_OWNER" // group and machine, for people
	workVariable  = "DISCO_FLEET_WORK"  // the folder of the local: whose it is
	jobVariable   = "DISCO_FLEET_JOB"   // Job.Name
)

// environment is what is read of a process, of which the kernel allows 6 MiB.
var environment = infile.Kind{Name: "the environment of a process", BytesMax: 8 << 20}

// marked is a process with the marks of an executor.
type marked struct {
	pid int
	job string
}

// markedBy lists the processes that bear the mark of an executor, but this one. What can't be read is another user's,
// or ends.
func markedBy(work string) (all []marked, err error) {
	pids, err := procfs.Processes()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if job, ok := markOf(pid, work); ok && pid != os.Getpid() {
			all = append(all, marked{pid, job})
		}
	}
	return all, nil
}

// markOf is the job of a process of an executor; false: it is none, or has ended.
func markOf(pid int, work string) (job string, ok bool) {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return "", false
	}
	defer f.Close()
	text, err := infile.All(f, f.Name(), environment)
	if err != nil {
		return "", false
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if name, value, _ := strings.Cut(string(entry), "="); name == workVariable { // the last one counts
			ok = value == work
		} else if name == jobVariable {
			job = value
		}
	}
	return job, ok && job != ""
}

// killWait is how long a killed process may take to be gone.
const killWait = 10 * time.Second

// endMarked ends the processes with the mark of an executor whose job is to end: they may leave by themselves for a
// while, then get SIGTERM, and SIGKILL when grace is over. It returns how many got a signal, when none is left; the
// error says which are.
func endMarked(ctx context.Context, work string, ends func(job string) bool, leave, grace time.Duration) (
	ended int, err error) {
	began := time.Now()
	told := map[int]syscall.Signal{} // what was sent last
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		all, err := markedBy(work)
		if err != nil {
			return 0, fmt.Errorf("local: %w", err)
		}
		var left []string
		for _, m := range all {
			if !ends(m.job) {
				continue
			}
			left = append(left, fmt.Sprintf("%d (%s)", m.pid, m.job))
			signal := syscall.SIGTERM
			if time.Since(began) > grace {
				signal = syscall.SIGKILL
			}
			// One that was found may have ended since, and with it the run that it was of, which is why it is to end.
			if time.Since(began) >= leave && told[m.pid] != signal && send(m, work, signal) {
				told[m.pid] = signal
			}
		}
		switch {
		case len(left) == 0:
			return len(told), nil
		case time.Since(began) > grace+killWait:
			return len(told), fmt.Errorf("local: these processes didn't end when they were killed: %s",
				strings.Join(left, ", "))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return len(told), fmt.Errorf("local: ending %s: %w", strings.Join(left, ", "), context.Cause(ctx))
		}
	}
}

// send signals a process, and reports whether it still was what it was found to be.
func send(m marked, work string, s syscall.Signal) bool {
	p, err := os.FindProcess(m.pid) // a handle: no other process gets the signal, whoever has the number then
	if err != nil {
		return false
	}
	defer p.Release()
	job, ok := markOf(m.pid, work)
	if !ok || job != m.job || p.Signal(s) != nil {
		return false
	}
	_ = p.Signal(syscall.SIGCONT)
	return true
}
