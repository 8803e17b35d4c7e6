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
	seen    []bool                // a worker has reported it
	reports [][]byte              // nil where pass is there
	pass    func(*worker.Results) // takes them, and releases their memory; nil: they are kept
}

// newCollection collects what is to be merged when all of it is there; with pass, what goes on as it comes.
func newCollection(of structure, pass func(*worker.Results)) *collection {
	n := of.NumSimprocs()
	c := &collection{of: of, hashes: make([]uint64, n), seen: make([]bool, n), pass: pass}
	if pass == nil {
		c.reports = make([][]byte, n)
	}
	return c
}

// add files results. Every simproc must be there exactly once: anything else is the worker's fault, which the error
// names.
func (c *collection) add(p *worker.Results) error {
	if len(p.Simprocs) == 0 {
		return nil // of a worker that hosts nothing
	}
	err := p.Each(func(id uint32, hash uint64, report []byte) error {
		if int(id) >= len(c.seen) {
			return fmt.Errorf("it reports about simproc %d, but there are %d", id, len(c.seen))
		}
		if c.seen[id] {
			return fmt.Errorf("it reports the trace hash of %s, which was reported before",
				c.of.Name(node.SimprocID(id)))
		}
		c.seen[id], c.hashes[id] = true, hash
		if c.pass == nil {
			c.reports[id] = report
		}
		return nil
	})
	if err == nil && c.pass != nil {
		c.pass(p)
	}
	return err
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
