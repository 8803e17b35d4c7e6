// SPDX-License-Identifier: Apache-2.0

// Package memorygroup gives tests a control group of memory, for programs that are to do with as much as it allows.
//
// Guarantee: the group is removed when the test ends; where none can be made the test is skipped, and says so.
//
//	g := memorygroup.New(t)
//	g.Limit(200 << 20)
//	g.Add(cmd.Process.Pid)
package memorygroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/infile"
)

// Group is a control group of memory. One goroutine uses it.
type Group struct {
	Dir         string // may be handed to a process, for Join
	t           testing.TB
	peak, limit string // names of files
}

var made atomic.Int64 // groups

const (
	members   = "cgroup.procs"
	removeMax = time.Minute // until what was in a group is gone
)

// New makes one below the machine's root group, of whichever version of control groups there is.
func New(t testing.TB) *Group {
	t.Helper()
	name := fmt.Sprintf("disco-test-%d-%d", os.Getpid(), made.Add(1))
	var why []error
	for _, g := range []Group{
		{"/sys/fs/cgroup/memory", t, "memory.max_usage_in_bytes", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", t, "memory.peak", "memory.max"},
	} {
		_, err := os.Stat(filepath.Join(g.Dir, members))
		if g.Dir = filepath.Join(g.Dir, name); err == nil {
			err = os.Mkdir(g.Dir, 0o755)
		}
		if err == nil {
			t.Cleanup(g.remove)
			_, err = g.read()
		}
		if err == nil {
			return &g
		}
		why = append(why, err)
	}
	t.Skipf("NOT TESTED: this user can't make a control group of memory here: %v", errors.Join(why...))
	return nil
}

// remove removes the group, once its processes have ended.
func (g *Group) remove() {
	for deadline := time.Now().Add(removeMax); os.Remove(g.Dir) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Errorf("%s: a process is in it, %v behind the test", g.Dir, removeMax)
			return
		}
	}
}

// Limit allows all processes in the group together so many bytes.
func (g *Group) Limit(bytes int64) {
	g.t.Helper()
	text := strconv.FormatInt(bytes, 10)
	if err := os.WriteFile(filepath.Join(g.Dir, g.limit), []byte(text), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

// Peak is the most that all processes in the group have had together.
func (g *Group) Peak() int64 {
	g.t.Helper()
	bytes, err := g.read()
	if err != nil {
		g.t.Fatal(err)
	}
	return bytes
}

func (g *Group) read() (peak int64, err error) {
	text, err := infile.Read(filepath.Join(g.Dir, g.peak), infile.Kind{Name: "a group's memory", BytesMax: 64})
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// Add puts a process into the group, and what it starts from then on.
func (g *Group) Add(pid int) {
	g.t.Helper()
	if err := join(g.Dir, pid); err != nil {
		g.t.Fatal(err)
	}
}

// Join puts this process, which isn't the test's, into the group of that Dir.
func Join(dir string) error { return join(dir, os.Getpid()) }

func join(dir string, pid int) error {
	return os.WriteFile(filepath.Join(dir, members), []byte(strconv.Itoa(pid)), 0o644)
}
