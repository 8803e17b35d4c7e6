// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
)

// collection is what the workers of a set report of one replication, by simproc. It is filled as they come.
type collection struct {
	of      structure
	hashes  []uint64
	seen    []bool // a worker has reported it
	reports [][]byte
}

func newCollection(of structure) *collection {
	n := of.NumSimprocs()
	return &collection{of: of, hashes: make([]uint64, n), seen: make([]bool, n), reports: make([][]byte, n)}
}

// add files results. Every simproc must be there exactly once: anything else is the worker's fault, which the error
// names.
func (c *collection) add(p *worker.Results) error {
	if len(p.Simprocs) == 0 {
		return nil // of a worker that hosts nothing
	}
	return p.Each(func(id uint32, hash uint64, report []byte) error {
		if int(id) >= len(c.seen) {
			return fmt.Errorf("it reports about simproc %d, but there are %d", id, len(c.seen))
		}
		if c.seen[id] {
			return fmt.Errorf("it reports the trace hash of %s, which was reported before",
				c.of.Name(node.SimprocID(id)))
		}
		c.seen[id], c.hashes[id], c.reports[id] = true, hash, report
		return nil
	})
}

// traceHash puts the simprocs' own hashes together in the order of their ids. Each of them covers all that its simproc
// handled, in order; so the result covers the replication's whole trace and doesn't depend on the placement.
func (c *collection) traceHash() ([]byte, error) {
	sum := sha256.New()
	words := make([]byte, 0, 4096)
	for id, h := range c.hashes {
		if !c.seen[id] {
			return nil, fmt.Errorf("launch: no worker reports the trace hash of %s", c.of.Name(node.SimprocID(id)))
		}
		if words = binary.LittleEndian.AppendUint64(words, h); len(words) == cap(words) {
			sum.Write(words)
			words = words[:0]
		}
	}
	sum.Write(words)
	return sum.Sum(nil)[:hashBytes], nil
}
