// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// server0 writes the keys of a server that no process has, so that nothing but the test changes them.
func (f *fixture) server0(name string, status Status) {
	f.Helper()
	member := strings.TrimSuffix(name, "-0")
	err := f.store.Put(f.ctx, dirInfo+"/"+name, Info{Member: member, Writing: status.Writing})
	if err = errors.Join(err, f.store.Put(f.ctx, dirServers+"/"+name, status)); err != nil {
		f.Fatal(err)
	}
}

// member0 writes the key of such a server's member.
func (f *fixture) member0(name string, status MemberStatus) {
	f.Helper()
	if err := f.store.Put(f.ctx, dirMembers+"/"+name, Member{Name: name, Status: status, Incarnation: "life",
		Layout: Layout, Version: "v1", Pid: 1, Origin: origin(), Slots: 1}); err != nil {
		f.Fatal(err)
	}
}

// meanwhile makes a client where f happens once, right before a commit that changes a key.
func (f *fixture) meanwhile(key string, do func() error) *metastore.Store {
	f.Helper()
	done := false
	f.Cleanup(func() { // after the store is closed
		if !done {
			f.Errorf("%s was never changed", key)
		}
	})
	return f.around(key, func(commit func() error) error {
		if !done {
			done = true
			if err := do(); err != nil {
				f.Error(err)
			}
		}
		return commit()
	})
}

// availableOfUpMembers: nothing is placed on a server whose member doesn't take requests yet, doesn't any more, or
// isn't there.
func availableOfUpMembers(f *fixture) {
	for name, status := range map[string]MemberStatus{"h1": Joining, "h2": Up, "h3": Leaving, "h4": ""} {
		if status != "" {
			f.member0(name, status)
		}
		f.server0(name+"-0", Status{State: Available, Incarnation: "life"})
	}
	f.await("all are there", func() bool { return len(f.view.Servers()) == 4 && len(f.view.Members()) == 3 })
	if names, _ := f.view.Available("e"); !slices.Equal(names, []string{"h2-0"}) {
		f.Errorf("Available: %v, want h2-0 alone", names)
	}
}

// askedWhileItLeaves: a request for a server that is gone by the time of the commit is refused, and leaves no key.
func askedWhileItLeaves(f *fixture) {
	f.server0("h1-0", Status{State: Available, Incarnation: "life"})
	key := dirDesired + "/h1-0"
	view, err := Open(f.ctx, f.meanwhile(key, func() error { return f.store.Delete(f.ctx, dirServers+"/h1-0") }))
	if err != nil {
		f.Fatal(err)
	}
	defer view.Close()
	var conflict *metastore.ConflictError
	_, err = view.Request(f.ctx, "h1-0", Reserved, &Assignment{"e", "1", 0}, "test")
	if !errors.As(err, &conflict) || conflict.Cond.Path != dirServers+"/h1-0" {
		f.Errorf("asking a server that has gone: %v", err)
	}
	if there, err := f.store.Contains(f.ctx, key); there || err != nil {
		f.Errorf("the request was left behind: %v, %v", there, err)
	}
}

// anotherLifeAnswers: who waits for an answer of a server that has come back in another life is told so.
func anotherLifeAnswers(f *fixture) {
	f.server0("h1-0", Status{State: Available, Incarnation: "life"})
	f.await("it is there", func() bool { return len(f.view.Servers()) == 1 })
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	id, err := f.view.Request(ctx, "h1-0", Reserved, &Assignment{"e", "1", 0}, "test")
	if err != nil {
		f.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if ack, err := f.view.AwaitAck(ctx, "h1-0", id); err != nil || ack.Phase != Superseded {
			f.Errorf("%+v, %v", ack, err)
		}
	}()
	for life := 1; ; life++ { // one of them begins after the waiting
		select {
		case <-answered:
			return
		case <-time.After(time.Millisecond):
			f.server0("h1-0", Status{State: Available, Incarnation: fmt.Sprint("life ", life)})
		}
	}
}

// removedWhileItComesBack: removing what a dead process left takes nothing from its next life, which may begin
// between any two of its commits.
func removedWhileItComesBack(f *fixture) {
	f.member0("h1", Up)
	f.server0("h1-0", Status{State: Active, Incarnation: "life"})
	store := f.meanwhile(dirServers+"/h1-0", func() error {
		f.member0("h1", Up)
		f.server0("h1-0", Status{State: Available, Incarnation: "next life"})
		return nil
	})
	if err := Remove(f.ctx, store, "h1", 1); err != nil {
		f.Fatal(err)
	}
	for _, key := range []string{dirServers + "/h1-0", dirInfo + "/h1-0", dirMembers + "/h1"} {
		if there, err := f.store.Contains(f.ctx, key); !there || err != nil {
			f.Errorf("%s of the next life: %v, %v", key, there, err)
		}
	}
}

// TestTornWriting: of two values of different writings nothing is shown; what was shown stays.
func TestTornWriting(t *testing.T) {
	s := &serverView{status: Status{State: Available, Writing: 1}, hasStatus: true, info: Info{Member: "h1"},
		hasInfo: true}
	if s.show("h1-0"); s.shown != nil {
		t.Errorf("half of a writing is shown: %+v", s.shown)
	}
	s.info.Writing = 1
	if s.show("h1-0"); s.shown == nil || s.shown.State != Available {
		t.Errorf("a whole writing: %+v", s.shown)
	}
	s.status = Status{State: Active, Writing: 2}
	if s.show("h1-0"); s.shown.State != Available {
		t.Errorf("half of the next writing is shown: %+v", s.shown)
	}
}

// tornForGood: a server whose values are of two writings, and stay so, is shown as Broken, also by a view that is made
// then, until they fit again.
func tornForGood(f *fixture) {
	f.server0("h1-0", Status{State: Available, Incarnation: "life", Writing: 4})
	f.await("it is there", func() bool { s, _ := f.view.Server("h1-0"); return s.State == Available })
	put := func(writing uint64) {
		if err := f.store.Put(f.ctx, dirServers+"/h1-0", Status{State: Active, Incarnation: "life",
			Writing: writing}); err != nil {
			f.Fatal(err)
		}
	}
	put(5)
	f.await("it is broken", func() bool { s, _ := f.view.Server("h1-0"); return s.State == Broken })
	other, err := Open(f.ctx, f.store)
	if err != nil {
		f.Fatal(err)
	}
	defer other.Close()
	for _, v := range []*View{f.view, other} {
		if s, _ := v.Server("h1-0"); s.State != Broken || !strings.Contains(s.Reason, "of writing 5") ||
			!strings.Contains(s.Reason, "of 4") || !strings.Contains(s.Reason, "store rm") {
			f.Errorf("%+v", s)
		}
	}
	put(4)
	f.await("it is mended", func() bool { s, _ := f.view.Server("h1-0"); return s.State == Active })
	put(6)
	f.await("it is broken again", func() bool { s, _ := f.view.Server("h1-0"); return s.State == Broken })
	if err := f.store.Delete(f.ctx, dirServers+"/h1-0"); err != nil {
		f.Fatal(err)
	}
	f.await("it is gone", func() bool { return len(f.view.Servers()) == 0 })
}

// TestMissingInfo: that there is no info is known of the status alone that was there before it was looked for.
func TestMissingInfo(t *testing.T) {
	for name, seen := range map[string]Status{"another life": {Incarnation: "before", Writing: 2},
		"before": {Incarnation: "life", Writing: 1}, "same": {Incarnation: "life", Writing: 2}} {
		s := &serverView{status: Status{State: Available, Incarnation: "life", Writing: 2}, hasStatus: true}
		v := &View{servers: map[string]*serverView{"h1-0": s}, changed: make(chan struct{})}
		again := v.judge("h1-0", s, seen, metastore.ErrNoNode)
		if again != (name != "same") || s.missing == again || (s.shown != nil) == again {
			t.Errorf("%s: again %v, missing %v, shown %+v", name, again, s.missing, s.shown)
		}
	}
}

// TestBookOfAPlaceTwice: where two servers say that they host a place, the first by name has it.
func TestBookOfAPlaceTwice(t *testing.T) {
	servers := map[string]Server{}
	for _, name := range []string{"a", "b", "c"} {
		servers[name] = Server{Name: name, Status: Status{State: Active}, Info: Info{Member: name,
			Assignment: &Assignment{"e", "1", 0}, Nodes: []string{"till"}}}
	}
	book := newAddressBook(servers)
	if got, _ := book.Lookup(Place{"1", "till"}); got != "a" || book.Len() != 1 {
		t.Errorf("found %q, want a; places %v", got, book.All())
	}
	if got := book.replications("till"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("replications %v", got)
	}
}
