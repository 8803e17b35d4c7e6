// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"os"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/internal/counters"
	"github.com/disco-sim/disco/internal/idle"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

// Kinds of segments, as their headers say: four letters each.
const (
	KindBoard = shm.Kind('B' | 'O'<<8 | 'R'<<16 | 'D'<<24)
	KindLane  = shm.Kind('L' | 'A'<<8 | 'N'<<16 | 'E'<<24)
	KindInput = shm.Kind('I' | 'N'<<8 | 'P'<<16 | 'T'<<24)
)

// WorkersMax bounds the number of workers: lanes grow with its square.
const WorkersMax = 64

// Defaults of Tuning, and their bounds.
const (
	// RingBytesDefault holds some 12,000 events of 48 bytes of data: enough for a
	// batch of each side to be under way, and small enough for two lanes to stay in a
	// second-level cache of 2 MB.
	RingBytesDefault = 1 << 20
	RingBytesMin     = 1 << 10
	RingBytesMax     = 1 << 30

	// AllRingBytesDefault is what all rings of a run have together, where nobody has said how large each is to be:
	// RingBytesDefault each for up to 4 workers that all send to each other, 4 KiB for 64.
	AllRingBytesDefault = 16 << 20

	// ringBytesLeast holds some 40 events, and inline data of 512 bytes.
	ringBytesLeast = 4 << 10

	// InlineMaxDefault is 64 KiB: about where a second copy costs more than the block's
	// way back.
	InlineMaxDefault = 64 << 10

	// PoolBytesDefault is what one worker may use for payloads above InlineMax. Memory is taken
	// when a block is first needed.
	PoolBytesDefault = 32 << 20

	// AllPoolBytes is what all pools together may have where nobody has said how large each is to be.
	AllPoolBytes = 256 << 20
	PoolBytesMax = 16 << 30

	BatchMaxDefault = 256
	BatchMaxMax     = 1 << 20
)

// DefaultTuning is what a run uses when nothing else is asked for.
func DefaultTuning() Tuning {
	var t Tuning
	if err := t.Validate(); err != nil {
		panic(err)
	}
	return t
}

// Validate fills zero fields with their defaults and refuses what can't be.
func (t *Tuning) Validate() error {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	if t.RingBytes == 0 {
		set(&t.AllRingBytes, AllRingBytesDefault)
	}
	set(&t.RingBytes, RingBytesDefault)
	set(&t.PoolBytes, PoolBytesDefault)
	set(&t.BatchMax, BatchMaxDefault)
	if t.InlineMax == 0 {
		// A record must fit the ring; half of what fits leaves room for a second one.
		t.InlineMax = min(InlineMaxDefault, t.RingBytes/8)
	}
	if t.Ingress == "" {
		t.Ingress = IngressDuty
	}
	if t.Sync == "" {
		t.Sync = SyncLane
	}
	if t.Wait == "" {
		t.Wait = shm.ModeAdaptive.String()
	}
	if err := ring.CheckCapacity(t.RingBytes, RingBytesMin, RingBytesMax); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if t.Resident < 0 {
		return fmt.Errorf("worker: %d bytes for nodes in memory, want 0 (no bound) or more", t.Resident)
	}
	if t.AllRingBytes < 0 {
		return fmt.Errorf("worker: %d bytes for all rings, want 0 (no limit) or more", t.AllRingBytes)
	}
	if t.InlineMax < 1 || t.InlineMax > t.RingBytes/8 {
		return fmt.Errorf("worker: payloads up to %d bytes inside a ring of %d, want 1 to %d, an eighth of it",
			t.InlineMax, t.RingBytes, t.RingBytes/8)
	}
	if t.PoolBytes < 0 || t.PoolBytes > PoolBytesMax {
		return fmt.Errorf("worker: pool of %d bytes, want at most %d", t.PoolBytes, PoolBytesMax)
	}
	if t.BatchMax < 1 || t.BatchMax > BatchMaxMax {
		return fmt.Errorf("worker: batches of %d activations, want 1 to %d", t.BatchMax, BatchMaxMax)
	}
	if t.Ingress != IngressDuty && t.Ingress != IngressGoroutine {
		return fmt.Errorf("worker: ingress %q, want %q or %q", t.Ingress, IngressDuty, IngressGoroutine)
	}
	if t.Sync != SyncLane && t.Sync != SyncLink {
		return fmt.Errorf("worker: sync %q, want %q or %q", t.Sync, SyncLane, SyncLink)
	}
	if _, err := shm.ParseMode(t.Wait); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// Where the ingress runs.
const (
	IngressDuty      = "duty"      // in the worker's own cycle
	IngressGoroutine = "goroutine" // on a thread beside it
)

// What promises are about (docs/sync.md).
const (
	SyncLane = "lane" // everything that a worker sends to another one
	SyncLink = "link" // one link between two simprocs on different workers
)

// A board's body: docs/format/board.md. The doorbell, which peers write, has a page to
// itself; they map the rest for reading only.
const (
	boardBell  = 0
	boardSpare = boardBell + shm.DoorbellBytes
)

var (
	boardSlot     = boardBell + os.Getpagesize()
	boardCounters = boardSlot + idle.SlotBytes
	boardBytes    = boardSlot + 8192
)

// BoardShared is how many bytes at the start of a board's body its worker's peers write.
func BoardShared() int { return boardSlot }

// Segments are the mapped memory that one worker uses. It doesn't own them: who made
// or attached them closes them after Serve has returned.
type Segments struct {
	Input  *Input         // the same for all workers; nobody changes it
	Boards []*shm.Segment // by worker; mirrors of those on other machines
	Pools  []*shm.Segment // by worker: its own writable, the others read-only; nil where none is needed
	Out    []*shm.Segment // by peer: the lane to it; nil where none is needed, as at itself
	In     []*shm.Segment // by peer: the lane from it; likewise
}

// Layout says how large the segments of a run are: every worker has a board, those that send to others a pool, and
// every ordered pair with links from one to the other a lane.
type Layout struct {
	Workers int
	Board   shm.Config
	Pool    shm.Config
	Lane    shm.Config // with the largest ring

	ringBytes int
	classes   []shm.BlockSize
}

// LaneOf is the segment for a lane with a ring of so many bytes.
func (p *Layout) LaneOf(ringBytes int) (shm.Config, error) {
	cfg := p.Lane
	var err error
	cfg.Size, err = egress.LaneBytes(ringBytes, p.classes)
	return cfg, err
}

// SegmentLayout works out the sizes for a run of so many workers.
func SegmentLayout(workers int, t Tuning) (Layout, error) {
	if workers < 1 || workers > WorkersMax {
		return Layout{}, fmt.Errorf("worker: %d workers, want 1 to %d", workers, WorkersMax)
	}
	if err := t.Validate(); err != nil {
		return Layout{}, err
	}
	classes, err := poolSizes(t)
	if err != nil {
		return Layout{}, err
	}
	poolBytes, err := shm.PoolBytes(classes)
	if err != nil {
		return Layout{}, fmt.Errorf("worker: pool: %w", err)
	}
	laneBytes, err := egress.LaneBytes(t.RingBytes, classes)
	if err != nil {
		return Layout{}, fmt.Errorf("worker: %w", err)
	}
	return Layout{
		Workers: workers,
		Board:   shm.Config{Name: "disco-board", Kind: KindBoard, Size: boardBytes},
		Pool: shm.Config{Name: "disco-pool", Kind: shm.KindPool, Size: poolBytes, TakeBytes: shm.PoolHeaderBytes,
			HugePages: t.HugePages},
		Lane: shm.Config{Name: "disco-lane", Kind: KindLane, Size: laneBytes, HugePages: t.HugePages,
			Packed: true},
		ringBytes: t.RingBytes, classes: classes,
	}, nil
}

// poolSizes are the block sizes of every pool of a run.
func poolSizes(t Tuning) ([]shm.BlockSize, error) {
	sizes, err := shm.DefaultBlockSizes(t.PoolBytes, t.InlineMax+1)
	if err != nil {
		return nil, fmt.Errorf("worker: pool: %w", err)
	}
	return sizes, nil
}

// FormatBoard, FormatPool and FormatLane prepare the body of a new segment. The
// launcher calls them before any worker attaches.
func (p *Layout) FormatBoard(body []byte) error {
	if len(body) < boardBytes {
		return fmt.Errorf("worker: board of %d bytes, want %d", len(body), boardBytes)
	}
	return counters.Format(body[boardCounters:boardBytes], counterNames())
}

// FormatPool prepares a pool's body.
func (p *Layout) FormatPool(body []byte) error { return shm.FormatPool(body, p.classes) }

// FormatLane prepares the body of a lane with the largest ring.
func (p *Layout) FormatLane(body []byte) error { return p.FormatLaneOf(body, p.ringBytes) }

// FormatLaneOf prepares the body of a lane with a ring of so many bytes.
func (p *Layout) FormatLaneOf(body []byte, ringBytes int) error {
	return egress.FormatLane(body, ringBytes, p.classes)
}

// check reports segments that are not what worker self of so many needs: its own board, its own
// pool if it sends anything, the lanes over which the plan's links go, the pools of those who send to it, and
// the boards of all, because idle moments are found there.
func (s *Segments) check(plan *node.Plan, setup *Setup) error {
	self, workers := setup.Worker, setup.Workers
	if len(s.Boards) != workers || len(s.Pools) != workers || len(s.Out) != workers || len(s.In) != workers {
		return fmt.Errorf("worker: segments for %d, %d, %d and %d workers, want %d of each", len(s.Boards),
			len(s.Pools), len(s.Out), len(s.In), workers)
	}
	for i := range workers {
		sends, receives := i != self && setup.sends(plan, i), i != self && setup.receives(plan, i)
		switch {
		case s.Boards[i] == nil:
			return fmt.Errorf("worker: the board of worker %d is missing", i)
		case len(s.Boards[i].Body()) < boardBytes:
			return fmt.Errorf("worker: board of %d bytes, want %d", len(s.Boards[i].Body()), boardBytes)
		case s.Pools[i] == nil && receives:
			return fmt.Errorf("worker: the pool of worker %d is missing", i)
		case s.Pools[self] == nil && sends:
			return fmt.Errorf("worker: the pool of worker %d is missing", self)
		case sends && s.Out[i] == nil || receives && s.In[i] == nil:
			return fmt.Errorf("worker: a lane between workers %d and %d is missing", self, i)
		}
	}
	return nil
}

// bell, slot and numbers are the parts of a board.
func bell(board *shm.Segment) []byte { return board.Body()[boardBell : boardBell+shm.DoorbellBytes] }

// spareBell is the cycle's own doorbell where a thread beside it sleeps on the first.
func spareBell(board *shm.Segment) []byte {
	return board.Body()[boardSpare : boardSpare+shm.DoorbellBytes]
}
func slot(board *shm.Segment) []byte { return board.Body()[boardSlot : boardSlot+idle.SlotBytes] }
func numbers(board *shm.Segment) []byte {
	return board.Body()[boardCounters:boardBytes]
}

// SharePools sets the pools of a run of so many workers where nobody has said how large they are to be. t has been
// validated.
func (t *Tuning) SharePools(workers int) {
	t.PoolBytes = min(PoolBytesDefault, max(AllPoolBytes/workers, t.PoolBytesLeast()))
}

// RingBytesLeast is the smallest ring that a lane gets, bytes; t has been validated.
func (t *Tuning) RingBytesLeast() int { return min(ringBytesLeast, t.RingBytes) }

// PoolBytesLeast is the smallest pool for payloads above t.InlineMax: two blocks, of which
// one is read while the next is filled. t has been validated.
func (t *Tuning) PoolBytesLeast() int {
	bytes, err := shm.PoolBytes([]shm.BlockSize{{BlockBytes: t.InlineMax + 1, Count: 2}})
	if err != nil {
		panic(err) // a validated InlineMax is far below the largest block
	}
	return bytes
}
