// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/state"
)

// audit is what one simproc adds to the proof of Little's law for the system as a
// whole: exact sums, of the checked build only.
type audit struct {
	Area exactSum // integral of the requests in the box and on its edges, request × seconds
	Came exactSum // the times at which requests came into the system
	Left exactSum // the times at which requests left it: completed, or dropped

	books  []ledger // of the edges
	server *serverAudit
}

func (a *audit) fields(c *wire.Codec) {
	a.Area.fields(c)
	a.Came.fields(c)
	a.Left.fields(c)
}

func (a *audit) state(c *state.Codec) {
	a.Area.state(c)
	a.Came.state(c)
	a.Left.state(c)
	for i := range a.books {
		a.books[i].state(c)
	}
}

// forget begins the proof anew: so many requests came now.
func (a *audit) forget(now float64, there int64) {
	a.Came, a.Left = exactSum{}, exactSum{}
	a.Came.add(there, now)
}

// newAudit is nil in the plain build.
func newAudit() *audit {
	if !invariants.Enabled {
		return nil
	}
	return &audit{}
}

// systemProof is what the boxes of one replication add to the proof.
type systemProof struct {
	area, left exactSum // area takes the times of birth too: area = left - came
}

// add adds one box of a replication that has reached its horizon.
func (s *systemProof) add(r *run, p *boxReport) {
	if r.Reached != r.Horizon || p.Audit == nil {
		return
	}
	invariants.Assert(p.End == r.Horizon, "service: a box closed its account at %v, want the horizon %v", p.End,
		r.Horizon)
	s.area.plus(&p.Audit.Area)
	s.area.plus(&p.Audit.Came)
	s.left.plus(&p.Audit.Left)
}

// checkSystem asserts Little's law over the whole system of one replication that
// reached its horizon: the integrals of how many requests are in each box and on each
// edge add up to the time that requests spend between their birth and their end,
// those still in flight counted up to the horizon. The first side contains no request's
// birth, the second no box: a request that is for any time in two places or in none
// breaks it.
func (r *run) checkSystem() {
	if r.Reached != r.Horizon || r.response.Audit == nil {
		return
	}
	s := &r.proof
	s.left.add(r.inFlight, r.Horizon)
	invariants.Assert(s.area.sum.Cmp(&s.left.sum) == 0,
		"service: Little's law broken for the system, replication %d: integral and births %v, ends %v", r.Index,
		&s.area.sum, &s.left.sum)
}
