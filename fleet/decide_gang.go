// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/cluster"
)

// gangNow is what a gang's servers do.
type gangNow struct {
	lost  []string        // machines of servers that are missing, or do something else
	why   string          // of the first
	ended bool            // one has ended its part
	fresh []int           // parts whose servers aren't reserved yet
	is    []cluster.State // of the server of each part, where that hosts it; 0: it doesn't. The next call takes it
}

// count is how many servers of a gang are in a state.
func (c *gangNow) count(state cluster.State) (n int) {
	for _, is := range c.is {
		n += b2i(is == state)
	}
	return n
}

// call looks at the servers of a gang.
func (s *State) call(p *piece) gangNow {
	c := gangNow{is: slices.Grow(s.gangIs[:0], len(p.Gang))[:len(p.Gang)]}
	clear(c.is)
	s.gangIs = c.is
	for i, g := range p.Gang {
		sv := s.servers[g.Name]
		mine := sv != nil && sv.promised == p && sv.there
		switch {
		case mine && p.hosts(sv, i) && sv.State != cluster.Terminated:
			c.is[i] = sv.State
		case mine && sv.State == cluster.Broken:
			c.lose(g, "is BROKEN: "+sv.Reason)
		case mine && sv.Last != nil && sv.Last.Assignment == p.assignment(i):
			c.ended = true
			if sv.Last.Error != "" && c.why == "" {
				c.why = fmt.Sprintf("the partition of %s was %s: %s", g.Name, sv.Last.Result, sv.Last.Error)
			}
		case mine && p.State == Dispatched && sv.Incarnation == g.Incarnation && isOurs(sv):
			c.fresh = append(c.fresh, i)
		case !mine:
			c.lose(g, "isn't there any more")
		case sv.Incarnation != g.Incarnation:
			c.lose(g, "is another one: its agent was started again, or had lost its session, and what it had is gone")
		default:
			c.lose(g, fmt.Sprintf("is %v, and hosts %v", sv.State, sv.Info.Assignment))
		}
	}
	return c
}

// isOurs tells whether a server is free, or is only yet to give up another attempt.
func isOurs(sv *server) bool {
	if !sv.hosts() {
		return sv.State == cluster.Available
	}
	_, err := ParseAttemptID(sv.Info.Assignment.Replication)
	return err == nil
}

func (c *gangNow) lose(g Server, why string) {
	if c.why == "" {
		c.why = fmt.Sprintf("the server %s %s", g.Name, why)
	}
	c.lost = append(c.lost, g.Member)
}

// gang leads an attempt on: all of a gang reserve, load, simulate, stand still; none of them goes ahead.
func (s *State) gang(p *piece) {
	c := s.call(p)
	if len(c.lost) > 0 || c.ended {
		s.settle(p, &c)
		return
	}
	p.amiss = never
	pause := p.step.experiment.wish.Want == WantPause
	active, paused := c.count(cluster.Active), c.count(cluster.Paused)
	switch {
	case p.State == Dispatched:
		s.start(p, &c)
	case active == len(p.Gang) && !pause:
		s.reached(p, Running)
	case paused == len(p.Gang) && pause:
		s.reached(p, Paused)
	case pause:
		s.askAll(p, &c, cluster.Active, cluster.Paused)
	default:
		s.askAll(p, &c, cluster.Paused, cluster.Active)
		s.askAll(p, &c, cluster.Ready, cluster.Active)
	}
}

// reached notes that all of a gang simulate, or stand still.
func (s *State) reached(p *piece, state PieceState) {
	switch {
	case p.State != state:
		to := p.Piece
		to.State = state
		if state == Running && to.Began == nil && p.report != nil && !p.report.Report.Began.IsZero() {
			began := p.report.Report.Began
			to.Began = &began
		}
		s.move(p, to, nil)
	case state == Running:
		s.watch(p)
	case s.now-p.since >= s.rules.PauseAfter:
		to := p.Piece
		to.State, to.Error = Held, &Error{Type: ErrorDeadline, Decided: s.leader,
			Message: fmt.Sprintf("it was paused for %v, and has given its servers up", s.rules.PauseAfter)}
		to.Spared++
		s.move(p, to, nil)
	default:
		s.at(p.since+s.rules.PauseAfter, deadline{piece: p})
	}
}

// settle waits a moment for a report, or for a server that has only lost its session, before it holds a piece.
func (s *State) settle(p *piece, c *gangNow) {
	if p.amiss == never {
		p.amiss = s.now
	}
	if until := p.amiss + s.rules.Settle; s.now < until {
		s.at(until, deadline{piece: p})
		return
	}
	if late := p.since + p.startLimit(); len(c.lost) > 0 && (p.State != Dispatched || s.now < late) && s.waitsFor(p) {
		if p.State == Dispatched { // then its other servers are free, whatever has become of the lost ones
			s.at(late, deadline{piece: p})
		}
		return
	}
	if len(c.lost) == 0 && c.why == "" {
		c.why = "a partition has ended, and no report came"
	}
	if len(c.lost) == 0 {
		c.lost = []string{p.Gang[0].Member}
	}
	s.hold(p, Error{Where: c.lost[0], Type: ErrorMachine, Message: bounded(c.why, MaxReason)}, c.lost, nil)
}

// bounded cuts a text to so many bytes.
func bounded(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// startLimit is how long a gang may be promised its servers before all of it simulate.
func (p *piece) startLimit() time.Duration {
	if limit := p.step.experiment.Limits.Start; limit > 0 {
		return limit
	}
	return startDefault
}

// start leads a gang over its barriers, within the time for that.
func (s *State) start(p *piece, c *gangNow) {
	limit := p.startLimit()
	all, ready, active := len(p.Gang), c.count(cluster.Ready), c.count(cluster.Active)+c.count(cluster.Paused)
	switch {
	case active == all:
		s.reached(p, Running)
		return
	case s.now-p.since >= limit:
		var late []string
		for i, g := range p.Gang {
			if sv := s.servers[g.Name]; !p.hosts(sv, i) || sv.State < cluster.Ready {
				late = append(late, g.Member)
			}
		}
		s.hold(p, Error{Type: ErrorDeadline, Decided: s.leader, Message: fmt.Sprintf(
			"%d of %d servers were ready and %d simulated after %v", ready, all, active, limit)}, late, nil)
		return
	case len(c.fresh) > 0:
		for _, i := range c.fresh {
			if sv := s.servers[p.Gang[i].Name]; !sv.hosts() {
				s.ask(sv, cluster.Reserved, p.assignment(i), deadline{piece: p})
			}
		}
	case ready+active == all:
		s.askAll(p, c, cluster.Ready, cluster.Active)
	default:
		s.askAll(p, c, cluster.Reserved, cluster.Ready)
	}
	s.at(p.since+limit, deadline{piece: p})
}

// askAll asks those of a gang that are in a state for another one.
func (s *State) askAll(p *piece, c *gangNow, from, state cluster.State) {
	for i, is := range c.is {
		if is != from {
			continue
		}
		s.ask(s.servers[p.Gang[i].Name], state, p.assignment(i), deadline{piece: p})
	}
}

// closingMost is how long it may take to put a step's parts together, at least.
const closingMost = 30 * time.Minute
