// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// leadCases are about leadership.
var leadCases = []testCase{
	{"Lead/InOrder", 0, leadInOrder},
	{"Lead/ContextEnds", 0, leadContext},
	{"Lead/Deleted", 0, leadDeleted},
	{"Lead/OneAtATime", 0, func(e *env) { leadOneAtATime(e, 0) }},
	{"Lead/UnknownOutcomes", 0, func(e *env) { leadOneAtATime(e, 0.2) }},
	{"Lead/Fenced", expire, leadFenced},
	{"Lead/CandidateExpired", expire, candidateExpired},
}

// campaign must succeed.
func (e *env) campaign(s *metastore.Store, record any) *metastore.Lead {
	e.Helper()
	lead, err := s.Campaign(e.ctx, "lead", record)
	if err != nil {
		e.Fatal(err)
	}
	return lead
}

// leader checks whose record is shown.
func (e *env) leader(s *metastore.Store, want string) {
	e.Helper()
	v, err := s.Leader(e.ctx, "lead")
	if err != nil || string(v.Bytes()) != want {
		e.Fatalf("leader: found %s, %v; want %s", v.Bytes(), err, want)
	}
}

// guarded writes as a leader does.
func (e *env) guarded(s *metastore.Store, lead *metastore.Lead, value string) error {
	raw, err := s.Encode(value)
	if err != nil {
		return err
	}
	op := metastore.Op{Path: "state", Do: metastore.Set, Value: raw}
	return s.Commit(e.ctx, []metastore.Cond{lead.Guard()}, []metastore.Op{op})
}

// Leaders follow in the order in which they were candidates, by resigning or dying.
func leadInOrder(e *env) {
	check := e.store()
	_, err := check.Leader(e.ctx, "lead")
	e.is("nobody leads", err, metastore.ErrNoNode)
	const n = 4
	var stores []*metastore.Store
	leads := make([]chan *metastore.Lead, n)
	for i := range n {
		s := e.open(e.engine.New(e), metastore.Options{})
		stores = append(stores, s)
		leads[i] = make(chan *metastore.Lead, 1)
		go func() {
			lead, err := s.Campaign(e.ctx, "lead", fmt.Sprint("c", i))
			e.check("Campaign", err)
			leads[i] <- lead
		}()
		e.candidates(check, i+1)
	}
	var token uint64
	for i := range n {
		lead := <-leads[i]
		if lead == nil || lead.Token() <= token {
			e.Fatalf("lead %d: %+v, token before: %d", i, lead, token)
		}
		token = lead.Token()
		e.leader(check, fmt.Sprintf("%q", fmt.Sprint("c", i)))
		e.check("a guarded commit", e.guarded(stores[i], lead, "x"))
		select {
		case <-lead.Lost():
			e.Fatal("lost while it leads")
		default:
		}
		if i%2 == 0 {
			e.check("Resign", lead.Resign(e.ctx))
			e.isConflict("after Resign", e.guarded(stores[i], lead, "y"), lead.Guard().Path)
			e.check("Resign again", lead.Resign(e.ctx))
		} else {
			e.check("Close", stores[i].Close())
		}
		<-lead.Lost()
	}
	e.candidates(check, 0)
}

// candidates waits until there are so many.
func (e *env) candidates(s *metastore.Store, n int) {
	e.Helper()
	there := make(chan struct{})
	w, err := s.WatchMembers(e.ctx, "lead/candidates", func(names []string, _ string) bool {
		if len(names) == n {
			close(there)
		}
		return len(names) != n
	})
	if err != nil {
		e.Fatal(err)
	}
	defer w.Stop()
	select {
	case <-there:
	case <-e.ctx.Done():
		e.Fatalf("there aren't %d candidates", n)
	}
}

// Who gives up is no candidate any more, and others don't wait for it.
func leadContext(e *env) {
	a, b, c := e.store(), e.store(), e.store()
	lead := e.campaign(a, "a")
	ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := b.Campaign(ctx, "lead", "b"); !errors.Is(err, context.DeadlineExceeded) {
		e.Fatalf("found %v, want the context's error", err)
	}
	e.candidates(c, 1)
	e.check("Resign", lead.Resign(e.ctx))
	e.campaign(c, "c")
	e.leader(a, `"c"`)
}

// An operator deletes the leader's candidate: it has lost, and another leads.
func leadDeleted(e *env) {
	a, b := e.store(), e.store()
	lead := e.campaign(a, "a")
	next := make(chan *metastore.Lead, 1)
	go func() {
		l, err := b.Campaign(e.ctx, "lead", "b")
		e.check("Campaign", err)
		next <- l
	}()
	e.candidates(a, 2)
	e.check("Delete", b.Delete(e.ctx, lead.Guard().Path))
	<-lead.Lost()
	if <-next == nil {
		return
	}
	e.isConflict("the old one", e.guarded(a, lead, "x"), lead.Guard().Path)
	e.leader(a, `"b"`)
}

// Many lead one after the other, and never two at a time.
func leadOneAtATime(e *env, share float64) {
	const clients, rounds = 4, 8
	var stores []*metastore.Store
	var all []*lossy
	for i := range clients {
		b := newLossy(e.engine.New(e), share, uint64(i))
		all, stores = append(all, b), append(stores, e.open(b, metastore.Options{}))
	}
	var leading atomic.Int32
	e.parallel(clients, func(i int) error {
		for range rounds {
			lead, err := stores[i].Campaign(e.ctx, "lead", i)
			if err != nil {
				return err
			}
			if n := leading.Add(1); n != 1 {
				return fmt.Errorf("%d lead at a time", n)
			}
			if err := e.guarded(stores[i], lead, "x"); err != nil && !errors.Is(err, metastore.ErrUnknown) {
				return err
			}
			leading.Add(-1)
			if err := lead.Resign(e.ctx); err != nil && !errors.Is(err, metastore.ErrUnknown) {
				return err
			}
		}
		return nil
	})
	for _, b := range all {
		b.landing.Wait()
	}
	e.candidates(e.store(), 0) // and no session has ended
}

// Two believe to lead: the one whose session has ended writes nothing, however late it is.
func leadFenced(e *env) {
	b := e.engine.New(e)
	a, s := e.open(b, metastore.Options{}), e.store()
	old := e.campaign(a, "a")
	e.check("a guarded commit", e.guarded(a, old, "by a"))
	e.engine.Expire(e, b)
	lead := e.campaign(s, "b")
	if lead.Token() <= old.Token() {
		e.Fatalf("token %d after %d", lead.Token(), old.Token())
	}
	e.check("the new one", e.guarded(s, lead, "by b"))
	e.isConflict("the old one", e.guarded(a, old, "late"), old.Guard().Path)
	e.has(s, "state", "by b")
	<-old.Lost()
	e.check("Resign", old.Resign(e.ctx))
	e.leader(a, `"b"`)
}

// A candidate whose session is lost while it waits is one again, at the end of the line.
func candidateExpired(e *env) {
	b := e.engine.New(e)
	a, s := e.open(b, metastore.Options{}), e.store()
	lead := e.campaign(s, "first")
	waits := make(chan *metastore.Lead, 1)
	go func() {
		l, err := a.Campaign(e.ctx, "lead", "second")
		e.check("Campaign", err)
		waits <- l
	}()
	e.candidates(s, 2)
	session, err := a.Session(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	e.engine.Expire(e, b)
	e.lost(session)
	e.check("Resign", lead.Resign(e.ctx))
	if <-waits == nil {
		return
	}
	e.leader(s, `"second"`)
}
