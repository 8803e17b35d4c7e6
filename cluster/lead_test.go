// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// leadsNext has a member wait for leading.
func (f *fixture) leadsNext(m *member) <-chan *metastore.Lead {
	next := make(chan *metastore.Lead, 1)
	go func() {
		lead, err := m.Lead(f.ctx)
		if err != nil {
			f.Error(err)
		}
		next <- lead
	}()
	return next
}

// candidates waits until so many want to lead.
func (f *fixture) candidates(n int) {
	f.Helper()
	for {
		names, err := f.store.Members(f.ctx, keyLeader+"/candidates")
		if err == nil && len(names) == n {
			return
		}
		if f.ctx.Err() != nil {
			f.Fatalf("the candidates are %v (%v), want %d", names, err, n)
		}
		time.Sleep(time.Millisecond)
	}
}

// leadsInItsLife checks that the record is that of a member as it is now.
func (f *fixture) leadsInItsLife(m *member) {
	f.Helper()
	own := m.Member()
	r, ok, err := f.view.Leader(f.ctx)
	if want := (Leadership{own.Name, own.Incarnation}); !ok || err != nil || r != want {
		f.Errorf("the leader's record is %+v (%v, %v), want %+v", r, ok, err, want)
	}
}

// leadershipEnds: a leadership is over with the member's life, however that ends, and another member leads; what the
// former leader writes is refused.
func leadershipEnds(f *fixture) {
	value, err := f.store.Encode(1)
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		comes bool // back, in another life
		end   func(m *member) error
	}{
		{"Leave", false, func(m *member) error { return m.Leave(f.ctx) }},
		{"Deleted", true, func(*member) error { return f.store.Delete(f.ctx, dirMembers+"/h1") }},
		{"Overwritten", true, func(*member) error { return f.store.Put(f.ctx, dirMembers+"/h1", "no member") }},
		{"Exited", false, func(m *member) error {
			_, err := f.view.Request(f.ctx, "h1-0", Exited, nil, "test")
			<-m.Done()
			return err
		}},
	} {
		first, second := f.join("h1", 1), f.join("h2", 0)
		lead, err := first.Lead(f.ctx)
		if err != nil {
			f.Fatal(c.name, err)
		}
		f.leadsInItsLife(first)
		next := f.leadsNext(second)
		f.candidates(2)
		f.surely(func() error { return c.end(first) })
		select {
		case <-lead.Lost():
		case <-f.ctx.Done():
			f.Fatal(c.name, ": the leadership goes on")
		}
		if <-next == nil {
			f.Fatal(c.name, ": nobody leads")
		}
		f.leadsInItsLife(second)
		write := []metastore.Op{{Path: "led", Do: metastore.Set, Value: value}}
		var conflict *metastore.ConflictError
		if err := f.store.Commit(f.ctx, []metastore.Cond{lead.Guard()}, write); !errors.As(err, &conflict) {
			f.Errorf("%s: the former leader still writes: %v", c.name, err)
		}
		if c.comes {
			f.eventually("it is back", first.Ready)
		}
		if err := first.Leave(f.ctx); err != nil && c.name != "Leave" {
			f.Error(c.name, err)
		}
		if err := second.Leave(f.ctx); err != nil {
			f.Error(c.name, err)
		}
		f.candidates(0)
		if l, err := second.Lead(f.ctx); err == nil {
			f.Errorf("%s: one who has left leads: %+v", c.name, l)
		}
		f.await("both are gone", func() bool { return len(f.view.Members()) == 0 })
	}
}

// leadsInThisLife: a member that waits for leading, and has come back in another life meanwhile, leads in that.
func leadsInThisLife(f *fixture) {
	first, second := f.join("h1", 0), f.join("h2", 0)
	lead, err := first.Lead(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	next := f.leadsNext(second)
	f.candidates(2)
	before := second.Member().Incarnation
	second.client.EndSession()
	f.await("it is back", func() bool { i := f.incarnation("h2"); return i != before && i != "none" })
	f.candidates(2)
	if err := lead.Resign(f.ctx); err != nil {
		f.Error(err)
	}
	if <-next == nil {
		f.Fatal("nobody leads")
	}
	f.leadsInItsLife(second)
	// Whoever has resigned may lead again in the same life; one who doesn't wait any longer isn't a candidate.
	short, cancel := context.WithCancel(f.ctx)
	waits := make(chan error, 1)
	go func() { _, err := first.Lead(short); waits <- err }()
	f.candidates(2)
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		f.Error(err)
	}
	f.candidates(1)
	if err := second.Leave(f.ctx); err != nil {
		f.Error(err)
	}
	if _, err := first.Lead(f.ctx); err != nil {
		f.Error(err)
	}
}

// TestLeadNoLife: a member without a session waits for one, and leads in its next life.
func TestLeadNoLife(t *testing.T) {
	f := setUp(t)
	m := f.join("h1", 0)
	before := m.Member().Incarnation
	m.client.Disconnect()
	f.eventually("it is gone", func() bool { return !m.Ready() && len(f.view.Members()) == 0 })
	next := f.leadsNext(m)
	m.client.Reconnect()
	if <-next == nil {
		t.Fatal("nobody leads")
	}
	f.leadsInItsLife(m)
	if m.Member().Incarnation == before {
		t.Error("it leads in the life that was lost")
	}
}
