// SPDX-License-Identifier: Apache-2.0

package node

import "fmt"

// EachReportSoFar yields what EachReport would if the run ended here, at the end of a leg, and changes nothing: the run
// can go on. A handler's Report may close what it has, and is called once; so copies report, which are made as at a
// checkpoint: what a handler saves is loaded into one that the model makes anew, and that is thrown away. Only one
// node's copies are there at a time. The error is a *NoStateError, or another one, where a handler can't be saved; it
// has changed nothing either.
func (e *Engine) EachReportSoFar(reached float64, yield func(id SimprocID, hash uint64, report []byte) error) error {
	if err := e.betweenLegs(); err != nil {
		return err
	}
	copies := make([]Simproc, len(e.plan.layers))
	var saved []byte
	for _, n := range e.plan.nodesOn(e.plan.self) {
		var err error
		if saved, err = e.copyNode(copies, saved, int(n)); err != nil {
			return fmt.Errorf("node: results so far: %w", err)
		}
		for r := range copies {
			if err := e.reportOf(&copies[r], reached, yield); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyNode makes copies of the simprocs of a node that this worker hosts. Whether they can be saved is asked of the
// copies, because who is asked may behave in another way from then on. memory is used for what is saved, and returned.
func (e *Engine) copyNode(copies []Simproc, memory []byte, n int) (_ []byte, err error) {
	for r := range copies {
		c := &copies[r]
		if e.isPassive(n) {
			*c = e.bare(n, r)
		} else {
			*c = *e.simproc(n, r)
			c.handler = nil
		}
		if err := e.makeHandler(c); err != nil {
			return memory, err
		}
		if err := c.checkState(); err != nil {
			return memory, err
		}
	}
	if memory, err = e.AppendNode(memory[:0], n); err != nil {
		return memory, err
	}
	return memory, e.loadNode(copies, memory)
}
