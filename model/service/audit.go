// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/wire"
)

// audit is what one simproc adds to the proof of Little's law for the system as a
// whole: exact sums, of the checked build only.
type audit struct {
	Area exactSum // integral of the requests in the box and on its edges, request × seconds
	Came exactSum // the times at which requests came into the system
	Left exactSum // the times at which requests left it: completed, or dropped

	books []ledger // of the edges
}

func (a *audit) fields(c *wire.Codec) {
	a.Area.fields(c)
	a.Came.fields(c)
	a.Left.fields(c)
}

// newAudit is nil in the plain build.
func newAudit() *audit {
	if !invariants.Enabled {
		return nil
	}
	return &audit{}
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
	var area, left exactSum // area takes the times of birth too: area = left - came
	for _, p := range append(r.request[:len(r.request):len(r.request)], r.response) {
		invariants.Assert(p.End == r.Horizon, "service: a box closed its account at %v, want the horizon %v", p.End,
			r.Horizon)
		area.plus(&p.Audit.Area)
		area.plus(&p.Audit.Came)
		left.plus(&p.Audit.Left)
	}
	left.add(r.inFlight, r.Horizon)
	invariants.Assert(area.sum.Cmp(&left.sum) == 0,
		"service: Little's law broken for the system, replication %d: integral and births %v, ends %v", r.Index,
		&area.sum, &left.sum)
}
