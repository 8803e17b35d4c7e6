// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/shm"
	"golang.org/x/sys/unix"
)

// memory is all segments of a worker set. The launcher makes and formats them before any
// worker starts, and owns them; they have no names, so they are gone when the last
// process that maps them is.
type memory struct {
	plan    worker.Layout
	first   int // number of the first worker, for the names of boards
	workers int
	boards  []*shm.Segment
	pools   []*shm.Segment
	lanes   [][]*shm.Segment // [from][to]; nil on the diagonal
	kept    [][]*os.File     // lanes that are no longer mapped, for a post-mortem
	shared  bool             // between processes
}

// newMemory makes the segments for so many workers, of which the first has the given
// number. Pages are taken as they are made, which may take seconds: proceed is called in
// between, and its error ends it.
func newMemory(transport string, first, workers int, tuning worker.Tuning, proceed func() error) (*memory, error) {
	plan, err := worker.SegmentLayout(workers, tuning)
	if err != nil {
		return nil, &configError{err}
	}
	m := &memory{plan: plan, first: first, workers: workers, shared: transport == TransportShm}
	if err := m.make(proceed); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// pages is the remark about which pages pools and lanes are in, where huge ones were asked for.
func (m *memory) pages() string {
	text := fmt.Sprintf("huge pages were asked for: pools are in %v", m.pools[0].Pages())
	if m.workers > 1 {
		text += fmt.Sprintf(", lanes in %v", m.lanes[0][1].Pages())
	}
	return text
}

func (m *memory) make(proceed func() error) error {
	m.lanes = make([][]*shm.Segment, m.workers)
	for w := range m.workers {
		named := m.plan.Board
		named.Name = inspect.BoardName(m.first + w)
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
			if err := proceed(); err != nil {
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
// keeps the boards, to show progress, and the files of the lanes, for a post-mortem. Lanes aren't kept mapped: a
// system that is out of memory would take the launcher
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

// inspectLane reads the status of a lane, which the launcher may have mapped no longer.
func (m *memory) inspectLane(from, to int) (lane.Status, error) {
	if m.lanes != nil {
		return lane.Inspect(m.lanes[from][to].Body())
	}
	s, err := shm.Attach(m.kept[from][to], shm.Want{Kind: worker.KindLane, Size: m.plan.Lane.Size, ReadOnly: true,
		NoPopulate: true})
	if err != nil {
		return lane.Status{}, err
	}
	status, err := lane.Inspect(s.Body())
	return status, errors.Join(err, s.Close())
}
