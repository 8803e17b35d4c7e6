// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"bytes"
	"fmt"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// soFar is what engines report at the end of a leg, behind which they go on; nil: they aren't asked.
type soFar struct {
	reports [][]byte // by simproc
	hashes  []uint64
}

func newSoFar(s scenario.Scenario) *soFar {
	n := s.Graph().NumSimprocs()
	return &soFar{make([][]byte, n), make([]uint64, n)}
}

// file is what an Engine yields.
func (r *soFar) file(id node.SimprocID, hash uint64, report []byte) error {
	r.reports[id], r.hashes[id] = bytes.Clone(report), hash
	return nil
}

func (r *soFar) take(c *engines, end float64) error {
	if r == nil {
		return nil
	}
	for _, e := range c.engines {
		if err := e.EachReportSoFar(end, r.file); err != nil {
			return err
		}
	}
	return nil
}

// differs compares with an engine that begins with what was saved there, and ends at once.
func (r *soFar) differs(s scenario.Scenario, seed uint64, at *saved) error {
	if r == nil {
		return nil
	}
	c, err := begin(s, &Config{Seed: seed}, at.resume())
	if err != nil {
		return err
	}
	ended := newSoFar(s)
	if err := c.engines[0].EachReport(at.end, ended.file); err != nil {
		return err
	}
	for id := range r.reports {
		if r.hashes[id] != ended.hashes[id] || !bytes.Equal(r.reports[id], ended.reports[id]) {
			return fmt.Errorf("%s reports something else at %v when it is to go on than when it ends: %x, want %x",
				s.Graph().Name(node.SimprocID(id)), at.end, r.reports[id], ended.reports[id])
		}
	}
	return nil
}
