// SPDX-License-Identifier: Apache-2.0

// Package inspect looks at runs under way from outside, through what the kernel shows of
// their processes and through the boards of their workers, which are mapped for reading.
//
// Guarantee: a run that is looked at doesn't notice, and loses no time. A run that begins,
// ends or changes meanwhile is ErrNoRun and never a wrong answer or a panic. Boards are
// checked like any memory that another process has written.
//
//	pids, err := inspect.Runs()
//	run, err := inspect.Process(pids[0])
//	fmt.Println(run.Workers[0].Number(worker.NumberEvents))
//
// Who looks often opens it, which keeps what is read mapped:
//
//	live, err := inspect.Open(pids[0])
//	live.Sample()                // as often as one likes
//	view, err := live.Look()     // what has changed since the Look before
package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/disco-sim/disco/internal/counters"
	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/shm"
)

// boardPrefix begins the name of the segments that hold boards; the worker's number follows.
const boardPrefix = "board-"

// BoardName is the name of the segment that holds the board of a worker. It is how a run is
// found from outside.
func BoardName(worker int) string { return boardPrefix + strconv.Itoa(worker) }

// Run is a run as it looks from outside.
type Run struct {
	PID     int // of the launcher
	Command string
	Workers []Worker // by number; on a machine of a run over several, those that are there

	Elsewhere bool // the workers are on the machines of a run over several, and their processes aren't seen from here
}

// Worker is one worker of a run that is under way.
type Worker struct {
	Index      int     // its number
	PID        int     // 0: its process isn't there (any more)
	State      string  // running, sleeping, stopped, …
	CPUSeconds float64 // used so far, by all of its threads
	Numbers    []counters.Value
}

// Number is the value of one of the board's numbers (worker.NumberEvents, …), 0 where
// the board has none of that name.
func (w *Worker) Number(name string) float64 {
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

// ErrNoRun is what Process returns for a process that is no run.
var ErrNoRun = errors.New("no run")

// Runs lists the launchers that are running simulations over processes right now, as
// far as the caller may look at them.
func Runs() ([]int, error) {
	pids, err := procfs.Processes()
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	var found []int
	for _, pid := range pids {
		if _, ok := workerOf(pid); ok {
			continue
		}
		if boards, err := boardsOf(pid); err == nil && len(boards) > 0 {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found, nil
}

// Process looks at the run of a process: its launcher or one of its workers.
func Process(pid int) (*Run, error) {
	if _, ok := workerOf(pid); ok {
		if stat, err := procfs.Stat(pid); err == nil {
			pid = stat.Parent
		}
	}
	boards, err := boardsOf(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no process %d", ErrNoRun, pid)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: no permission to look at process %d: become the user who started it", ErrNoRun, pid)
	case err != nil:
		return nil, fmt.Errorf("inspect: descriptors of process %d: %w", pid, err)
	case len(boards) == 0:
		return nil, fmt.Errorf("%w: process %d has no simulation over processes under way: it hasn't begun, or "+
			"has ended, or has --transport inproc, which can't be looked at from outside", ErrNoRun, pid)
	}
	command := procfs.Command(pid)
	part := len(command) > 1 && command[1] == workerproc.BridgeCommand
	r := &Run{PID: pid, Command: strings.Join(command, " "), Workers: make([]Worker, len(boards))}
	for i, w := range slices.Sorted(maps.Keys(boards)) {
		path := boards[w]
		if w != i && !part {
			return nil, fmt.Errorf("%w: process %d is only beginning or ending its run", ErrNoRun, pid)
		}
		r.Workers[i].Index = w
		if r.Workers[i].Numbers, err = readBoard(path); errors.Is(err, fs.ErrNotExist) ||
			errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("%w: process %d has ended its run meanwhile", ErrNoRun, pid)
		}
		if err != nil {
			// The descriptor may be another file's by now, or a board that is only being made.
			if again, _ := boardsOf(pid); isBeginning(err) || !maps.Equal(boards, again) {
				return nil, fmt.Errorf("%w: process %d is only beginning or ending its run", ErrNoRun, pid)
			}
			return nil, fmt.Errorf("inspect: board of worker %d of process %d: %w", w, pid, err)
		}
	}
	return r, r.findWorkers()
}

// boardsOf finds the boards among the open files of a process: path by worker.
func boardsOf(pid int) (map[int]string, error) {
	files, err := segmentsOf(pid)
	if err != nil {
		return nil, err
	}
	return files.boards, nil
}

// readBoard takes the numbers off a board. It is checked like any peer's segment.
func readBoard(path string) ([]counters.Value, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := shm.Attach(f, shm.Want{Kind: worker.KindBoard, SizeMax: boardMax, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	values, err := worker.Numbers(s)
	return values, errors.Join(err, s.Close())
}

// again fills in the processes of the workers where they are those of the look before, and reports whether they are:
// then nobody else's need to be read.
func (r *Run) again(last *View) bool {
	if last == nil {
		return false
	}
	found := make([]procfs.Status, len(r.Workers))
	for i := range found {
		var err error
		if found[i], err = procfs.Stat(last.Workers[i].PID); err != nil || found[i].Parent != r.PID {
			return false
		}
	}
	for i, stat := range found {
		w := &r.Workers[i]
		w.PID, w.State, w.CPUSeconds = last.Workers[i].PID, stat.State, stat.CPUSeconds
	}
	r.Elsewhere = last.Elsewhere
	return true
}

// findWorkers fills in the processes of the workers.
func (r *Run) findWorkers() error {
	pids, err := procfs.Processes()
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	for _, pid := range pids {
		stat, err := procfs.Stat(pid)
		if err != nil || stat.Parent != r.PID {
			continue
		}
		if command := procfs.Command(pid); len(command) > 1 && command[1] == workerproc.ChildCommand {
			r.Elsewhere = true
		}
		index, ok := workerOf(pid)
		at := slices.IndexFunc(r.Workers, func(w Worker) bool { return w.Index == index })
		if !ok || at < 0 {
			continue
		}
		w := &r.Workers[at]
		w.PID, w.State, w.CPUSeconds = pid, stat.State, stat.CPUSeconds
	}
	return nil
}

// workerOf is the number of the worker that a process looks like from outside.
func workerOf(pid int) (number int, ok bool) {
	command := procfs.Command(pid) // read once: it is empty when the process has ended
	if len(command) < 3 || command[1] != workerproc.Command {
		return 0, false
	}
	number, err := strconv.Atoi(command[2])
	return number, err == nil && number >= 0
}
