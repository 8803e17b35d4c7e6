// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"time"

	"github.com/disco-sim/disco/internal/circuit"
)

// What is tried again by itself is bounded: a tenth of what begins, and as many in retriesIn as Rules.Retries, or a
// tenth of all servers where that is more, so that what one of ten machines had can be tried elsewhere at once.
const (
	retriesShare = 0.1
	retriesIn    = 10 * time.Second
)

// retries are the pieces that wait for a token of the budget, by their users, who are served in turn.
type retries struct {
	budget circuit.Budget
	users  []string
	lines  map[string][]*piece
	said   string // to those who wait
}

// retried tells whether another attempt at a piece that waits is one that nobody has asked for: the last one has
// failed, or was refused.
func (p *piece) retried() bool {
	return p.Error != nil && (p.Error.isSpared() || p.Attempt > p.Spared)
}

// inherit takes over the budget of an earlier state of the same leader, which has read everything anew.
func (s *State) inherit(before *State) {
	if before != nil {
		s.retries.budget = before.retries.budget
	}
}

// fit has the budget be as large as the fleet wants it.
func (r *retries) fit(least, servers int) {
	most := max(least, int(retriesShare*float64(servers)))
	r.budget.Share, r.budget.Most, r.budget.Each = retriesShare, float64(most), retriesIn/time.Duration(most)
	r.said = fmt.Sprintf("what has failed waits to be tried again: at most %d are in %v, and one for each ten that "+
		"begin", most, retriesIn)
}

// pay takes a token for a piece that is to be tried again, or puts it into the line of those that wait for one.
func (s *State) pay(p *piece) bool {
	r := &s.retries
	if p.paid {
		return true
	}
	r.fit(s.rules.Retries, s.present)
	if len(r.users) == 0 && r.budget.Take(s.now) {
		p.paid = true
		return true
	}
	if e := p.step.experiment; !p.inLine {
		p.inLine = true
		if r.lines == nil {
			r.lines = map[string][]*piece{}
		}
		if len(r.lines[e.User]) == 0 {
			r.users = append(r.users, e.User)
		}
		r.lines[e.User] = append(r.lines[e.User], p)
		if e.reason == "" {
			e.reason = r.said
			s.touch(e)
		}
	}
	s.at(s.now+r.budget.Wait(s.now), deadline{})
	return false
}

// serve gives tokens to those who wait for one, a user after the other.
func (s *State) serve() {
	r := &s.retries
	if len(r.users) == 0 {
		return
	}
	r.fit(s.rules.Retries, s.present)
	for len(r.users) > 0 {
		user := r.users[0]
		p := r.lines[user][0]
		wanted := p.State == Waiting && !p.paid && p.step.experiment.pieces[p.id] == p && !p.step.experiment.gone
		if wanted && !r.budget.Take(s.now) {
			s.at(s.now+r.budget.Wait(s.now), deadline{})
			return
		}
		r.users, r.lines[user] = r.users[1:], r.lines[user][1:]
		if len(r.lines[user]) > 0 {
			r.users = append(r.users, user)
		} else {
			delete(r.lines, user)
		}
		if p.inLine = false; wanted {
			p.paid = true
			s.mark(p)
		}
	}
}
