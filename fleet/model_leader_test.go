// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
)

// leader is the leader's loop at a host: it reads, decides, does what was decided, one after the other, and begins
// anew.
type leader struct {
	host   *host
	token  uint64
	state  *State
	before *State // while it reads everything anew
	busy   bool
	unread bool // there is something to be read
	again  bool
	timer  float64 // when it looks next
	looked float64 // when it has read the store
}

// leads begins the loop, if the candidate is that of the present session.
func (h *host) leads(c candidate) {
	// What was resigned may be told late: it would be led once more, and the next term be missed.
	if h.session != c.session || h.lead != nil || c.token <= h.resigned {
		return
	}
	h.lead = &leader{host: h, token: c.token}
	h.lead.begin()
}

// mine tells whether the loop goes on.
func (l *leader) mine() bool { return l.host.alive && l.host.lead == l }

// begin reads everything.
func (l *leader) begin() {
	before := l.state
	if l.state == nil {
		before = l.before // it is read once more
	}
	l.busy, l.state, l.before = true, nil, before
	w := l.host.w
	var all snapshot
	began := l.host.clock()
	w.call(l.host, func() error { all = w.store.read(true); return nil }, func(err error) {
		if !l.mine() {
			return
		}
		if err != nil {
			l.begin()
			return
		}
		w.tally.leads++
		w.read[l.token] = w.c.Now()
		l.state = NewState(l.host.name, l.token, Rules{Age: time.Minute, Head: 20 * time.Second,
			PauseAfter: 30 * time.Second, TooFew: 40 * time.Second, FirstSample: firstSample,
			Retries: w.retriesAtOnce()})
		l.state.inherit(before)
		w.leads(l.token)
		if w.faulty == "evictions wait for ever" {
			l.state.hushed = math.MaxInt64 / 2
		}
		if w.faulty == "lets go at once" {
			l.state.rules.Stop = time.Nanosecond
		}
		for _, e := range all.experiments {
			l.state.PutExperiment(w.limited(*e.Spec), e.Order)
			l.state.PutWish(e.ID, *e.Wish)
			if e.Standing != nil {
				l.state.PutStanding(e.ID, *e.Standing)
			}
			for _, p := range inOrder(all.pieces[e.ID]) {
				l.state.PutPiece(e.ID, p, w.recalled(all.pieces[e.ID][p].Piece))
			}
		}
		l.state.PutHealth(all.health)
		l.take(all, began)
		for _, name := range slices.Sorted(maps.Keys(l.host.view)) {
			l.show(l.host.view[name])
		}
		l.busy = false
		l.wake()
	})
}

// take takes over what may change without the leader.
func (l *leader) take(all snapshot, began time.Duration) {
	for _, e := range all.experiments {
		l.state.PutExperiment(l.host.w.limited(*e.Spec), e.Order)
		l.state.PutWish(e.ID, *e.Wish)
	}
	l.looked = l.host.w.c.Now()
	l.state.PutVitals(l.host.w.alteredVitals(all.vitals))
	l.state.Looked(began)
	for _, r := range all.reports {
		l.state.PutReport(l.host.w.altered(l.state, r))
	}
}

// show takes over what the view saw; members are there as long as their servers.
func (l *leader) show(v seen) {
	if v.there {
		l.state.PutServer(v.Server)
	} else {
		l.state.DropServer(v.Name)
	}
	var members []cluster.Member
	up := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(l.host.view)) {
		if x := l.host.view[name]; x.there && !up[x.Info.Member] {
			up[x.Info.Member] = true
			members = append(members, cluster.Member{Name: x.Info.Member, Status: cluster.Up,
				Address: x.Info.Member, Roles: l.host.w.roles(x.Info.Member)})
		}
	}
	l.state.PutMembers(members, nil)
}

// wake has the loop go round.
func (l *leader) wake() {
	w := l.host.w
	if !l.mine() || l.busy || l.state == nil {
		l.again = true
		return
	}
	l.busy, l.again = true, false
	if l.unread {
		l.unread = false
		var all snapshot
		began := l.host.clock()
		w.call(l.host, func() error { all = w.store.read(false); return nil }, func(err error) {
			if !l.mine() {
				return
			}
			if err != nil {
				l.begin()
				return
			}
			l.take(all, began)
			l.decide()
		})
		return
	}
	l.decide()
}

// clock is the leader's own, which never goes back.
func (h *host) clock() time.Duration { return h.w.now() + h.jumps }

func (l *leader) decide() {
	w := l.host.w
	w.mislead(l.state)
	if w.faulty == "nobody looks" {
		l.state.Looked(1 << 62)
	}
	decided := Decide(l.state, l.host.clock())
	w.record.decision(l, decided)
	actions := w.mutate(l.state, decided)
	if len(l.state.retries.users) > 0 {
		w.tally.waited++
	}
	l.do(actions, func() {
		l.busy = false
		if l.state.WantsLook() {
			l.unread, l.again = true, true
		}
		if l.again {
			l.wake()
			return
		}
		when, any := l.state.Next()
		look := 5.0 // for progress, vitals, and what a watch has left out
		if w.faulty == "nobody looks" {
			look = 60
		}
		delay := max(0, l.looked+look-w.c.Now())
		if any {
			delay = min(delay, max(0, (when-l.host.clock()).Seconds())+0.001)
		}
		at := w.c.Now() + delay
		l.timer = at
		w.local(l.host, delay, func() {
			if l.mine() && l.timer == at {
				l.unread = l.unread || w.c.Now() >= l.looked+look
				l.wake()
			}
		})
	})
}

// do does actions in their order: moves some in a commit, behind reading their versions.
func (l *leader) do(actions []Action, then func()) {
	w := l.host.w
	if len(actions) == 0 {
		then()
		return
	}
	guard := w.faulty != "no guard"
	count := 1
	a := actions[0]
	next := func(err error) {
		switch {
		case !l.mine():
		case err == nil:
			l.do(actions[count:], then)
		case errors.Is(err, errGuard):
			l.host.lead = nil
		case errors.Is(err, errUnknown) && w.faulty != "late commits count":
			l.resign()
		default:
			l.begin()
		}
	}
	switch a.Do {
	case DoMove:
		for count < len(actions) && count < 5 && actions[count].Do == DoMove {
			count++
		}
		l.move(actions[:count], guard, next)
	case DoStand:
		var was metastore.Version
		w.call(l.host, func() error { was = w.store.standAt[a.ID]; return nil }, func(err error) {
			if err != nil {
				next(err)
				return
			}
			w.call(l.host, func() error { return w.store.setStanding(l.token, guard, a.ID, was, a.Standing) }, next)
		})
	case DoAsk:
		var change uint64
		r := cluster.Request{Incarnation: l.host.view[a.Server].Incarnation, State: a.State, Assignment: &a.Assignment}
		w.call(l.host, func() error { change = w.store.desired[a.Server].change; return nil }, func(err error) {
			w.call(l.host, func() error { return w.store.ask(l.token, guard, r, a.Server, change) }, func(err error) {
				if !errors.Is(err, errGuard) {
					err = nil // it is asked again
				}
				next(err)
			})
		})
	case DoDrop:
		w.call(l.host, func() error {
			if err := w.store.guarded(l.token, guard); err != nil {
				return err
			}
			if w.store.reports[a.Report.key()].Version == a.Report.Version {
				delete(w.store.reports, a.Report.key())
			}
			return nil
		}, next)
	case DoLoad:
		next(w.store.guarded(l.token, guard))
	case DoHealth: // without a delay: nothing depends on it but what a new leader begins with
		err := w.store.guarded(l.token, guard)
		if err == nil && l.host.cutUntil <= w.c.Now() && w.store.downUntil <= w.c.Now() {
			w.store.health = a.Health
		}
		next(err)
	default:
		panic(fmt.Sprint("nothing else is decided in so short a time: ", a.Do))
	}
}

// resign ends the leadership, so that a commit without an answer isn't done later, and makes the host a candidate
// again.
func (l *leader) resign() {
	h, session := l.host, l.host.session
	h.lead, h.resigned = nil, l.token
	var try func()
	try = func() {
		h.w.call(h, func() error { h.w.store.resign(l.token, session); return nil }, func(err error) {
			if err != nil && h.session == session {
				try()
			}
		})
	}
	try()
}

// move reads what pieces are, and moves them.
func (l *leader) move(actions []Action, guard bool, next func(err error)) {
	w := l.host.w
	moves := make([]Move, len(actions))
	w.call(l.host, func() error {
		for i, a := range actions {
			moves[i] = Move{ID: a.ID, Piece: a.Piece, To: a.To, Takes: a.Report}
			p, there := w.store.pieces[a.ID][a.Piece]
			if there == a.Begins || there && p.State != a.From {
				return errConflict
			}
			if there {
				moves[i].Was, moves[i].At = &p.Piece, p.Version
			}
		}
		return nil
	}, func(err error) {
		if err != nil || !l.mine() {
			next(err)
			return
		}
		w.call(l.host, func() error { return w.store.movePieces(l.token, guard, moves) }, next)
	})
}
