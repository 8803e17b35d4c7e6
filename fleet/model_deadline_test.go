// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"github.com/disco-sim/disco/cluster"
)

// The limits of some experiments: NoProgress is longer than a session lasts, as it should be.
var shortLimits = Limits{Total: 60 * time.Second, Start: 20 * time.Second, NoProgress: 15 * time.Second}

// What may pass from when something is so until a commit says it, without a fault.
const (
	lateCommit = 12 // seconds, of a leader that must see it first
	lateReport = 6
)

// pace is how a run really gets on, in seconds of the world.
type pace struct {
	began      float64
	moved      float64 // when simulated time rose last
	events     uint64
	then       uint64  // events, when it rose last
	stands     float64 // until when only events happen
	stood      float64 // for how long it stood before it rose last
	stoppingIn bool    // it saves what it has, and gets on with that
}

// move is a second of a run.
func (p *pace) move(now float64) {
	if now-p.moved > 1.5 {
		p.stood = now - p.moved
	}
	p.events++
	p.moved, p.then = now, p.events
}

// progress is what the agent says of a run.
func (r *run) progress() Progress {
	now := r.slot.host.w.c.Now()
	return Progress{Now: r.at, Events: r.pace.events, MovedEvents: r.pace.then, Stopping: r.pace.stoppingIn,
		Ran: seconds(now - r.pace.began), Still: seconds(now - r.pace.moved)}
}

func seconds(s float64) time.Duration { return time.Duration(max(s, 0) * 1e9) }

// limited is an experiment as a faulty leader reads it.
func (w *world) limited(spec Spec) Spec {
	if w.faulty == "nobody minds the start" {
		spec.Limits.Start = time.Hour
	}
	return spec
}

// recalled is a piece as a faulty leader reads it.
func (w *world) recalled(p Piece) Piece {
	if w.faulty == "each leader counts anew" {
		p.Age = 0
	}
	return p
}

// noted checks what a leader writes into a piece that stays in its state: what is counted goes on, over all leaders,
// and an extension is one more than there were, and granted to what moves.
func (w *world) noted(m *Move, piece string, was *Piece) {
	w.tally.notes++
	extends := m.To.Extended != nil && (was.Extended == nil || *m.To.Extended != *was.Extended)
	if m.To.Age < was.Age || m.To.Age == was.Age && !extends {
		w.violated(16, "%s is %v for %v, and was for %v before", piece, was.State, m.To.Age, was.Age)
	}
	if real := seconds(w.c.Now() - w.entered[piece]); m.To.Age > real && !w.jumped {
		w.violated(16, "%s is %v for %v, and is said to be for %v", piece, was.State, real, m.To.Age)
	}
	if limit := w.startOf(m.ID); was.State == Dispatched && m.To.Age > limit+seconds(lateCommit) && !w.jumped {
		w.violated(16, "%s is %v for %v, and has %v", piece, was.State, m.To.Age, limit)
	}
	if !extends {
		return
	}
	w.tally.extended++
	x, before := m.To.Extended, Extended{}
	if was.Extended != nil && (was.Extended.Now == x.Now || was.State != Running) {
		before = *was.Extended
	}
	if x.Count != before.Count+1 || x.Count > extensionsMax {
		w.violated(16, "%s is granted extension %d behind %d", piece, x.Count, before.Count)
	}
	if x.Events <= before.Events && x.Now <= before.Now && x.Saved <= before.Saved {
		w.violated(16, "%s is granted %+v, and stands still since %+v", piece, *x, before)
	}
}

// startOf is how long a gang of an experiment may take to simulate.
func (w *world) startOf(id string) time.Duration {
	if limit := w.store.specs[id].Limits.Start; limit > 0 {
		return limit
	}
	return startDefault
}

// bounded checks a move: what gets on isn't ended by a deadline, what wouldn't stop is listed.
func (w *world) bounded(m *Move, piece string, was *Piece) {
	w.entered[piece] = w.c.Now()
	if m.To.Age != 0 {
		w.violated(16, "%s comes into %v, and is in it for %v", piece, m.To.State, m.To.Age)
	}
	if m.To.State == Held && m.To.Error.Type == ErrorDeadline && was.State == Running {
		w.tally.silenced++
		w.silenced(m, piece, was)
	}
	itself := m.Takes != nil && (m.Takes.Report.State == Finished || m.Takes.Report.State == Failed)
	if was.State != Held && was.State != Canceling || m.To.State == Canceling || itself {
		return // what has ended by itself lets go by itself, as it does where nothing was waited for
	}
	w.tally.left += len(m.To.Left)
	attempt := AttemptID{m.Piece, was.Attempt}.String()
	for _, g := range was.Gang {
		v := w.store.servers[g.Name]
		if !v.there || v.Incarnation != g.Incarnation || v.Info.Assignment == nil ||
			v.State < cluster.Ready || v.State > cluster.Terminated || v.Info.Assignment.Experiment != m.ID ||
			v.Info.Assignment.Replication != attempt {
			continue
		}
		if !slices.ContainsFunc(m.To.Left, func(l Left) bool { return l.Server == g.Name }) {
			w.violated(16, "%s is %v at %s, which isn't among what is left: %v", piece, v.State, g.Name, m.To.Left)
		}
	}
}

// silenced checks that a run really stood still that has been ended for that, where nothing hindered its reports.
func (w *world) silenced(m *Move, piece string, was *Piece) {
	limits, now := w.store.specs[m.ID].Limits, w.c.Now()
	quiet := limits.NoProgress
	if quiet == 0 {
		quiet = noProgressDefault
	}
	for _, h := range w.hosts {
		if h.name != was.Gang[0].Member {
			continue
		}
		hindered := max(h.cutUntil, h.stoppedUntil, w.store.downUntil)
		for _, sl := range h.slots {
			r := sl.run
			if r == nil || r.id != m.ID || r.attempt != (AttemptID{m.Piece, was.Attempt}) || w.jumped ||
				now-hindered < quiet.Seconds()+lateCommit {
				continue
			}
			stood := now - r.pace.moved
			if stood < lateCommit {
				stood = max(stood, r.pace.stood)
			}
			over := limits.Total > 0 && now-r.pace.began >= limits.Total.Seconds()-lateReport
			if stood < quiet.Seconds()-lateReport && !over {
				w.violated(16, "%s is ended (%s), and stood for %.1f s", piece, m.To.Error.Message, stood)
			}
		}
	}
}
