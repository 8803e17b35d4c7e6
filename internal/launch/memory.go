// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/shm"
)

// memory is all segments of a worker set. The launcher makes and formats them before any
// worker starts, and owns them; they have no names, so they are gone when the last
// process that maps them is.
type memory struct {
	input        *worker.Input // of all sets, which they share, as the segment; not owned
	inputSegment *shm.Segment
	plan         worker.Layout
	first        int // number of the first worker, for the names of boards
	workers      int
	boards       []*shm.Segment
	pools        []*shm.Segment   // nil for workers that send nothing
	rings        [][]int          // [from][to]: bytes of the lane's ring, 0: no lane
	lanes        [][]*shm.Segment // [from][to]; nil where there is none
	shared       bool             // between processes
}

// planMemory works out which segments a set of workers needs that send each other what traffic says
// (partition.Traffic), and how large they are.
func planMemory(transport string, traffic [][]float64, tuning worker.Tuning) (*memory, error) {
	plan, err := worker.SegmentLayout(len(traffic), tuning)
	if err != nil {
		return nil, &configError{err}
	}
	return &memory{plan: plan, workers: len(traffic), rings: ringSizes(traffic, &tuning),
		shared: transport == TransportShm}, nil
}

// needs is how many bytes the segments take when they are made, and how many there are. Pools between processes take
// theirs when it is needed, and ask before they do; those in one process are counted in full, because the Go heap
// doesn't ask.
func (m *memory) needs() (bytes, segments int, err error) {
	pool := m.plan.Pool.Size
	if m.shared && !m.plan.Pool.HugePages {
		pool = m.plan.Pool.TakeBytes
	}
	for from, row := range m.rings {
		bytes, segments = bytes+m.plan.Board.Size, segments+1
		if m.sends(from) {
			segments++
			bytes += pool
		}
		for _, ring := range row {
			if ring > 0 {
				cfg, e := m.plan.LaneOf(ring)
				bytes, segments, err = bytes+cfg.Size, segments+1, errors.Join(err, e)
			}
		}
	}
	return bytes, segments, err
}

// sends reports whether a worker sends anything to another one.
func (m *memory) sends(from int) bool {
	return slices.ContainsFunc(m.rings[from], func(ring int) bool { return ring > 0 })
}

// create makes the segments for the workers of which the first has the given number. Pages are taken as they are made,
// which may take a while: proceed is called in between, and its error ends it.
func (m *memory) create(first int, proceed func() error) (*memory, error) {
	m.first = first
	if err := m.make(proceed); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// pages is the remark about which pages pools and lanes are in, where huge ones were asked for.
func (m *memory) pages() string {
	text := "huge pages were asked for"
	for from, row := range m.lanes {
		for _, lane := range row {
			if lane != nil {
				return fmt.Sprintf("%s: pools are in %v, lanes in %v", text, m.pools[from].Pages(), lane.Pages())
			}
		}
	}
	return text + ", but there are no pools and lanes"
}

func (m *memory) make(proceed func() error) error {
	m.lanes, m.pools = make([][]*shm.Segment, m.workers), make([]*shm.Segment, m.workers)
	for w := range m.workers {
		named := m.plan.Board
		named.Name = inspect.BoardName(m.first + w)
		board, err := m.segment(named, m.plan.FormatBoard)
		if err != nil {
			return err
		}
		m.boards = append(m.boards, board)
		m.lanes[w] = make([]*shm.Segment, m.workers)
		if !m.sends(w) {
			continue
		}
		if m.pools[w], err = m.segment(m.plan.Pool, m.plan.FormatPool); err != nil {
			return err
		}
		if err := m.makeLanes(w, proceed); err != nil {
			return err
		}
	}
	return nil
}

// makeLanes makes the lanes from one worker.
func (m *memory) makeLanes(from int, proceed func() error) error {
	for to, ring := range m.rings[from] {
		if ring == 0 {
			continue
		}
		if err := proceed(); err != nil {
			return err
		}
		cfg, err := m.plan.LaneOf(ring)
		if err != nil {
			return err
		}
		m.lanes[from][to], err = m.segment(cfg, func(body []byte) error { return m.plan.FormatLaneOf(body, ring) })
		if err != nil {
			return err
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

// list puts into a worker's Setup which segments it is handed.
func (m *memory) list(setup *worker.Setup) {
	self := setup.Worker
	for w := range m.workers {
		if w == self && m.sends(self) || m.rings[w][self] > 0 {
			setup.Pools = append(setup.Pools, int32(w))
		}
		if ring := m.rings[self][w]; ring > 0 {
			setup.Out = append(setup.Out, worker.LaneSize{Peer: int32(w), RingBytes: ring})
		}
		if ring := m.rings[w][self]; ring > 0 {
			setup.In = append(setup.In, worker.LaneSize{Peer: int32(w), RingBytes: ring})
		}
	}
}

// files lists what a worker process is handed, in the order in which attached takes
// it: the input, all boards, the pools that it needs, its lanes to the peers, the lanes from them.
func (m *memory) files(self int) []*os.File {
	files := []*os.File{m.inputSegment.File()}
	for _, s := range m.boards {
		files = append(files, s.File())
	}
	listed := worker.Setup{Worker: self}
	m.list(&listed)
	for _, w := range listed.Pools {
		files = append(files, m.pools[w].File())
	}
	for _, l := range listed.Out {
		files = append(files, m.lanes[self][l.Peer].File())
	}
	for _, l := range listed.In {
		files = append(files, m.lanes[l.Peer][self].File())
	}
	return files
}

// segments is what a worker in this process uses.
func (m *memory) segments(self int) worker.Segments {
	in := make([]*shm.Segment, m.workers)
	for peer := range in {
		in[peer] = m.lanes[peer][self]
	}
	return worker.Segments{Input: m.input, Boards: m.boards, Pools: m.pools, Out: m.lanes[self], In: in}
}

// release gives up what only the workers need, once they have attached: the launcher keeps the boards, to show
// progress, and the files of the lanes, for a post-mortem. Lanes aren't kept mapped: a system that is out of memory
// would take the launcher for the largest process. Heap segments stay: the workers use these very ones.
func (m *memory) release() {
	if !m.shared {
		return
	}
	// An error leaves nothing to be done: the mapping goes with the process.
	_ = closeAll(m.pools)
	for _, row := range m.lanes {
		for _, s := range row {
			if s != nil {
				_ = s.Unmap()
			}
		}
	}
}

// close frees all segments. No worker of this process may use them any more.
func (m *memory) close() error {
	errs := []error{closeAll(m.boards), closeAll(m.pools)}
	for _, row := range m.lanes {
		errs = append(errs, closeAll(row))
	}
	m.boards, m.pools, m.lanes = nil, nil, nil
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

// inspectLane reads the status of a lane that there is, which the launcher may have mapped no longer.
func (m *memory) inspectLane(from, to int) (lane.Status, error) {
	if body := m.lanes[from][to].Body(); body != nil {
		return lane.Inspect(body)
	}
	cfg, err := m.plan.LaneOf(m.rings[from][to])
	if err != nil {
		return lane.Status{}, err
	}
	s, err := shm.Attach(m.lanes[from][to].File(),
		shm.Want{Kind: cfg.Kind, Size: cfg.Size, ReadOnly: true, NoPopulate: true})
	if err != nil {
		return lane.Status{}, err
	}
	status, err := lane.Inspect(s.Body())
	return status, errors.Join(err, s.Close())
}
