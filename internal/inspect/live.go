// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/counters"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/shm"
)

// LanesMax is how many lanes a Live reads; of a run with more it reads none.
const LanesMax = 4096

// Live is a run that is looked at again and again: what it shows stays mapped. One goroutine uses it.
type Live struct {
	run    Run // without what moves
	path0  string
	board0 os.FileInfo // of the first board, by which other workers of the same launcher are found out
	boards []*board
	lanes  []*liveLane
	many   int // lanes, where they are more than are read
	input  *shm.Segment
	file   string
	placed *node.Placed // nil: not known
	links  map[[2]int]Link
	last   *View
}

// board is one worker's.
type board struct {
	segment *shm.Segment
	often   *worker.Sampled
	counts  [samples]int
	all     int
}

// What samples of a board are counted by.
const (
	sampleBusy = iota
	sampleBlocked
	sampleRoom
	sampleOutside
	sampleParked
	samples
)

// Shares are of the samples between two looks; Busy, Blocked, Room and Outside add up to 1 at most.
type Shares struct {
	Busy    float64 // handled events, or looked for some
	Blocked float64 // waited for its peers to come further
	Room    float64 // waited for room in the ring to a peer
	Outside float64 // a handler waited for an answer of the outside world
	Parked  float64 // slept, or was about to
}

type liveLane struct {
	from, to int
	segment  *shm.Segment
	tail     uint64
	known    bool
}

// Lane is what one worker sends to another one.
type Lane struct {
	From, To       int
	Held, Capacity int     // bytes in its ring, and how many there may be
	PerSecond      float64 // bytes that were put into it
}

// View is a run as one look at it has found it.
type View struct {
	Run
	At        time.Time
	Seconds   float64  // since the look before; 0: this is the first
	Before    *Run     // that look; nil: this is the first
	Shares    []Shares // by place in Workers
	Lanes     []Lane   // with most bytes a second first
	ManyLanes int      // that weren't looked at, because they are more than LanesMax
	Scenario  string   // the name of its file; empty: not known
	Age       time.Duration
	Slowest   *Slowest // nil: nobody waits for a worker that doesn't wait itself
}

// Open begins to look at the run of a process: its launcher or one of its workers. The caller closes what it gets. An
// ErrNoRun says that there is none, or that it is beginning or ending.
func Open(pid int) (l *Live, err error) {
	run, err := Process(pid)
	if err != nil {
		return nil, err
	}
	l = &Live{run: *run}
	var files *segments
	defer func() {
		if err != nil {
			// A descriptor may be another file's by now.
			if again, _ := segmentsOf(run.PID); files != nil && !files.are(again) && !errors.Is(err, ErrNoRun) {
				err = fmt.Errorf("%w: process %d is only beginning or ending its run", ErrNoRun, run.PID)
			}
			err = errors.Join(err, l.Close())
			l = nil
		}
	}()
	if files, err = segmentsOf(run.PID); err != nil {
		return l, gone(run.PID, err)
	}
	for i, w := range run.Workers {
		b := new(board)
		path := files.boards[w.Index]
		if b.segment, err = attach(path, shm.Want{Kind: worker.KindBoard, SizeMax: boardMax}); err != nil {
			return l, gone(run.PID, err)
		}
		l.boards = append(l.boards, b)
		if b.often, err = worker.OpenSampled(b.segment); err != nil {
			return l, gone(run.PID, fmt.Errorf("board of worker %d: %w", w.Index, err))
		}
		if i == 0 {
			l.path0 = path
			if l.board0, err = os.Stat(path); err != nil {
				return l, gone(run.PID, err)
			}
		}
	}
	if err := l.openLanes(files); err != nil {
		return l, gone(run.PID, err)
	}
	l.openInput(files)
	return l, nil
}

// gone says that a run has ended, or the next one is only beginning, while it was opened, where that is what an error
// means.
func gone(pid int, err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || isBeginning(err) {
		return fmt.Errorf("%w: process %d is only beginning or ending its run", ErrNoRun, pid)
	}
	return fmt.Errorf("inspect: process %d: %w", pid, err)
}

// isBeginning reports whether an error is about memory that is only being made.
func isBeginning(err error) bool {
	for _, of := range []error{shm.ErrSeals, shm.ErrSparse, counters.ErrUnformatted, lane.ErrUnformatted} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// boardMax bounds a board's body, bytes.
const boardMax = 1 << 20

func attach(path string, want shm.Want) (*shm.Segment, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	want.ReadOnly, want.NoPopulate = true, true
	return shm.Attach(f, want)
}

func (l *Live) openLanes(files *segments) error {
	if len(files.lanes) > LanesMax {
		l.many = len(files.lanes)
		return nil
	}
	byWorkers := func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }
	for _, at := range slices.SortedFunc(maps.Keys(files.lanes), byWorkers) {
		s, err := attach(files.lanes[at], shm.Want{Kind: worker.KindLane})
		if err != nil {
			return err
		}
		l.lanes = append(l.lanes, &liveLane{from: at[0], to: at[1], segment: s})
	}
	return nil
}

// openInput finds the names of nodes. A run that can be looked at without them is.
func (l *Live) openInput(files *segments) {
	s, err := attach(files.input, shm.Want{Kind: worker.KindInput})
	if err != nil {
		return
	}
	l.input = s
	if in, err := worker.ReadInput(s.Body()); err == nil {
		l.placed, l.file, l.links = in.Placed, in.File, shortestLinks(in.Placed)
	}
}

// Close lets go of the run.
func (l *Live) Close() error {
	var all []error
	for _, b := range l.boards {
		all = append(all, b.segment.Close())
	}
	for _, n := range l.lanes {
		all = append(all, n.segment.Close())
	}
	if l.input != nil {
		all = append(all, l.input.Close())
	}
	l.boards, l.lanes, l.input, l.placed = nil, nil, nil, nil
	return errors.Join(all...)
}

// Sample notes what each worker is doing now. It takes no system call.
func (l *Live) Sample() {
	for _, b := range l.boards {
		b.all++
		switch b.often.State() {
		case worker.StateWork:
			b.counts[sampleBusy]++
		case worker.StateBound, worker.StateAhead, worker.StateHeld, worker.StatePaused:
			b.counts[sampleBlocked]++
		case worker.StateRoom:
			b.counts[sampleRoom]++
		case worker.StateOutside:
			b.counts[sampleOutside]++
		}
		if b.often.Parked() {
			b.counts[sampleParked]++
		}
	}
}

// Look reads all that the run shows. An ErrNoRun says that it has ended, or has other workers by now: Open finds them.
// The answer stays as it is.
func (l *Live) Look() (*View, error) {
	now, err := os.Stat(l.path0)
	if err != nil || !os.SameFile(now, l.board0) {
		return nil, fmt.Errorf("%w: process %d has ended its run, or begun it anew", ErrNoRun, l.run.PID)
	}
	run := l.run
	run.Workers = nil
	for i, b := range l.boards {
		w := Worker{Index: l.run.Workers[i].Index}
		if w.Numbers, err = worker.Numbers(b.segment); err != nil {
			return nil, fmt.Errorf("inspect: board of worker %d of process %d: %w", w.Index, run.PID, err)
		}
		run.Workers = append(run.Workers, w)
	}
	if !run.again(l.last) {
		if err := run.findWorkers(); err != nil {
			return nil, err
		}
	}
	v := &View{Run: run, At: time.Now(), ManyLanes: l.many, Scenario: l.file}
	if v.Age, err = procfs.Age(run.PID); err != nil {
		return nil, fmt.Errorf("%w: process %d has ended", ErrNoRun, run.PID)
	}
	if l.last != nil {
		v.Before, v.Seconds = &l.last.Run, v.At.Sub(l.last.At).Seconds()
	}
	for _, b := range l.boards {
		v.Shares = append(v.Shares, b.shares())
	}
	if v.Lanes, err = l.look(v.Seconds); err != nil {
		return nil, err
	}
	v.Slowest = l.findSlowest(v)
	l.last = v
	return v, nil
}

// shares are of the samples since the last call.
func (b *board) shares() Shares {
	n := float64(max(b.all, 1))
	of := func(i int) float64 { return float64(b.counts[i]) / n }
	s := Shares{Busy: of(sampleBusy), Blocked: of(sampleBlocked), Room: of(sampleRoom), Outside: of(sampleOutside),
		Parked: of(sampleParked)}
	b.counts, b.all = [samples]int{}, 0
	return s
}

// look reads all lanes.
func (l *Live) look(seconds float64) ([]Lane, error) {
	var all []Lane
	for _, n := range l.lanes {
		s, err := lane.Inspect(n.segment.Body())
		if err != nil {
			return nil, gone(l.run.PID, fmt.Errorf("lane from worker %d to %d: %w", n.from, n.to, err))
		}
		f := s.Forward
		found := Lane{From: n.from, To: n.to, Held: int(f.Tail - f.Head), Capacity: f.Capacity}
		if n.known && seconds > 0 && f.Tail > n.tail {
			found.PerSecond = float64(f.Tail-n.tail) / seconds
		}
		n.tail, n.known = f.Tail, true
		all = append(all, found)
	}
	slices.SortStableFunc(all, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(b.Held, a.Held))
	})
	return all, nil
}

// are reports whether others are the same ones.
func (s *segments) are(others *segments) bool {
	return others != nil && maps.Equal(s.boards, others.boards) && maps.Equal(s.lanes, others.lanes) &&
		s.input == others.input
}

// segments are the files of a launcher by which its run is looked at.
type segments struct {
	boards map[int]string
	lanes  map[[2]int]string // by from and to
	input  string
}

// The names of the segments that are looked at, in the launcher's list of files.
const (
	filePrefix = "/memfd:disco:"
	lanePrefix = "lane-"
	inputName  = "disco-input"
)

// LaneName is the name of the segment that holds the lane from one worker to another.
func LaneName(from, to int) string { return fmt.Sprintf("%s%d-%d", lanePrefix, from, to) }

func segmentsOf(pid int) (*segments, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := &segments{boards: map[int]string{}, lanes: map[[2]int]string{}}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		target, err := os.Readlink(path)
		if err != nil {
			continue // closed meanwhile
		}
		name, ok := strings.CutPrefix(target, filePrefix)
		if !ok {
			continue
		}
		name = strings.TrimSuffix(name, " (deleted)")
		if rest, ok := strings.CutPrefix(name, boardPrefix); ok {
			if w, ok := workerIn(rest); ok {
				found.boards[w] = path
			}
		} else if rest, ok := strings.CutPrefix(name, lanePrefix); ok {
			from, to, _ := strings.Cut(rest, "-")
			a, okA := workerIn(from)
			b, okB := workerIn(to)
			if okA && okB {
				found.lanes[[2]int{a, b}] = path
			}
		} else if name == inputName {
			found.input = path
		}
	}
	return found, nil
}

// workerIn is the number of a worker in the name of a segment.
func workerIn(text string) (w int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n < worker.WorkersMax
}
