// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/procfs"
)

// leftovers counts what still exists after a run.
type leftovers struct {
	Processes int `json:"processes"`
	Memory    int `json:"mappings_and_memfds"` // of those processes
	Files     int `json:"files"`               // in the run's own folders, temporary ones too
	Shm       int `json:"dev_shm"`             // named disco
}

func (l *leftovers) add(o leftovers) {
	l.Processes += o.Processes
	l.Memory += o.Memory
	l.Files += o.Files
	l.Shm += o.Shm
}

// String is "nothing", or what there is.
func (l leftovers) String() string {
	if l == (leftovers{}) {
		return "nothing"
	}
	return fmt.Sprintf("%d processes with %d mappings and memfds, %d files, %d in /dev/shm", l.Processes, l.Memory,
		l.Files, l.Shm)
}

// leftGrace is how long the system may take to end a process that was killed.
const leftGrace = 300 * time.Millisecond

// left looks for what a run has left: processes are known by the mark in their
// environment, files by the folders that the run was given.
func (t *try) left(within time.Duration) (found leftovers, names []string) {
	said := t.said("stderr")
	pids := t.marked()
	for deadline := time.Now().Add(within); len(pids) > 0 && time.Now().Before(deadline); pids = t.marked() {
		time.Sleep(5 * time.Millisecond)
	}
	found.Processes = len(pids)
	for _, pid := range pids {
		names = append(names, fmt.Sprintf("process %d: %s", pid, strings.Join(procfs.Command(pid), " ")))
		found.Memory += sharedMemoryOf(pid)
	}
	for _, dir := range []string{t.dir, t.temp} {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(d.Name(), launch.CrashName) && strings.Contains(said, d.Name()) {
				return nil // a post-mortem, and the error names it
			}
			if err == nil && path != dir && !slices.Contains(t.cell.want.files, d.Name()) &&
				!slices.Contains(t.known, d.Name()) {
				found.Files++
				names = append(names, "file "+d.Name())
			}
			return nil // what can't be read any more has been removed
		})
	}
	entries, _ := os.ReadDir("/dev/shm") // without the directory there is nothing
	for _, e := range entries {
		// disco-bench isn't what is tried here: the tests of other packages run it at the same time.
		if strings.Contains(e.Name(), "disco") && !strings.HasPrefix(e.Name(), "disco-bench-") {
			found.Shm++
			names = append(names, "/dev/shm/"+e.Name())
		}
	}
	return found, names
}

// marked lists the processes of this try that still run.
func (t *try) marked() []int { return markedWith(t.mark) }

// markedWith lists the running processes whose mark begins so.
func markedWith(begin string) []int {
	var found []int
	mark := []byte(markEnv + "=" + begin)
	all, _ := procfs.Processes() // none: the machine is broken in other ways
	for _, pid := range all {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err != nil || !bytes.Contains(env, mark) {
			continue
		}
		if s := procfs.State(pid); s != "" && s != procfs.Dead {
			found = append(found, pid)
		}
	}
	return found
}

// sharedMemoryOf counts the segments that a process maps or has open.
func sharedMemoryOf(pid int) int {
	maps, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps")) // it may have ended
	count := bytes.Count(maps, []byte("memfd:disco"))
	fds, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd", "*"))
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.Contains(to, "memfd:disco") {
			count++
		}
	}
	return count
}

// childrenOf lists the processes that pid has started and that still run.
func childrenOf(pid int) []int {
	var found []int
	all, _ := procfs.Processes()
	for _, p := range all {
		if s, err := procfs.Stat(p); err == nil && s.Parent == pid && s.State != procfs.Dead {
			found = append(found, p)
		}
	}
	return found
}

// workersOf lists the worker processes of a launcher.
func workersOf(launcher int) []int {
	var found []int
	for _, pid := range childrenOf(launcher) {
		if c := procfs.Command(pid); len(c) > 2 && c[1] == "worker" {
			found = append(found, pid)
		}
	}
	return found
}
