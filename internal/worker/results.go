// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"sync"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/node"
)

// Results are those of some of a worker's simprocs, in columns. They come in the order of the simprocs' ids, before
// Done: a worker doesn't hold all of them at once, and the launcher files the first while others are made.
type Results struct {
	Simprocs []uint32 // rising
	Hashes   []uint64 // trace hash of each
	Sizes    []uint32 // 1 + bytes of the report of each; 0: its handler has no results
	Data     []byte   // the reports, one behind the other

	frame []byte // what Data is part of, where it was read
}

// unused is memory of Results for the next ones that are read: at the end of a run as many come as it has nodes, and
// fresh memory takes the system longer to give than it takes to read them.
var unused = sync.Pool{New: func() any { return &Results{} }}

// Release gives up what was read: nothing of p may be used any more.
func (p *Results) Release() {
	if p.frame != nil && cap(p.frame) <= frameStep { // else it is somebody else's, or of one large report
		unused.Put(p)
	}
}

// resultsBytes is how large they become before they are sent.
const resultsBytes = 128 << 10

// add appends the results of one simproc; a nil report is none.
func (p *Results) add(id node.SimprocID, hash uint64, report []byte) {
	size := uint32(0)
	if report != nil {
		size = uint32(len(report)) + 1
	}
	p.Simprocs, p.Hashes = append(p.Simprocs, uint32(id)), append(p.Hashes, hash)
	p.Sizes, p.Data = append(p.Sizes, size), append(p.Data, report...)
}

// bytes is what p takes in a frame. p may be nil.
func (p *Results) bytes() int {
	if p == nil {
		return 0
	}
	return 16*len(p.Simprocs) + len(p.Data)
}

func (p *Results) clear() {
	p.Simprocs, p.Hashes, p.Sizes, p.Data = p.Simprocs[:0], p.Hashes[:0], p.Sizes[:0], p.Data[:0]
}

// fields checks what a reader relies on: three lists of one length, ids that rise, and just the bytes that the reports
// have.
func (p *Results) fields(c *wire.Codec) {
	wire.Uint32s(c, &p.Simprocs)
	wire.Uint64s(c, &p.Hashes)
	wire.Uint32s(c, &p.Sizes)
	c.Bytes(&p.Data)
	if !c.Decoding() {
		return
	}
	if n := len(p.Simprocs); len(p.Hashes) != n || len(p.Sizes) != n {
		c.Fail("found %d simprocs with %d hashes and %d reports, want as many of each", n, len(p.Hashes),
			len(p.Sizes))
		return
	}
	next, bytes := uint64(0), uint64(0) // least id that may follow; of the reports so far
	for i, id := range p.Simprocs {
		if uint64(id) < next {
			c.Fail("found the results of simproc %d, want those of %d or a later one", id, next)
			return
		}
		next = uint64(id) + 1
		bytes += uint64(max(p.Sizes[i], 1) - 1)
	}
	if bytes != uint64(len(p.Data)) {
		c.Fail("found %d bytes for reports that have %d", len(p.Data), bytes)
	}
}

// Each calls yield for each simproc: report is nil where there is none, and part of Data otherwise. p was decoded.
func (p *Results) Each(yield func(simproc uint32, hash uint64, report []byte) error) error {
	rest := p.Data
	for i, id := range p.Simprocs {
		var report []byte
		if n := p.Sizes[i]; n > 0 {
			report, rest = rest[:n-1:n-1], rest[n-1:]
		}
		if err := yield(id, p.Hashes[i], report); err != nil {
			return err
		}
	}
	return nil
}
