// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/ring"
)

// Bounds of a plan.
const (
	// MachinesMax bounds the machines of a run.
	MachinesMax = 64

	WindowMin = 16 << 10 // bytes of a lane's window
	WindowMax = 1 << 30

	firstMax = 1 << 30
	inputMax = 1 << 40
	heapMax  = 1 << 50
)

// planVersion is the version of a plan's encoding.
const planVersion = 2

// Plan says on which machines the workers of a set are, and which lanes they have: docs/format/plan.md. It is the same
// for all machines, each of which makes its part. Nobody changes one that Make has.
type Plan struct {
	First      int     // number in the run of worker 0 of the set, for names
	InputBytes int     // of the body of the segment that all workers read; 0: it is none
	Machine    []int32 // of each worker; never falling
	Rings      [][]int // [from][to]: bytes of the lane's ring, 0: no lane
	Windows    [][]int // [from][to]: bytes that may be under way between two machines, 0: the lane stays on one
	Tuning     worker.Tuning

	// Heap is what each worker is expected to take beside segments, in bytes; empty: it isn't known.
	Heap []int
}

// Expect says what each worker is expected to take beside segments.
func (p *Plan) Expect(bytes []float64) {
	p.Heap = make([]int, len(bytes))
	for w, b := range bytes {
		p.Heap[w] = int(min(b, heapMax))
	}
}

// NewPlan is the plan for workers on these machines, who are expected to send each other traffic (partition.Traffic):
// in rings, and where they are on different machines in windows of which each machine has windowBytes in all. t has
// been validated.
func NewPlan(machine []int32, traffic [][]float64, t worker.Tuning, windowBytes int) Plan {
	return Plan{Machine: machine, Rings: ringSizes(traffic, &t), Windows: windowSizes(machine, traffic, windowBytes),
		Tuning: t}
}

// Workers is how many there are.
func (p *Plan) Workers() int { return len(p.Machine) }

// Others is how many other machines than self have workers of the set: for each, the bridge there has a pump.
func (p *Plan) Others(self int) (others int) {
	last := int32(-1)
	for _, m := range p.Machine {
		if m != last && int(m) != self {
			others++
		}
		last = m
	}
	return others
}

// BridgeThreads is how many threads of self's bridge work at the same time as its workers, for each other machine two:
// the pump, and whoever receives. With the second one counted, PHOLD with short lookaheads over two machines of one
// worker, all on two processors, does 1.4 times as many events a second (median of 5 runs in turn, 1.2 to 3.4).
func (p *Plan) BridgeThreads(self int) int { return 2 * p.Others(self) }

// Append appends the encoded plan to b. p must pass Check.
func (p *Plan) Append(b []byte) ([]byte, error) { return wire.Append(b, p.fields) }

// ParsePlan reads what Append has written, and takes any bytes.
func ParsePlan(b []byte) (Plan, error) {
	var p Plan
	err := wire.Decode(b, p.fields)
	if err == nil && p.InputBytes < 1 {
		err = fmt.Errorf("input of %d bytes, want 1 to %d", p.InputBytes, inputMax)
	}
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return Plan{}, fmt.Errorf("machine: plan of %d bytes: %w", len(b), err)
	}
	return p, nil
}

// planLane is a lane of an encoded plan.
type planLane struct {
	from, to     int32
	ring, window int
}

func (p *Plan) fields(c *wire.Codec) {
	version := uint32(planVersion)
	if c.Uint32(&version); version != planVersion {
		c.Fail("found version %d, want %d: both machines need the same build", version, planVersion)
	}
	c.Int(&p.First)
	c.Int(&p.InputBytes)
	p.Tuning.Fields(c)
	wire.List(c, &p.Machine, 4, c.Int32)
	wire.List(c, &p.Heap, 8, c.Int)
	lanes := p.lanes()
	wire.List(c, &lanes, 24, func(l *planLane) {
		c.Int32(&l.from)
		c.Int32(&l.to)
		c.Int(&l.ring)
		c.Int(&l.window)
	})
	if !c.Decoding() {
		return
	}
	n := len(p.Machine)
	if n > worker.WorkersMax {
		c.Fail("found %d workers, want 1 to %d", n, worker.WorkersMax)
		return
	}
	p.Rings, p.Windows = square(n), square(n)
	next := 0
	for i, l := range lanes {
		pair := int(l.from)*n + int(l.to)
		if l.from < 0 || l.to < 0 || int(l.from) >= n || int(l.to) >= n || pair < next || l.ring == 0 {
			c.Fail("found as lane %d one of %d bytes from worker %d to %d, want pairs of 0 to %d that rise, with a "+
				"ring", i, l.ring, l.from, l.to, n-1)
			return
		}
		next = pair + 1
		p.Rings[l.from][l.to], p.Windows[l.from][l.to] = l.ring, l.window
	}
}

func square(n int) [][]int {
	rows := make([][]int, n)
	for i := range rows {
		rows[i] = make([]int, n)
	}
	return rows
}

// lanes lists the lanes, in the order of their pairs.
func (p *Plan) lanes() (lanes []planLane) {
	for from, row := range p.Rings {
		for to, ring := range row {
			if ring != 0 {
				lanes = append(lanes, planLane{int32(from), int32(to), ring, p.Windows[from][to]})
			}
		}
	}
	return lanes
}

// Check refuses a plan that no launcher makes.
func (p *Plan) Check() error {
	n := len(p.Machine)
	tuning := p.Tuning
	switch err := tuning.Validate(); {
	case err != nil:
		return err
	case tuning != p.Tuning:
		return fmt.Errorf("tuning %+v with fields left out, want %+v", p.Tuning, tuning)
	case tuning.PoolBytes < tuning.PoolBytesLeast():
		return fmt.Errorf("pools of %d bytes, want at least %d: two blocks", tuning.PoolBytes, tuning.PoolBytesLeast())
	case p.First < 0 || p.First > firstMax:
		return fmt.Errorf("worker 0 of the set is number %d, want 0 to %d", p.First, firstMax)
	case p.InputBytes < 0 || p.InputBytes > inputMax:
		return fmt.Errorf("input of %d bytes, want 0 to %d", p.InputBytes, inputMax)
	case n < 1 || n > worker.WorkersMax:
		return fmt.Errorf("%d workers, want 1 to %d", n, worker.WorkersMax)
	case len(p.Heap) != 0 && len(p.Heap) != n:
		return fmt.Errorf("memory of %d workers, want that of %d or of none", len(p.Heap), n)
	case len(p.Rings) != n || len(p.Windows) != n:
		return fmt.Errorf("rings of %d and windows of %d workers, want %d of each", len(p.Rings), len(p.Windows), n)
	}
	least := int32(0)
	for w, m := range p.Machine {
		if m < least || m >= MachinesMax {
			return fmt.Errorf("worker %d is on machine %d, want %d to %d: workers are numbered machine by machine",
				w, m, least, MachinesMax-1)
		}
		least = m
	}
	for w, bytes := range p.Heap {
		if bytes < 0 || bytes > heapMax {
			return fmt.Errorf("worker %d is expected to take %d bytes, want 0 to %d", w, bytes, heapMax)
		}
	}
	for from := range n {
		if err := p.checkLanes(from); err != nil {
			return err
		}
	}
	return nil
}

// checkLanes refuses wrong lanes from one worker.
func (p *Plan) checkLanes(from int) error {
	if len(p.Rings[from]) != p.Workers() || len(p.Windows[from]) != p.Workers() {
		return fmt.Errorf("rings to %d and windows to %d workers from worker %d, want %d of each", len(p.Rings[from]),
			len(p.Windows[from]), from, p.Workers())
	}
	for to, bytes := range p.Rings[from] {
		window, crosses := p.Windows[from][to], p.Machine[from] != p.Machine[to]
		switch {
		case bytes == 0 && window == 0:
		case from == to:
			return fmt.Errorf("worker %d has a lane to itself", from)
		case window == 0 && (crosses || bytes == 0), window != 0 && (!crosses || bytes == 0),
			window != 0 && (window < WindowMin || window > WindowMax):
			return fmt.Errorf("the lane from worker %d to %d has a ring of %d bytes and a window of %d, want %d to %d "+
				"for a lane between two machines, 0 for others", from, to, bytes, window, WindowMin, WindowMax)
		default:
			if err := ring.CheckCapacity(bytes, worker.RingBytesMin, p.Tuning.RingBytes); err != nil {
				return fmt.Errorf("the lane from worker %d to %d: %w", from, to, err)
			}
		}
	}
	return nil
}

// here reports whether a worker is on machine self.
func (p *Plan) here(self, w int) bool { return int(p.Machine[w]) == self }

// hasLane reports whether machine self has an end of the lane between two workers.
func (p *Plan) hasLane(self, from, to int) bool {
	return p.Rings[from][to] > 0 && (p.here(self, from) || p.here(self, to))
}

// poolOf is the worker in whose name machine self makes the pool in which it finds what w sends: w itself on its own
// machine, elsewhere the first one there that sends to self, because a bridge has one pool for each machine. -1: none
// is needed.
func (p *Plan) poolOf(self, w int) int {
	for v := range w + 1 {
		if p.Machine[v] != p.Machine[w] || p.here(self, w) && v < w {
			continue
		}
		for to := range p.Rings {
			if p.hasLane(self, v, to) {
				return v
			}
		}
	}
	return -1
}

// Needs is how many bytes the segments of machine self take when they are made, and how many there are, without the
// input. Pools between processes take theirs when it is needed, and ask before they do; those on the heap of one
// process are counted in full, because the Go heap doesn't ask.
func (p *Plan) Needs(self int, heap bool) (bytes, segments int, err error) {
	layout, err := worker.SegmentLayout(p.Workers(), p.Tuning)
	if err != nil {
		return 0, 0, err
	}
	pool := layout.Pool.Size
	if !heap && !layout.Pool.HugePages {
		pool = layout.Pool.TakeBytes
	}
	for from, row := range p.Rings {
		bytes, segments = bytes+layout.Board.Size, segments+1
		if p.poolOf(self, from) == from {
			bytes, segments = bytes+pool, segments+1
		}
		for to, ring := range row {
			if p.hasLane(self, from, to) {
				cfg, e := layout.LaneOf(ring)
				bytes, segments, err = bytes+cfg.Size, segments+1, errors.Join(err, e)
			}
		}
	}
	return bytes, segments, err
}

// List puts into a worker's Setup which segments it is handed, and which workers are on other machines.
func (p *Plan) List(setup *worker.Setup) {
	self := setup.Worker
	if p.Machine[0] != p.Machine[p.Workers()-1] {
		setup.Machine = p.Machine
	}
	for w := range p.Workers() {
		if w == self && p.poolOf(int(p.Machine[self]), w) == w || p.Rings[w][self] > 0 {
			setup.Pools = append(setup.Pools, int32(w))
		}
		if ring := p.Rings[self][w]; ring > 0 {
			setup.Out = append(setup.Out, worker.LaneSize{Peer: int32(w), RingBytes: ring})
		}
		if ring := p.Rings[w][self]; ring > 0 {
			setup.In = append(setup.In, worker.LaneSize{Peer: int32(w), RingBytes: ring})
		}
	}
}
