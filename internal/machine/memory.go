// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/shm"
)

// Config says how Make makes the segments.
type Config struct {
	// Input is what every worker process reads: the segment that worker.Input.Segment describes, which several sets may
	// share. It stays the caller's.
	Input *shm.Segment

	// Heap is the same for workers that are goroutines of this process. Not nil: they are, and all memory is on the
	// heap.
	Heap *worker.Input

	// Proceed is called between two segments, since pages are taken as they are made, which may take a while. Its error
	// ends Make.
	Proceed func() error
}

// Memory is all segments of a set of workers on one machine. It is made and formatted before any worker starts, and
// owned by who made it. One goroutine uses it.
type Memory struct {
	plan    Plan
	self    int // the machine
	cfg     Config
	layout  worker.Layout
	all     []*shm.Segment      // that were made, each once
	boards  []*shm.Segment      // by worker: its board, or the mirror of one that is elsewhere
	pools   []*shm.Segment      // by worker: its pool, or the bridge's that stands for it; nil where none is needed
	lanes   [][]*shm.Segment    // [from][to]; nil where there is none
	starter *workerproc.Starter // nil until a process is started
}

// Make makes the segments that machine self has of the plan. That of the input is the caller's.
func Make(p Plan, self int, cfg Config) (*Memory, error) {
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("machine: plan: %w", err)
	}
	layout, err := worker.SegmentLayout(p.Workers(), p.Tuning)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	m := &Memory{plan: p, self: self, cfg: cfg, layout: layout}
	if err := m.make(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// mirrorPrefix begins the names of mirrors: who looks for a run's workers on this machine finds boards only.
const mirrorPrefix = "mirror-"

func (m *Memory) make() (err error) {
	n := m.plan.Workers()
	m.boards, m.pools, m.lanes = make([]*shm.Segment, n), make([]*shm.Segment, n), make([][]*shm.Segment, n)
	for w := range n {
		named := m.layout.Board
		named.Name = inspect.BoardName(m.plan.First + w)
		if !m.plan.here(m.self, w) {
			named.Name = mirrorPrefix + strconv.Itoa(m.plan.First+w)
		}
		if m.boards[w], err = m.segment(named, m.layout.FormatBoard); err != nil {
			return err
		}
		if of := m.plan.poolOf(m.self, w); of == w {
			if m.pools[w], err = m.segment(m.layout.Pool, m.layout.FormatPool); err != nil {
				return err
			}
		} else if of >= 0 {
			m.pools[w] = m.pools[of]
		}
		if err := m.makeLanes(w); err != nil {
			return err
		}
	}
	return nil
}

// makeLanes makes the lanes from one worker.
func (m *Memory) makeLanes(from int) error {
	m.lanes[from] = make([]*shm.Segment, m.plan.Workers())
	for to, ring := range m.plan.Rings[from] {
		if !m.plan.hasLane(m.self, from, to) {
			continue
		}
		if err := m.cfg.Proceed(); err != nil {
			return err
		}
		cfg, err := m.layout.LaneOf(ring)
		if err != nil {
			return fmt.Errorf("machine: %w", err)
		}
		cfg.Name = inspect.LaneName(m.plan.First+from, m.plan.First+to)
		m.lanes[from][to], err = m.segment(cfg, func(body []byte) error { return m.layout.FormatLaneOf(body, ring) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) segment(cfg shm.Config, format func([]byte) error) (*shm.Segment, error) {
	create := shm.Create
	if m.cfg.Heap != nil {
		create = shm.Heap
	}
	s, err := create(cfg)
	if err != nil {
		return nil, fmt.Errorf("machine: segment %s of %d bytes: %w", cfg.Name, cfg.Size, err)
	}
	if err := format(s.Body()); err != nil {
		s.Close()
		return nil, fmt.Errorf("machine: segment %s: %w", cfg.Name, err)
	}
	m.all = append(m.all, s)
	return s, nil
}

// Boards are the boards of all workers, mirrors among them. They stay m's.
func (m *Memory) Boards() []*shm.Segment { return m.boards }

// Lane is the lane between two workers, of whom one is here; nil: there is none. It stays m's, as Pool's does.
func (m *Memory) Lane(from, to int) *shm.Segment { return m.lanes[from][to] }

// Pool is the pool in which this machine finds what a worker sends: its own, or the bridge's that stands for it; nil:
// none is needed.
func (m *Memory) Pool(worker int) *shm.Segment { return m.pools[worker] }

// Pages is the remark about which pages pools and lanes are in, where huge ones were asked for.
func (m *Memory) Pages() string {
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

// files lists what a worker process is handed, in the order in which attached takes it: the input, all boards, the
// pools that it needs, its lanes to the peers, the lanes from them.
func (m *Memory) files(self int) []*os.File {
	files := []*os.File{m.cfg.Input.File()}
	for _, s := range m.boards {
		files = append(files, s.File())
	}
	listed := worker.Setup{Worker: self}
	m.plan.List(&listed)
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
func (m *Memory) segments(self int) worker.Segments {
	in := make([]*shm.Segment, m.plan.Workers())
	for peer := range in {
		in[peer] = m.lanes[peer][self]
	}
	return worker.Segments{Input: m.cfg.Heap, Boards: m.boards, Pools: m.pools, Out: m.lanes[self], In: in}
}

// Release gives up what only the workers need, once they have attached: boards stay, to show progress, and the files
// of the lanes, for a post-mortem. Lanes aren't kept mapped: a system that is out of memory would take this process for
// the largest one. Heap segments stay: the workers use these very ones. So does what a bridge uses: lanes to and from
// other machines, with their pools.
func (m *Memory) Release() {
	if m.cfg.Heap != nil {
		return
	}
	bridges := map[*shm.Segment]bool{}
	for from, row := range m.lanes {
		for to, s := range row {
			if s == nil {
				continue
			}
			if m.plan.Machine[from] != m.plan.Machine[to] {
				bridges[m.pools[from]] = true
				continue
			}
			_ = s.Unmap() // an error leaves nothing to be done: the mapping goes with the process
		}
	}
	for _, pool := range m.pools {
		if pool != nil && !bridges[pool] {
			_ = pool.Close() // likewise
		}
	}
}

// Close frees everything. All workers have ended, and none of this process uses its segments any more.
func (m *Memory) Close() error {
	if m.starter != nil {
		m.starter.Close()
		m.starter = nil
	}
	err := closeAll(m.all)
	m.all, m.boards, m.pools, m.lanes = nil, nil, nil, nil
	return err
}

// InspectLane reads the status of a lane that there is, which this process may have mapped no longer.
func (m *Memory) InspectLane(from, to int) (lane.Status, error) {
	if body := m.lanes[from][to].Body(); body != nil {
		return lane.Inspect(body)
	}
	cfg, err := m.layout.LaneOf(m.plan.Rings[from][to])
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
