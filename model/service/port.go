// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math/rand/v2"

	"github.com/disco-sim/disco/node"
)

// simproc is what a box needs of its simproc while the run lasts. *node.Simproc is
// one; the tests have a simple reference, so that boxes can be tried without an engine.
type simproc interface {
	Now() float64
	Send(l node.LinkID, epoch float64, data []byte) error
	Schedule(epoch float64, data []byte) error
	Wakeup(epoch float64) error
	Recording() bool
	Record(r node.Row)
}

// host is what a box needs of its simproc at wiring time.
type host interface {
	ID() node.SimprocID
	Horizon() float64
	Seed(stream string) (high, low uint64)
	LinkTo(e node.Endpoint) (node.LinkID, error)
}

// streamOf is a random stream of the host's. What draws millions of numbers has it inline (sampler).
func streamOf(h host, stream string) *rand.PCG { return rand.NewPCG(h.Seed(stream)) }

// logic is what one simproc does: a box, or one side of it. Handle and Report are for the
// engine, the other two are the same for a simproc of any kind.
type logic interface {
	node.Handler
	node.Reporter

	// handle takes all events of the epoch p.Now().
	handle(p simproc, events []node.Event) error

	// report closes the accounts at end, the time up to which its work is
	// done, and puts them into r. Nothing is handled afterwards.
	report(end float64, r *reporter)
}

// reportOn is Report of a logic.
func reportOn(l logic, p *node.Simproc, r *reporter) ([]byte, error) {
	l.report(p.Now(), r)
	return r.encode()
}

// reporter is memory in which boxes make their reports, one after the other: a run may have a million of them at its
// end, and a garbage collector that goes over all boxes then would take as long as the reports.
type reporter struct {
	boxReport              // what was reported last; it leads to memory of the box, too
	server    serverReport // memory for boxReport.Server
	edges     []edgeReport // memory for boxReport.Edges
	text      []byte       // the report that was encoded last
}

// encode encodes the report. The bytes stay as they are until the next one is encoded.
func (r *reporter) encode() (text []byte, err error) {
	if r.text, err = r.appendTo(r.text[:0]); err != nil {
		return nil, err
	}
	return r.text, nil
}

// idle stands where a node has nothing to do in a layer.
type idle struct{}

// Handle is called once, at epoch 0.
func (idle) Handle(*node.Simproc, []node.Event) error { return nil }
