// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/shm"
)

// Expectation is what is known beforehand of a run over a number of workers.
type Expectation struct {
	Placement *partition.Partition
	Memory    []Piece // of this process and its workers together
	Available int64   // of memory, on this machine
}

// Piece is a piece of the memory that a run takes.
type Piece struct {
	What  string
	Bytes float64
}

// Expect is what a run over so many workers of this machine would be, as if that many could run at once. It is asked
// for before Run, changes nothing, and refuses nothing for want of memory.
func (l *Launch) Expect(workers int) (*Expectation, error) {
	c := *l
	c.cfg.Workers, c.cfg.Processors, c.cfg.Machines = workers, workers, nil
	c.cfg.Tuning.SharePools(workers)
	if err := c.place(l.structure); err != nil {
		return nil, err
	}
	segments, _, err := c.plan.Needs(0, !c.shared())
	if err != nil {
		return nil, &configError{err}
	}
	f := l.footprint
	f.sets, f.workers = 1, c.placement.Workers
	f.blocks = inBlocks(&c.cfg, f.workers, int(f.links))
	input := 0
	if c.shared() {
		input = c.input.Segment().Size
	}
	e := &Expectation{Placement: c.placement, Available: shm.AvailableBytes()}
	for _, n := range f.needs(true, input, segments) {
		e.Memory = append(e.Memory, Piece{n.what, n.bytes})
	}
	return e, nil
}
