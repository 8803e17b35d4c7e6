// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/shm"
	"golang.org/x/sys/unix"
)

// memory is all segments of a team. The launcher makes and formats them before any
// worker starts, and owns them; they have no names, so they are gone when the last
// process that maps them is.
type memory struct {
	plan    worker.Plan
	first   int // number of the first worker, for the names of boards
	workers int
	boards  []*shm.Segment
	pools   []*shm.Segment
	lanes   [][]*shm.Segment // [from][to]; nil on the diagonal
	kept    [][]*os.File     // lanes that are no longer mapped, for a post-mortem
	shared  bool             // between processes
}

// newMemory makes the segments for so many workers, of which the first has the given
// number. Pages are taken as they are made, which may take seconds: goOn is asked in
// between, and its error ends it.
func newMemory(transport string, first, workers int, tuning worker.Tuning, goOn func() error) (*memory, error) {
	plan, err := worker.SegmentPlan(workers, tuning)
	if err != nil {
		return nil, &configError{err}
	}
	m := &memory{plan: plan, first: first, workers: workers, shared: transport == TransportShm}
	if err := m.make(goOn); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// pages says which pages pools and lanes lie in, for who asked for huge ones.
func (m *memory) pages() string {
	text := fmt.Sprintf("huge pages were asked for: pools are in %v", m.pools[0].Pages())
	if m.workers > 1 {
		text += fmt.Sprintf(", lanes in %v", m.lanes[0][1].Pages())
	}
	return text
}

// enough refuses teams of so many workers that need more memory than the machine has
// left, or more files than a process may have open. The pages are taken when the
// segments are made, and a system that is out of them ends some process rather than
// refuse.
func enough(transport string, teams, workers int, tuning worker.Tuning) error {
	plan, err := worker.SegmentPlan(workers, tuning)
	if err != nil {
		return &configError{err}
	}
	segments := teams * workers * (workers + 1)
	need := teams * workers * (plan.Board.Size + plan.Pool.Size + (workers-1)*plan.Lane.Size)
	if available, ok := memoryAvailable(); ok && need > available {
		return badConfig("launch: %d workers need %d MiB of memory for their lanes and pools, but %d MiB are available: use fewer workers, smaller rings or smaller pools",
			teams*workers, need>>20, available>>20)
	}
	if transport != TransportShm {
		return nil
	}
	allowed, err := filesAllowed()
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	// A file for each segment; for each worker its control stream and three pipes.
	if need := uint64(segments + 8*teams*workers + otherFiles); need > allowed {
		return badConfig("launch: %d workers need up to %d open files, but %d are allowed: use fewer workers, or raise the limit (ulimit -n)", teams*workers, need, allowed)
	}
	return nil
}

// otherFiles are those that a launcher has open besides its workers': results, traces,
// the Go runtime's own.
const otherFiles = 16

func (m *memory) make(goOn func() error) error {
	m.lanes = make([][]*shm.Segment, m.workers)
	for w := range m.workers {
		named := m.plan.Board
		named.Name = fmt.Sprintf("%s%d", boardName, m.first+w)
		board, err := m.segment(named, m.plan.FormatBoard)
		if err != nil {
			return err
		}
		m.boards = append(m.boards, board)
		pool, err := m.segment(m.plan.Pool, m.plan.FormatPool)
		if err != nil {
			return err
		}
		m.pools = append(m.pools, pool)
		m.lanes[w] = make([]*shm.Segment, m.workers)
		for to := range m.workers {
			if to == w {
				continue
			}
			if err := goOn(); err != nil {
				return err
			}
			if m.lanes[w][to], err = m.segment(m.plan.Lane, m.plan.FormatLane); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) segment(cfg shm.Config, format func([]byte) error) (*shm.Segment, error) {
	create := shm.Heap
	if m.shared {
		create = shm.Create
	}
	s, err := create(cfg)
	if err != nil {
		return nil, fmt.Errorf("launch: segment %s of %d bytes: %w", cfg.Name, cfg.Size, err)
	}
	if err := format(s.Body()); err != nil {
		s.Close()
		return nil, fmt.Errorf("launch: segment %s: %w", cfg.Name, err)
	}
	return s, nil
}

// files lists what a worker process is handed, in the order in which attached takes
// it: all boards, all pools, its lanes to the peers, the lanes from them.
func (m *memory) files(self int) []*os.File {
	var files []*os.File
	for _, s := range m.boards {
		files = append(files, s.File())
	}
	for _, s := range m.pools {
		files = append(files, s.File())
	}
	for peer, s := range m.lanes[self] {
		if peer != self {
			files = append(files, s.File())
		}
	}
	for peer := range m.lanes {
		if peer != self {
			files = append(files, m.lanes[peer][self].File())
		}
	}
	return files
}

// segments is what a worker in this process uses.
func (m *memory) segments(self int) worker.Segments {
	in := make([]*shm.Segment, m.workers)
	for peer := range in {
		in[peer] = m.lanes[peer][self]
	}
	return worker.Segments{Boards: m.boards, Pools: m.pools, Out: m.lanes[self], In: in}
}

// release gives up what only the workers need, once they have attached: the launcher
// keeps the boards, to look at, and the files of the lanes, to look at when a worker has
// died. Lanes aren't kept mapped: a system that is out of memory would take the launcher
// for the largest process. Heap segments stay: the workers use these very ones.
func (m *memory) release() error {
	if !m.shared {
		return nil
	}
	m.kept = make([][]*os.File, m.workers)
	for from, row := range m.lanes {
		m.kept[from] = make([]*os.File, m.workers)
		for to, s := range row {
			if s == nil {
				continue
			}
			f, err := duplicate(s.File())
			if err != nil {
				return fmt.Errorf("launch: keeping the lane from worker %d to %d: %w", from, to, err)
			}
			m.kept[from][to] = f
		}
	}
	// An error of Close leaves nothing to be done: the mapping goes with the process.
	_ = closeAll(m.pools)
	for _, row := range m.lanes {
		_ = closeAll(row)
	}
	m.pools, m.lanes = nil, nil
	return nil
}

// duplicate is a second descriptor of a file.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// close frees all segments. No worker of this process may use them any more.
func (m *memory) close() error {
	errs := []error{closeAll(m.boards), closeAll(m.pools)}
	for _, row := range m.lanes {
		errs = append(errs, closeAll(row))
	}
	for _, row := range m.kept {
		for _, f := range row {
			if f != nil {
				errs = append(errs, f.Close())
			}
		}
	}
	m.boards, m.pools, m.lanes, m.kept = nil, nil, nil, nil
	return errors.Join(errs...)
}

func closeAll(segments []*shm.Segment) error {
	var errs []error
	for _, s := range segments {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// reached reads off its board how far a worker has come in this replication: false for
// one that has just begun, or whose board can't be read.
func (m *memory) reached(index int) (epoch float64, ok bool) {
	values, err := worker.Numbers(m.boards[index])
	if err != nil {
		return 0, false
	}
	for _, v := range values {
		if v.Name == worker.NumberEpoch {
			return v.Gauge, v.Gauge > 0 && !math.IsInf(v.Gauge, 1)
		}
	}
	return 0, false
}

// progress reads off the boards how far all workers are, and how many events they
// have handled in this replication. A board that can't be read counts as one that
// has just begun: progress is for people to look at.
func (m *memory) progress() (now float64, events uint64) {
	now = math.Inf(1)
	for _, b := range m.boards {
		values, err := worker.Numbers(b)
		if err != nil {
			return 0, 0
		}
		for _, v := range values {
			switch v.Name {
			case worker.NumberEpoch:
				now = min(now, v.Gauge)
			case worker.NumberEvents:
				events += v.Count
			}
		}
	}
	if !(now > 0) || math.IsInf(now, 1) {
		return 0, events
	}
	return now, events
}
