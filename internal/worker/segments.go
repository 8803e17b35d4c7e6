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

	// InlineMaxDefault is 64 KiB: about where a second copy costs more than the block's
	// way back.
	InlineMaxDefault = 64 << 10

	// PoolBytesDefault is what one worker has for payloads above InlineMax. It is
	// touched when the run starts, so it is memory really used.
	PoolBytesDefault = 32 << 20
	PoolBytesMax     = 16 << 30

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
	Boards []*shm.Segment // by worker
	Pools  []*shm.Segment // by worker: its own writable, the others read-only
	Out    []*shm.Segment // by peer: the lane to it; nil at itself
	In     []*shm.Segment // by peer: the lane from it; nil at itself
}

// Layout says which segments a run needs. All workers' boards and pools, and a lane for
// every ordered pair.
type Layout struct {
	Workers int
	Board   shm.Config
	Pool    shm.Config
	Lane    shm.Config

	ringBytes int
	classes   []shm.BlockSize
}

// SegmentLayout works out the sizes for a run of so many workers.
func SegmentLayout(workers int, t Tuning) (Layout, error) {
	if workers < 1 || workers > WorkersMax {
		return Layout{}, fmt.Errorf("worker: %d workers, want 1 to %d", workers, WorkersMax)
	}
	if err := t.Validate(); err != nil {
		return Layout{}, err
	}
	classes, err := shm.DefaultBlockSizes(t.PoolBytes, t.InlineMax+1)
	if err != nil {
		return Layout{}, fmt.Errorf("worker: pool: %w", err)
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
		Workers:   workers,
		Board:     shm.Config{Name: "disco-board", Kind: KindBoard, Size: boardBytes},
		Pool:      shm.Config{Name: "disco-pool", Kind: shm.KindPool, Size: poolBytes, HugePages: t.HugePages},
		Lane:      shm.Config{Name: "disco-lane", Kind: KindLane, Size: laneBytes, HugePages: t.HugePages},
		ringBytes: t.RingBytes, classes: classes,
	}, nil
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

// FormatLane prepares a lane's body.
func (p *Layout) FormatLane(body []byte) error {
	return egress.FormatLane(body, p.ringBytes, p.classes)
}

// check reports segments that are not what worker self of so many needs: its own board and
// pool, the lanes over which the plan's links go, the pools of those who send to it, and
// the boards of all, because idle moments are found there.
func (s *Segments) check(plan *node.Plan, self, workers int) error {
	if len(s.Boards) != workers || len(s.Pools) != workers || len(s.Out) != workers || len(s.In) != workers {
		return fmt.Errorf("worker: segments for %d, %d, %d and %d workers, want %d of each", len(s.Boards),
			len(s.Pools), len(s.Out), len(s.In), workers)
	}
	for i := range workers {
		sends, receives := i != self && plan.SendsTo(i), i != self && plan.ReceivesFrom(i)
		switch {
		case s.Boards[i] == nil:
			return fmt.Errorf("worker: the board of worker %d is missing", i)
		case len(s.Boards[i].Body()) < boardBytes:
			return fmt.Errorf("worker: board of %d bytes, want %d", len(s.Boards[i].Body()), boardBytes)
		case s.Pools[i] == nil && (i == self || receives):
			return fmt.Errorf("worker: the pool of worker %d is missing", i)
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

// PoolBytesLeast is the smallest pool for payloads above t.InlineMax: two blocks, of which
// one is read while the next is filled. t has been validated.
func (t *Tuning) PoolBytesLeast() int {
	bytes, err := shm.PoolBytes([]shm.BlockSize{{BlockBytes: t.InlineMax + 1, Count: 2}})
	if err != nil {
		panic(err) // a validated InlineMax is far below the largest block
	}
	return bytes
}
