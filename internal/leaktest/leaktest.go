// SPDX-License-Identifier: Apache-2.0

// Package leaktest makes a package's tests fail when they leave something behind:
// goroutines, descriptors, shared memory, processes or files.
//
// Guarantee: what is left is listed with what it is and, for a goroutine, with its stack.
// Things that end shortly after the last test are waited for. Of tests of which one failed
// it is only said how much they left, because that may follow from the failure.
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
package leaktest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// leftMax is how long things may take to end after the last test. Only a leak takes it.
const leftMax = 5 * time.Second

// Main runs the tests of a package, checks what they have left behind, and exits. Temporary
// files go to a directory of this process, which has to be empty at the end. Goroutines
// whose stack has one of the texts in keep are there for the life of the process.
func Main(m *testing.M, keep ...string) {
	os.Exit(run(m.Run, keep, leftMax))
}

func run(tests func() int, keep []string, leftMax time.Duration) int {
	former := os.Getenv("TMPDIR")
	dir, err := os.MkdirTemp("", "disco-test")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "leaktest:", err)
		return 1
	}
	before := descriptors()
	status := tests()
	if f := flag.Lookup("test.fuzz"); f == nil || f.Value.String() == "" {
		left := leftovers(before, dir, keep)
		for deadline := time.Now().Add(leftMax); len(left) > 0 &&
			time.Now().Before(deadline); left = leftovers(before, dir, keep) {
			time.Sleep(10 * time.Millisecond)
		}
		switch {
		case status != 0 && len(left) > 0: // internal/ci/test.sh tests all of the package again
			fmt.Fprintf(os.Stderr, "leaktest: beside what failed, %d things were left behind\n", len(left))
		case status == 0:
			for _, l := range left {
				fmt.Fprintln(os.Stderr, "leaktest: the tests have left behind:", l)
				status = 1
			}
		}
	}
	if err := errors.Join(os.RemoveAll(dir), os.Setenv("TMPDIR", former)); err != nil {
		fmt.Fprintln(os.Stderr, "leaktest:", err)
		status = 1
	}
	return status
}

// leftovers describes everything that is there and shouldn't be.
func leftovers(before map[string]string, dir string, keep []string) []string {
	left := goroutines(keep)
	for fd, to := range descriptors() {
		if before[fd] != to {
			left = append(left, fmt.Sprintf("descriptor %s: %s", fd, to))
		}
	}
	left = append(left, mappings()...)
	left = append(left, children()...)
	entries, err := os.ReadDir(dir)
	if err != nil {
		left = append(left, err.Error())
	}
	for _, e := range entries {
		left = append(left, "file "+filepath.Join(dir, e.Name()))
	}
	return left
}

// lasting are goroutines that the runtime and the standard library start once and keep.
var lasting = []string{"os/signal.signal_recv", "os/signal.loop", "runtime.ensureSigM"}

// goroutines returns the stacks of all goroutines but this one and those to keep.
func goroutines(keep []string) (stacks []string) {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	for i, stack := range strings.Split(string(all), "\n\n") {
		if i > 0 && !containsAny(stack, lasting) && !containsAny(stack, keep) {
			stacks = append(stacks, strings.TrimSpace(stack))
		}
	}
	return stacks
}

func containsAny(s string, texts []string) bool {
	for _, t := range texts {
		if strings.Contains(s, t) {
			return true
		}
	}
	return false
}

// descriptors says where each open descriptor leads to, but for those of the Go runtime.
func descriptors() map[string]string {
	open := map[string]string{}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return open
	}
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && to != "anon_inode:[eventpoll]" && to != "anon_inode:[eventfd]" {
			open[e.Name()] = to
		}
	}
	return open
}

// mappings lists the segments of disco that are mapped.
func mappings() (left []string) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "memfd:disco") {
			left = append(left, "mapping "+strings.TrimSpace(line))
		}
	}
	return left
}

// children lists the processes that this one has started and that haven't been reaped.
func children() (left []string) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return []string{err.Error()}
	}
	self := []byte(strconv.Itoa(os.Getpid()))
	for _, path := range stats {
		pid := filepath.Base(filepath.Dir(path))
		text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err != nil {
			continue // it has ended
		}
		// The name stands in parentheses and may hold anything.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 1 && bytes.Equal(fields[1], self) {
			left = append(left, fmt.Sprintf("process %s in state %s", pid, fields[0]))
		}
	}
	return left
}
