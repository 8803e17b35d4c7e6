// SPDX-License-Identifier: Apache-2.0

// Package procfs reads what the kernel says about a process in /proc.
//
// Guarantee: the contents of the files, which a process can choose in part, are checked; a
// process that ends meanwhile is an error, or nothing, and no panic.
//
//	stat, err := procfs.Stat(pid)
//	if stat.State == procfs.Stopped { ... }
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Status is what the kernel says about a process.
type Status struct {
	Parent     int
	State      string  // Running and so on; another letter of the kernel's as it is
	CPUSeconds float64 // used so far, by all threads
	OfEnded    float64 // CPUSeconds of children that it has waited for, and of theirs
}

// States of a process.
const (
	Running  = "running"
	Sleeping = "sleeping"
	Disk     = "disk"    // waits for a device, and can't be interrupted
	Stopped  = "stopped" // by a signal or a debugger
	Dead     = "dead"    // has ended, and waits for its parent to read how
)

// ticksPerSecond is the unit of times in /proc on all machines that disco runs on.
const ticksPerSecond = 100

// Stat reads the status of a process.
func Stat(pid int) (Status, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return Status{}, err
	}
	// The name in parentheses may hold anything; the fields follow the last one.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return Status{}, fmt.Errorf("procfs: /proc/%d/stat: found %q, want 15 fields behind the name", pid, text)
	}
	parent, err := strconv.Atoi(fields[1])
	var ticks [4]int // user and system time, and those of children that have ended
	for i := range ticks {
		var wrong error
		ticks[i], wrong = strconv.Atoi(fields[11+i])
		err = errors.Join(err, wrong)
	}
	s := Status{Parent: parent, State: fields[0], CPUSeconds: float64(ticks[0]+ticks[1]) / ticksPerSecond,
		OfEnded: float64(ticks[2]+ticks[3]) / ticksPerSecond}
	switch fields[0] {
	case "R":
		s.State = Running
	case "S":
		s.State = Sleeping
	case "D":
		s.State = Disk
	case "T", "t":
		s.State = Stopped
	case "Z", "X":
		s.State = Dead
	}
	return s, err
}

// State is the state of a process, empty where there is none.
func State(pid int) string {
	s, err := Stat(pid)
	if err != nil {
		return ""
	}
	return s.State
}

// Command is the command line of a process, nil where it can't be read.
func Command(pid int) []string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// Processes lists the processes that there are.
func Processes() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("procfs: the list of processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Age is how long ago a process began, in hundredths of a second.
func Age(pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("procfs: %w", err)
	}
	const at = 19 // behind the name
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= at {
		return 0, fmt.Errorf("procfs: /proc/%d/stat: found %q, want 50 fields behind the name", pid, text)
	}
	began, err := strconv.ParseInt(fields[at], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("procfs: /proc/%d/stat: %w", pid, err)
	}
	up, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, fmt.Errorf("procfs: %w", err)
	}
	seconds, _, _ := strings.Cut(string(up), " ")
	now, err := time.ParseDuration(strings.TrimSpace(seconds) + "s")
	if err != nil {
		return 0, fmt.Errorf("procfs: /proc/uptime: %w", err)
	}
	return max(0, now-time.Duration(began)*(time.Second/ticksPerSecond)), nil
}

// PrivateBytes is the memory that a process has for itself: what is resident, but for files and what it shares with
// others.
func PrivateBytes(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, fmt.Errorf("procfs: %w", err)
	}
	var pages [3]int64 // all, resident, of them shared
	fields := strings.Fields(string(text))
	if len(fields) < len(pages) {
		return 0, fmt.Errorf("procfs: /proc/%d/statm: found %q, want 7 numbers", pid, text)
	}
	for i := range pages {
		if pages[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return 0, fmt.Errorf("procfs: /proc/%d/statm: %w", pid, err)
		}
	}
	return max(pages[1]-pages[2], 0) * int64(os.Getpagesize()), nil
}
