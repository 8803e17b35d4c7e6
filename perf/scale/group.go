// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/procfs"
)

// How the memory of a run was measured: launcher, workers and what they share, each page once.
const (
	byGroup = "control group" // the kernel's own peak, without gaps
	byPss   = "sum of PSS"    // looked at every now and then: a short peak may be missed
)

// group is a control group of memory.
type group struct{ dir, peak, limit string }

// groupForms are the two versions of the interface. Version 2 shows the peak from Linux 5.19 on.
var groupForms = []struct{ root, peak, limit string }{
	{"/sys/fs/cgroup/memory", "memory.max_usage_in_bytes", "memory.limit_in_bytes"},
	{"/sys/fs/cgroup", "memory.peak", "memory.max"},
}

// newGroup makes a group whose processes may take so many bytes together. The error says why there is none.
func newGroup(limit int64) (*group, error) {
	why := errors.New("no control group of memory that this user may make")
	for _, f := range groupForms {
		g := &group{filepath.Join(f.root, "disco-scale-"+strconv.Itoa(os.Getpid())), f.peak, f.limit}
		if os.Mkdir(g.dir, 0o755) != nil {
			continue
		}
		_, err := g.read()
		if err == nil {
			err = os.WriteFile(filepath.Join(g.dir, g.limit), strconv.AppendInt(nil, limit, 10), 0o644)
		}
		if err == nil {
			return g, nil
		}
		g.remove()
		why = err
	}
	return nil, why
}

// kernelFile is a file of figures that the kernel writes.
var kernelFile = infile.Kind{Name: "figures of the kernel", BytesMax: 1 << 20}

// command is a command line that executes another one inside of the group.
func (g *group) command(args []string) []string {
	return append([]string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")},
		args...)
}

// read is the largest number of bytes that the processes of the group have had at a time.
func (g *group) read() (int64, error) {
	text, err := infile.Read(filepath.Join(g.dir, g.peak), kernelFile)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

func (g *group) remove() { _ = syscall.Rmdir(g.dir) } // busy where a process is left, which the run's end excludes

// pss is the proportional memory of processes: what several of them share counts once.
func pss(pids []int) (sum int64) {
	for _, pid := range pids {
		// A process that has ended has none.
		text, _ := infile.Read(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"), kernelFile)
		for line := range bytes.Lines(text) {
			var kib int64
			if _, err := fmt.Sscanf(string(line), "Pss: %d kB", &kib); err == nil {
				sum += kib << 10
			}
		}
	}
	return sum
}

// family is a process and its children.
func family(pid int) []int {
	found := []int{pid}
	all, _ := procfs.Processes() // none: the machine is broken in other ways
	for _, p := range all {
		if s, err := procfs.Stat(p); err == nil && s.Parent == pid {
			found = append(found, p)
		}
	}
	return found
}

// cpuModel is the name of the processor.
func cpuModel() string {
	text, _ := infile.Read("/proc/cpuinfo", kernelFile)
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// processorTime is how many seconds of all processors were not free so far: with work, or other guests of the host.
func processorTime() float64 {
	const perSecond = 100 // on all machines that disco runs on
	text, _ := infile.Read("/proc/stat", kernelFile)
	var user, nice, system, idle, wait, interrupt, soft, stolen float64
	// Without the file all are 0.
	_, _ = fmt.Sscanf(string(text), "cpu %f %f %f %f %f %f %f %f", &user, &nice, &system, &idle, &wait, &interrupt,
		&soft, &stolen)
	return (user + nice + system + interrupt + soft + stolen) / perSecond
}

// meminfo is a line of /proc/meminfo in bytes, 0 where there is none.
func meminfo(name string) int64 {
	text, _ := infile.Read("/proc/meminfo", kernelFile)
	for line := range bytes.Lines(text) {
		var kib int64
		if _, err := fmt.Sscanf(string(line), name+": %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
