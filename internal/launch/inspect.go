// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/disco-sim/disco/internal/counters"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/shm"
)

// boardName begins the name of the segments that hold boards; the worker's index
// follows. It is how a run is found from outside.
const boardName = "board-"

// Live is a run as it looks from outside: nothing of it is touched, and it doesn't
// notice.
type Live struct {
	PID     int // of the launcher
	Command string
	Workers []LiveWorker // by index
}

// LiveWorker is one worker of a run that is under way.
type LiveWorker struct {
	PID        int     // 0: its process isn't there (any more)
	State      string  // running, sleeping, stopped, …
	CPUSeconds float64 // used so far, by all of its threads
	Numbers    []counters.Value
}

// Number is the value of one of the board's numbers (worker.NumberEvents, …), 0 where
// the board has none of that name.
func (w *LiveWorker) Number(name string) float64 {
	for _, v := range w.Numbers {
		if v.Name == name {
			if v.Kind == counters.Gauge {
				return v.Gauge
			}
			return float64(v.Count)
		}
	}
	return 0
}

// ErrNoRun is what Inspect returns for a process that is no run.
var ErrNoRun = errors.New("launch: no run")

// Runs lists the launchers that are running simulations over processes right now, as
// far as the caller may look at them.
func Runs() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("launch: the list of processes: %w", err)
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || isWorkerProcess(pid) {
			continue
		}
		if boards, err := boardsOf(pid); err == nil && len(boards) > 0 {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found, nil
}

// Inspect looks at a run. pid is its launcher or one of its workers.
func Inspect(pid int) (*Live, error) {
	if isWorkerProcess(pid) {
		if stat, err := statOf(pid); err == nil {
			pid = stat.parent
		}
	}
	boards, err := boardsOf(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no process %d", ErrNoRun, pid)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: no permission to look at process %d: become the user who started it", ErrNoRun, pid)
	case err != nil:
		return nil, fmt.Errorf("launch: descriptors of process %d: %w", pid, err)
	case len(boards) == 0:
		return nil, fmt.Errorf("%w: process %d runs no simulation over processes (one with --transport inproc can't be looked at from outside)", ErrNoRun, pid)
	}
	l := &Live{PID: pid, Command: strings.Join(commandOf(pid), " "), Workers: make([]LiveWorker, len(boards))}
	for w := range l.Workers {
		path, ok := boards[w]
		if !ok {
			return nil, fmt.Errorf("%w: process %d is only beginning or ending its run", ErrNoRun, pid)
		}
		if l.Workers[w].Numbers, err = readBoard(path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("%w: process %d has ended its run meanwhile", ErrNoRun, pid)
		}
		if err != nil {
			// The descriptor may be another file's by now, or a board that is only being made.
			if again, _ := boardsOf(pid); errors.Is(err, shm.ErrSeals) || !maps.Equal(boards, again) {
				return nil, fmt.Errorf("%w: process %d is only beginning or ending its run", ErrNoRun, pid)
			}
			return nil, fmt.Errorf("launch: board of worker %d of process %d: %w", w, pid, err)
		}
	}
	return l, l.findWorkers()
}

// boardsOf finds the boards among the open files of a process: path by worker.
func boardsOf(pid int) (map[int]string, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	boards := make(map[int]string)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		target, err := os.Readlink(path)
		if err != nil {
			continue // closed meanwhile
		}
		rest, ok := strings.CutPrefix(target, "/memfd:disco:"+boardName)
		if !ok {
			continue
		}
		if index, err := strconv.Atoi(strings.TrimSuffix(rest, " (deleted)")); err == nil && index >= 0 && index < worker.WorkersMax {
			boards[index] = path
		}
	}
	return boards, nil
}

// readBoard takes the numbers off a board. It is checked like any peer's segment.
func readBoard(path string) ([]counters.Value, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := shm.Attach(f, shm.Want{Kind: worker.KindBoard, SizeMax: 1 << 20, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	values, err := worker.Numbers(s)
	return values, errors.Join(err, s.Close())
}

// findWorkers fills in the processes of the workers.
func (l *Live) findWorkers() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("launch: the list of processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := statOf(pid)
		if err != nil || stat.parent != l.PID {
			continue
		}
		command := commandOf(pid) // read once: it is empty when the process has ended
		if !isWorkerCommand(command) {
			continue
		}
		index, err := strconv.Atoi(command[2])
		if err != nil || index < 0 || index >= len(l.Workers) {
			continue
		}
		w := &l.Workers[index]
		w.PID, w.State, w.CPUSeconds = pid, stat.state, stat.cpuSeconds
	}
	return nil
}

// isWorkerProcess tells whether a process looks like a worker from outside.
func isWorkerProcess(pid int) bool { return isWorkerCommand(commandOf(pid)) }

func isWorkerCommand(c []string) bool { return len(c) > 2 && c[1] == Command }

// commandOf is the command line of a process, nil where it can't be read.
func commandOf(pid int) []string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// processStat is what the system says about a process.
type processStat struct {
	parent     int
	state      string
	cpuSeconds float64
}

// ticksPerSecond is the unit of times in /proc on all machines that disco runs on.
const ticksPerSecond = 100

func statOf(pid int) (processStat, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return processStat{}, err
	}
	// The name in parentheses may hold anything; the fields follow the last one.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return processStat{}, fmt.Errorf("launch: /proc/%d/stat: found %q", pid, text)
	}
	parent, errParent := strconv.Atoi(fields[1])
	user, errUser := strconv.Atoi(fields[11])
	system, errSystem := strconv.Atoi(fields[12])
	s := processStat{parent: parent, cpuSeconds: float64(user+system) / ticksPerSecond}
	switch fields[0] {
	case "R":
		s.state = "running"
	case "S":
		s.state = "sleeping"
	case "D":
		s.state = "disk"
	case "T", "t":
		s.state = "stopped"
	case "Z", "X":
		s.state = "dead"
	default:
		s.state = fields[0]
	}
	return s, errors.Join(errParent, errUser, errSystem)
}

// stateOf is the state of a process in words, empty where there is none.
func stateOf(pid int) string {
	s, err := statOf(pid)
	if err != nil {
		return ""
	}
	return s.state
}
