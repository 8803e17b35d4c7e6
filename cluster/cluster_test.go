// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/metastore"
)

// worker is a runner that writes down what it was asked, and does as its fields say.
type worker struct {
	*Reporter
	mu    sync.Mutex
	calls []string
	fail  map[string]error
	hold  chan struct{} // Initialize waits for it, or its context
}

func (w *worker) call(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, name)
	return w.fail[name]
}

func (w *worker) did() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.calls, " ")
}

func (w *worker) Initialize(ctx context.Context, a Assignment) ([]string, error) {
	if w.hold != nil {
		select {
		case <-w.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return []string{fmt.Sprintf("node-%d", a.Partition)}, w.call("initialize")
}
func (w *worker) Activate(context.Context) error  { return w.call("activate") }
func (w *worker) Pause(context.Context) error     { return w.call("pause") }
func (w *worker) Terminate(context.Context) error { return w.call("terminate") }

// fixture is a store with some clients.
type fixture struct {
	*testing.T
	ctx    context.Context
	server engine
	view   *View
	store  *metastore.Store // of the view
	group  string
}

// setUp makes one on an engine of its own, in memory.
func setUp(t *testing.T) *fixture { return setUpOn(t, startEngine(t, "memory")) }

func setUpOn(t *testing.T, server engine) *fixture {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	f := &fixture{T: t, ctx: ctx, server: server, group: "test-" + rand.Text()}
	f.store, _ = f.client()
	v, err := Open(ctx, f.store)
	if err != nil {
		t.Fatal(err)
	}
	f.view = v
	t.Cleanup(v.Close)
	return f
}

func (f *fixture) client() (*metastore.Store, client) {
	c, b := f.server.client(f.T)
	return f.open(b), c
}

// open opens the group on an engine, until the test ends.
func (f *fixture) open(b metastore.Backend) *metastore.Store {
	f.Helper()
	s, err := metastore.New(f.ctx, b, metastore.Options{Group: f.group, Base: Base(),
		Report: func(err error) { f.Logf("store: %v", err) }})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
	})
	return s
}

// member is one that has joined.
type member struct {
	*Membership
	workers []*worker
	client  client
	store   *metastore.Store
}

func (f *fixture) options(name string, slots int) (Options, *member) {
	m := &member{}
	return Options{Name: name, Version: "v1", Slots: slots, Application: "shop",
		Report: func(err error) { f.Logf("%s: %v", name, err) },
		Runner: func(slot int, r *Reporter) Runner {
			m.workers = append(m.workers, &worker{Reporter: r, fail: map[string]error{}})
			return m.workers[slot]
		}}, m
}

func (f *fixture) join(name string, slots int, change ...func(*Options)) *member {
	f.Helper()
	o, m := f.options(name, slots)
	for _, c := range change {
		c(&o)
	}
	m.store, m.client = f.client()
	var err error
	if m.Membership, err = Join(f.ctx, m.store, o); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = m.Leave(f.ctx) })
	f.await("the view has "+name, func() bool {
		if f.incarnation(name) != m.Member().Incarnation {
			return false
		}
		for slot := range slots {
			if s, _ := f.view.Server(serverName(name, slot)); s.Incarnation != m.Member().Incarnation {
				return false
			}
		}
		return true
	})
	return m
}

func (f *fixture) incarnation(name string) string {
	for _, m := range f.view.Members() {
		if m.Name == name && m.Status == Up {
			return m.Incarnation
		}
	}
	return "none"
}

func (f *fixture) await(what string, done func() bool) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	if err := f.view.Await(ctx, done); err != nil {
		f.Fatalf("waiting until %s: %v\n%+v\n%+v", what, err, f.view.Members(), f.view.Servers())
	}
}

// eventually waits for what the view doesn't tell of.
func (f *fixture) eventually(what string, done func() bool) {
	f.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("%s: not within a minute\n%+v\n%+v", what, f.view.Members(), f.view.Servers())
		}
	}
}

// surely makes a change, again while its outcome is unknown: on a busy machine connections may be taken for broken.
func (f *fixture) surely(change func() error) {
	f.Helper()
	err := change()
	for errors.Is(err, metastore.ErrUnknown) {
		err = change()
	}
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) ask(server string, s State, a *Assignment) Ack {
	f.Helper()
	ack, err := f.view.Ask(f.ctx, server, s, a, "test")
	if err != nil {
		f.Fatal(err)
	}
	return ack
}

// activate brings a server to Active.
func (f *fixture) activate(server string, a *Assignment) {
	f.Helper()
	for _, s := range []State{Reserved, Ready, Active} {
		if ack := f.ask(server, s, a); ack.Phase != Applied || ack.State != s {
			f.Fatalf("%s asked for %v: %+v", server, s, ack)
		}
	}
}

func lifeOfAServer(f *fixture) {
	m := f.join("h1", 2)
	if !m.Ready() || len(f.view.Servers()) != 2 {
		f.Fatalf("ready: %v, %+v", m.Ready(), f.view.Servers())
	}
	a := &Assignment{"exp", "7", 3}
	f.activate("h1-1", a)
	s, _ := f.view.Server("h1-1")
	if s.State != Active || *s.Info.Assignment != *a || !slices.Equal(s.Info.Nodes, []string{"node-3"}) ||
		s.Info.Application != "shop" || s.Info.Member != "h1" || s.Info.Slot != 1 {
		f.Errorf("%+v", s)
	}
	book := f.view.AddressBook()
	if server, ok := book.Lookup(Place{"7", "node-3"}); !ok || server != "h1-1" || book.Len() != 1 {
		f.Errorf("address book: %v %v %v", server, ok, book.All())
	}
	if book != f.view.AddressBook() {
		f.Error("the book is made anew without a change")
	}
	if ack := f.ask("h1-1", Reserved, a); ack.Phase != Refused || ack.State != Active {
		f.Errorf("%+v", ack)
	}
	if ack := f.ask("h1-1", Terminated, a); ack.Phase != Applied || ack.Result != PartitionCanceled {
		f.Errorf("%+v", ack)
	}
	if got := m.workers[1].did(); got != "initialize activate terminate" || m.workers[0].did() != "" {
		f.Errorf("the runner did %q, the other one %q", got, m.workers[0].did())
	}
	f.await("the server is free again", func() bool { s, _ := f.view.Server("h1-1"); return s.State == Available })
	if book := f.view.AddressBook(); book.Len() != 0 {
		f.Errorf("address book: %v", book.All())
	}
	names, parts := f.view.Available("exp")
	if !slices.Equal(names, []string{"h1-1", "h1-0"}) || !slices.Equal(parts, []int{3}) {
		f.Errorf("Available: %v %v: h1-1 still has partition 3 loaded", names, parts)
	}
	if err := m.Leave(f.ctx); err != nil {
		f.Fatal(err)
	}
	if err := m.Leave(f.ctx); err == nil || !strings.Contains(err.Error(), "already") {
		f.Errorf("the second Leave: %v", err)
	}
	f.await("nobody is there", func() bool { return len(f.view.Members())+len(f.view.Servers()) == 0 })
	f.empty()
}

// empty checks that nothing but directories is left below the cluster's.
func (f *fixture) empty() {
	f.Helper()
	for _, dir := range Base() {
		names, err := f.store.Members(f.ctx, dir)
		if err != nil || dir == keyLeader {
			continue
		}
		if len(names) > 0 {
			f.Errorf("left behind: %s: %v", dir, names)
		}
	}
}

func partitionEndsByItself(f *fixture) {
	m := f.join("h1", 1)
	a := &Assignment{"e", "1", 0}
	f.activate("h1-0", a)
	m.workers[0].Ended(nil)
	f.await("it has finished", func() bool { s, _ := f.view.Server("h1-0"); return s.State == Available })
	if s, _ := f.view.Server("h1-0"); s.Last == nil || s.Last.Result != PartitionFinished || s.Last.Assignment != *a {
		f.Errorf("%+v", s.Last)
	}
	m.workers[0].fail["initialize"] = errors.New("no such file")
	f.ask("h1-0", Reserved, a)
	if ack := f.ask("h1-0", Ready, a); ack.Phase != Failed || ack.State != Available || ack.Error != "no such file" {
		f.Errorf("%+v", ack)
	}
	m.workers[0].Broken("the disk is gone")
	f.await("it is broken", func() bool { s, _ := f.view.Server("h1-0"); return s.State == Broken })
	if s, _ := f.view.Server("h1-0"); s.Reason != "the disk is gone" {
		f.Errorf("%+v", s)
	}
	if ack := f.ask("h1-0", Reserved, a); ack.Phase != Refused {
		f.Errorf("%+v", ack)
	}
	if ack := f.ask("h1-0", Exited, nil); ack.Phase != Applied && ack.Phase != Superseded {
		f.Errorf("%+v", ack)
	}
	select {
	case <-m.Done(): // it was the only server
	case <-f.ctx.Done():
		f.Fatal("the member of which all servers have exited is still there")
	}
	f.await("it is gone", func() bool { return len(f.view.Members()) == 0 })
}

func requestIsOvertaken(f *fixture) {
	m := f.join("h1", 1)
	m.workers[0].hold = make(chan struct{})
	a := &Assignment{"e", "1", 0}
	f.ask("h1-0", Reserved, a)
	first, err := f.view.Request(f.ctx, "h1-0", Ready, a, "test")
	if err != nil {
		f.Fatal(err)
	}
	f.await("it initializes", func() bool { s, _ := f.view.Server("h1-0"); return s.State == Initializing })
	if ack := f.ask("h1-0", Terminated, a); ack.Phase != Applied || ack.Supersedes != first {
		f.Errorf("%+v, want it to supersede %s", ack, first)
	}
	if ack, err := f.view.AwaitAck(f.ctx, "h1-0", first); err != nil || ack.Phase != Superseded {
		f.Errorf("the first: %+v, %v", ack, err)
	}
	if got := m.workers[0].did(); got != "terminate" {
		f.Errorf("the runner did %q", got)
	}
}

// askedInALifeBefore: who begins to wait for an answer when the server is in its next life already isn't kept waiting.
func askedInALifeBefore(f *fixture) {
	m := f.join("h1", 1)
	m.workers[0].hold = make(chan struct{})
	a := &Assignment{"e", "1", 0}
	f.ask("h1-0", Reserved, a)
	id, err := f.view.Request(f.ctx, "h1-0", Ready, a, "test")
	if err != nil {
		f.Fatal(err)
	}
	before := m.Member().Incarnation
	m.client.EndSession()
	f.await("the server is back", func() bool {
		s, ok := f.view.Server("h1-0")
		return ok && s.Incarnation != before && s.Incarnation == f.incarnation("h1")
	})
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	if ack, err := f.view.AwaitAck(ctx, "h1-0", id); err != nil || ack.Phase != Superseded && ack.Phase != Refused {
		f.Errorf("%+v, %v", ack, err)
	}
}

func refusedAtJoin(f *fixture) {
	f.join("h1", 1)
	s, _ := f.client()
	o, _ := f.options("h1", 1)
	if _, err := Join(f.ctx, s, o); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		f.Errorf("a second h1: %v", err)
	}
	o.Name, o.Version = "h2", "v2"
	if _, err := Join(f.ctx, s, o); err == nil || !strings.Contains(err.Error(), "v1") ||
		!strings.Contains(err.Error(), "v2") {
		f.Errorf("another version: %v", err)
	}
	o.MixedBuilds = true
	m, err := Join(f.ctx, s, o)
	if err != nil {
		f.Fatal(err)
	}
	if err := m.Leave(f.ctx); err != nil {
		f.Error(err)
	}
	if err := f.store.Put(f.ctx, dirMembers+"/old", Member{Name: "old", Layout: 7, Incarnation: "x"}); err != nil {
		f.Fatal(err)
	}
	o.Name = "h3"
	if _, err := Join(f.ctx, s, o); err == nil || !strings.Contains(err.Error(), "format 7") {
		f.Errorf("another format: %v", err)
	}
}

// keysOfADeadProcess: what a process of this machine left that is no more doesn't keep its successor waiting, and
// its supervisor can remove it.
func keysOfADeadProcess(f *fixture) {
	gone := f.left("h1")
	m := f.join("h1", 1)
	if s, _ := f.view.Server("h1-0"); s.State != Available {
		f.Errorf("%+v", s)
	}
	if err := Remove(f.ctx, f.store, "h1", gone); err != nil || !m.Ready() {
		f.Errorf("removing another process' keys: %v", err)
	}
	if s, ok := f.view.Server("h1-0"); !ok || s.State != Available {
		f.Errorf("%+v", s)
	}
	if err := m.Leave(f.ctx); err != nil {
		f.Fatal(err)
	}
	gone = f.left("h1")
	if err := Remove(f.ctx, f.store, "h1", gone); err != nil {
		f.Fatal(err)
	}
	f.empty()
}

// heldByADeadProcess: what a member held beside its own keys is free as soon as its supervisor has removed it: the
// leadership, and an item of a queue.
func heldByADeadProcess(f *fixture) {
	dead, other := f.join("h1", 1), f.join("h2", 0)
	lead, err := dead.Lead(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := dead.store.Enqueue(f.ctx, "q", 1); err != nil {
		f.Fatal(err)
	}
	item, err := dead.store.Dequeue(f.ctx, "q")
	if err != nil {
		f.Fatal(err)
	}
	if err := Remove(f.ctx, f.store, "h1", os.Getpid()); err != nil {
		f.Fatal(err)
	}
	if _, err := other.Lead(f.ctx); err != nil {
		f.Error(err)
	}
	<-lead.Lost()
	again, err := other.store.Dequeue(f.ctx, "q")
	if err != nil || again.Token <= item.Token {
		f.Errorf("the item: %+v, %v", again, err)
	}
	if err := item.Consume(f.ctx, nil); !errors.Is(err, metastore.ErrSessionLost) {
		f.Errorf("consumed by one who was taken for dead: %v", err)
	}
}

// sessionLost: the member comes back as another incarnation with its servers as they are by then, and requests
// for the life before are refused.
func sessionLost(f *fixture) {
	m := f.join("h1", 1)
	a := &Assignment{"e", "1", 0}
	f.activate("h1-0", a)
	before := f.incarnation("h1")
	m.client.EndSession()
	f.await("it is back", func() bool { i := f.incarnation("h1"); return i != before && i != "none" })
	f.await("its server is back", func() bool {
		s,
			_ := f.view.Server("h1-0")
		return s.Incarnation == f.incarnation("h1")
	})
	if s, _ := f.view.Server("h1-0"); s.State != Active || *s.Info.Assignment != *a {
		f.Errorf("%+v", s)
	} else if s.Ack != nil && s.Ack.Phase != Refused {
		f.Errorf("the new life shows an answer of the one before: %+v", s.Ack)
	}
	if err := f.store.Put(f.ctx, dirDesired+"/h1-0", Request{ID: "old", Incarnation: before, State: Paused,
		Assignment: a}); err != nil {
		f.Fatal(err)
	}
	f.await("the old request is refused", func() bool {
		s, _ := f.view.Server("h1-0")
		return s.Ack != nil && s.Ack.Request == "old"
	})
	if s, _ := f.view.Server("h1-0"); s.Ack.Phase != Refused || !strings.Contains(s.Ack.Error, "incarnation") {
		f.Errorf("%+v", s.Ack)
	}
	if got := m.workers[0].did(); got != "initialize activate" {
		f.Errorf("the runner did %q", got)
	}
}

// keyIsDeleted: what an operator deletes of a member that lives comes back.
func keyIsDeleted(f *fixture) {
	m := f.join("h1", 1)
	before := m.Member().Incarnation
	f.surely(func() error { return f.store.Delete(f.ctx, dirMembers+"/h1") })
	f.await("it is back", func() bool {
		s, _ := f.view.Server("h1-0")
		return s.Incarnation != before && s.Incarnation == f.incarnation("h1") && s.State == Available
	})
	// A server's key comes back with the next change of its state, and is the session's again.
	for _, c := range []struct {
		dir    string
		change func()
	}{
		{dirInfo, func() { f.activate("h1-0", &Assignment{"e", "1", 0}) }},
		{dirServers, func() { m.workers[0].Ended(nil) }},
	} {
		if err := f.store.Delete(f.ctx, c.dir+"/h1-0"); err != nil {
			f.Fatal(err)
		}
		c.change()
		f.await("the server's keys are back", func() bool {
			status, err := f.store.Get(f.ctx, dirServers+"/h1-0")
			info, err2 := f.store.Get(f.ctx, dirInfo+"/h1-0")
			s, _ := f.view.Server("h1-0")
			return err == nil && err2 == nil && status.Ephemeral && info.Ephemeral && s.State != Broken
		})
	}
	before = m.Member().Incarnation
	if err := f.store.DeleteTree(f.ctx, "cluster"); err != nil {
		f.Fatal(err)
	}
	f.await("it is back where all was deleted", func() bool {
		s, _ := f.view.Server("h1-0")
		return s.Incarnation != before && s.Incarnation == f.incarnation("h1") && s.State == Available
	})
}

// keyIsOverwritten: what somebody writes over the key of a member that lives is taken away again. Where it isn't the
// member's, joining says what to do. Others are unaffected.
func keyIsOverwritten(f *fixture) {
	m := f.join("h1", 1)
	key := dirMembers + "/h1"
	for _, value := range []any{map[string]int{"nonsense": 1}, "no member", Member{Name: "h1", Layout: Layout}} {
		before := m.Member().Incarnation
		if err := f.store.Put(f.ctx, key, value); err != nil {
			f.Fatal(err)
		}
		f.await("it is back", func() bool {
			s, _ := f.view.Server("h1-0")
			return s.Incarnation != before && s.Incarnation == f.incarnation("h1") && s.State == Available
		})
	}
	o, _ := f.options("h3", 1)
	if err := f.store.Put(f.ctx, dirMembers+"/h3", map[string]int{"nonsense": 1}); err != nil {
		f.Fatal(err)
	}
	if _, err := Join(f.ctx, f.store, o); err == nil ||
		!strings.Contains(err.Error(), "`store rm cluster/members/h3`") {
		f.Errorf("joining where something else is: %v", err)
	}
	f.join("h2", 1)
	if err := f.store.Delete(f.ctx, dirMembers+"/h3"); err != nil {
		f.Fatal(err)
	}
	f.join("h3", 1)
}

// storeOutage: what runs goes on, whatever becomes of the store, unless StopAfter says otherwise.
func storeOutage(f *fixture) {
	on, off := f.join("h1", 1), f.join("h2", 1, func(o *Options) { o.StopAfter = f.server.ttl() })
	f.activate("h1-0", &Assignment{"e", "1", 0})
	f.activate("h2-0", &Assignment{"e", "1", 1})
	f.server.stop(f.T)
	for off.workers[0].did() != "initialize activate terminate" {
		time.Sleep(10 * time.Millisecond)
		if f.ctx.Err() != nil {
			f.Fatalf("h2 did %q", off.workers[0].did())
		}
	}
	if on.Ready() || off.Ready() {
		f.Error("ready without a session")
	}
	f.server.start(f.T)
	f.await("both are back", func() bool {
		a, _ := f.view.Server("h1-0")
		b, _ := f.view.Server("h2-0")
		return a.State == Active && a.Incarnation == f.incarnation("h1") && b.State == Available &&
			b.Incarnation == f.incarnation("h2")
	})
	if b, _ := f.view.Server("h2-0"); b.Last == nil || b.Last.Result != PartitionFailed {
		f.Errorf("%+v", b.Last)
	}
	if got := on.workers[0].did(); got != "initialize activate" {
		f.Errorf("h1 did %q", got)
	}
}

func malformed(f *fixture) {
	f.join("h1", 3)
	raw := func(key, value string) {
		f.Helper()
		if err := f.store.Put(f.ctx, key, value); err != nil {
			f.Fatal(err)
		}
	}
	raw(dirInfo+"/h1-1", "no info")
	raw(dirServers+"/h1-2", "no status")
	raw(dirMembers+"/h9", "no member")
	// Keys that hold nothing, but have something below, keep nobody waiting, either.
	raw(dirServers+"/x/y", "below")
	raw(dirMembers+"/x/y", "below")
	raw(dirServers+"/z", "no status")
	raw(dirInfo+"/z/y", "below")
	f.await("two are broken", func() bool {
		a, _ := f.view.Server("h1-1")
		b, _ := f.view.Server("h1-2")
		return a.State == Broken && b.State == Broken && a.Reason != "" && b.Reason != ""
	})
	if names, _ := f.view.Available("e"); !slices.Equal(names, []string{"h1-0"}) {
		f.Errorf("Available: %v", names)
	}
	f.await("the members are told", func() bool {
		return f.view.Malformed()["h9"] != nil && f.view.Malformed()["x"] != nil
	})
	if len(f.view.Members()) != 1 {
		f.Errorf("%+v", f.view.Members())
	}
	second, err := Open(f.ctx, f.store)
	if err != nil {
		f.Fatal(err)
	}
	defer second.Close()
	for _, name := range []string{"x", "z"} {
		if s, ok := second.Server(name); !ok || s.State != Broken || s.Reason == "" {
			f.Errorf("%s: %+v %v", name, s, ok)
		}
	}
}

func drain(f *fixture) {
	f.join("h1", 2)
	f.join("h2", 1)
	for _, c := range []struct{ name, left string }{{"h1", "h2-0"}, {"h1-0", "h1-1 h2-0"}, {"h2", "h1-0 h1-1"}} {
		if err := Drain(f.ctx, f.store, c.name, "test"); err != nil {
			f.Fatal(err)
		}
		f.await(c.name+" is drained", func() bool { return slices.Equal(f.view.Drained(), []string{c.name}) })
		if names, _ := f.view.Available("e"); strings.Join(names, " ") != c.left {
			f.Errorf("%s drained: %v, want %v", c.name, names, c.left)
		}
		if err := Resume(f.ctx, f.store, c.name); err != nil {
			f.Fatal(err)
		}
		f.await("it is back", func() bool { return len(f.view.Drained()) == 0 })
	}
	if names, _ := f.view.Available("e"); len(names) != 3 {
		f.Errorf("%v", names)
	}
}

func events(f *fixture) {
	early := f.view.Subscribe()
	defer early.Close()
	m := f.join("h1", 0, func(o *Options) { o.Roles = []string{"front"} })
	f.await("it is up", func() bool { return f.incarnation("h1") != "none" })
	if err := f.view.AwaitMembers(f.ctx, "front", 1); err != nil {
		f.Fatal(err)
	}
	short, cancel := context.WithTimeout(f.ctx, 20*time.Millisecond)
	defer cancel()
	if err := f.view.AwaitMembers(short, "back", 1); err == nil || !strings.Contains(err.Error(), "0 are up") {
		f.Errorf("%v", err)
	}
	f.view.SetReachable("h1", false)
	f.view.SetReachable("h1", false)
	late := f.view.Subscribe()
	defer late.Close()
	f.view.SetReachable("h1", true)
	f.view.SetReachable("h1", false)
	before := f.incarnation("h1")
	m.client.EndSession()
	f.await("it is back", func() bool { i := f.incarnation("h1"); return i != before && i != "none" })
	f.await("it is up again", func() bool { return len(f.view.WithRole("front")) == 1 })
	last := f.view.Subscribe() // the new life hasn't been unreachable yet
	defer last.Close()
	if err := m.Leave(f.ctx); err != nil {
		f.Fatal(err)
	}
	f.await("it has left", func() bool { return len(f.view.Members()) == 0 })
	all := []EventKind{MemberJoined, MemberUp, Unreachable, Reachable, Unreachable, MemberDown, MemberJoined, MemberUp}
	for who, s := range map[string]*Subscription{"early": early, "late": late, "last": last} {
		var got []EventKind
		want := all
		if s == last {
			want = []EventKind{MemberJoined, MemberUp}
		}
		for range want {
			e, err := s.Next(f.ctx)
			if err != nil || e.Member.Name != "h1" {
				f.Fatalf("%s: %+v, %v", who, e, err)
			}
			got = append(got, e.Kind)
		}
		if !reflect.DeepEqual(got, want) {
			f.Errorf("%s: %v, want %v", who, got, want)
		}
		for { // the view may have seen it leaving, or only that it is gone
			e, err := s.Next(f.ctx)
			if err != nil {
				f.Fatalf("%s: %v", who, err)
			}
			if e.Kind == MemberLeft || e.Kind == MemberDown {
				break
			}
			if e.Kind != MemberLeaving {
				f.Errorf("%s: %v at the end", who, e.Kind)
			}
		}
	}
}

// noLostWakeUp: every change between two calls of AwaitAvailable is returned by the second, and a timeout is told
// from a change.
func noLostWakeUp(f *fixture) {
	change, err := f.view.AwaitAvailable(f.ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	for i := range 200 {
		f.surely(func() error { return f.store.Put(f.ctx, fmt.Sprintf("%s/x%d", dirDrained, i), 1) })
		for len(f.view.Drained()) <= i {
			if change, err = f.view.AwaitAvailable(f.ctx, change); err != nil {
				f.Fatal(err)
			}
		}
	}
	if change, err = f.view.AwaitAvailable(f.ctx, 0); err != nil { // the present: the last one may have come twice
		f.Fatal(err)
	}
	short, cancel := context.WithTimeout(f.ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := f.view.AwaitAvailable(short, change); !errors.Is(err, context.DeadlineExceeded) {
		f.Errorf("without a change: %v", err)
	}
}

// TestChangeDuringDone: what changes while Await asks done is seen, although nothing changes afterwards.
func TestChangeDuringDone(t *testing.T) {
	f := setUp(t)
	calls := 0
	f.await("done is asked again", func() bool {
		if calls++; calls > 1 {
			return true
		}
		if err := Drain(f.ctx, f.store, "h1", "test"); err != nil {
			t.Fatal(err)
		}
		for len(f.view.Drained()) == 0 && f.ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		return false
	})
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

func oneLeader(f *fixture) {
	a, b := f.join("h1", 0), f.join("h2", 0)
	lead, err := a.Lead(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	second := make(chan *metastore.Lead, 1)
	go func() {
		l, err := b.Lead(f.ctx)
		if err != nil {
			f.Error(err)
		}
		second <- l
	}()
	if r, ok, err := f.view.Leader(f.ctx); !ok || err != nil || r.Member != "h1" {
		f.Errorf("%+v %v %v", r, ok, err)
	}
	guard := lead.Guard()
	a.client.EndSession()
	<-lead.Lost()
	next := <-second
	if next.Token() <= lead.Token() {
		f.Errorf("token %d after %d", next.Token(), lead.Token())
	}
	value, err := f.store.Encode(1)
	if err != nil {
		f.Fatal(err)
	}
	write := []metastore.Op{{Path: "fenced", Do: metastore.Set, Value: value}}
	var conflict *metastore.ConflictError
	if err := f.store.Commit(f.ctx, []metastore.Cond{guard}, write); !errors.As(err, &conflict) {
		f.Errorf("the first leader still writes: %v", err)
	}
	if err := f.store.Commit(f.ctx, []metastore.Cond{next.Guard()}, write); err != nil {
		f.Errorf("the second leader: %v", err)
	}
	f.join("h3", 1)
	to := &Assignment{"e", "1", 0}
	if _, err := f.view.Request(f.ctx, "h3-0", Reserved, to, "first", guard); !errors.As(err, &conflict) {
		f.Errorf("the first leader still asks: %v", err)
	}
	if s, _ := f.view.Server("h3-0"); s.State != Available || s.Ack != nil {
		f.Errorf("asked by the first leader: %+v", s)
	}
	if ack, err := f.view.Ask(f.ctx, "h3-0", Reserved, to, "second", next.Guard()); err != nil || ack.Phase != Applied {
		f.Errorf("the second leader asks: %+v, %v", ack, err)
	}
	if err := next.Resign(f.ctx); err != nil {
		f.Error(err)
	}
}

// viewEqualsStore does random things to members, their sessions and the store, and compares the view with what
// the store holds once all is quiet, and with a view that was made then.
func viewEqualsStore(f *fixture) {
	r := seed.Rand(f.T)
	steps := 60
	if p, ok := f.server.(*process); ok {
		p.life = 2 * time.Second // many sessions are to end
		steps = 25
		if testing.Short() {
			steps = 10
		}
	}
	ttl := f.server.ttl()
	here := map[string]*member{}
	names := []string{"a", "b", "c", "d", "e"}
	var reconnects sync.WaitGroup
	for range steps {
		name := names[r.IntN(len(names))]
		m := here[name]
		switch k := r.IntN(10); {
		case m == nil && k < 6:
			here[name] = f.join(name, r.IntN(3))
		case m == nil:
		case k < 2:
			if err := m.Leave(f.ctx); err != nil {
				f.Fatal(err)
			}
			delete(here, name)
		case k < 4:
			m.client.EndSession()
		case k < 5:
			m.client.Disconnect()
			away := time.Duration(r.IntN(int(2 * ttl)))
			reconnects.Go(func() { time.Sleep(away); m.client.Reconnect() })
		case k < 6:
			f.server.stop(f.T)
			time.Sleep(time.Duration(r.IntN(int(ttl))))
			f.server.start(f.T)
		case k < 8 && m.options.Slots > 0:
			ctx, cancel := context.WithTimeout(f.ctx, ttl)
			if s, ok := f.view.Server(name + "-0"); ok {
				a := s.Info.Assignment
				if s.State == Available {
					a = &Assignment{"e", name, r.IntN(4)}
				}
				_, _ = f.view.Ask(ctx, name+"-0", Available+State(r.IntN(7)), a,
					"test") // refusals and timeouts are fine
			}
			cancel()
		case k < 9:
			m.client.Disconnect()
			time.Sleep(2 * ttl)
			m.client.Reconnect()
		}
	}
	reconnects.Wait()
	time.Sleep(ttl) // sessions of those that were away have been renewed, or have ended
	f.eventually("all are up, and have answered", func() bool {
		for name, m := range here {
			if !m.Ready() || f.incarnation(name) != m.Member().Incarnation {
				return false
			}
		}
		return len(f.view.Members()) == len(here) && f.answered()
	})
	other, err := Open(f.ctx, f.store)
	if err != nil {
		f.Fatal(err)
	}
	defer other.Close()
	f.await("the view equals a new one", func() bool {
		return reflect.DeepEqual(f.view.Servers(), other.Servers()) && reflect.DeepEqual(f.view.Members(),
			other.Members()) &&
			reflect.DeepEqual(f.view.AddressBook().All(), other.AddressBook().All())
	})
	f.equalsStore()
}

// answered tells whether no server has a request that it hasn't answered.
func (f *fixture) answered() bool {
	for _, s := range f.view.Servers() {
		v, err := f.store.Get(f.ctx, dirDesired+"/"+s.Name)
		if errors.Is(err, metastore.ErrNoNode) {
			continue
		}
		var r Request
		if err != nil || v.Decode(&r) != nil || !s.Ack.final() || s.Ack.Request != r.ID {
			return false
		}
	}
	return true
}

// equalsStore compares the view with what the store holds, read key by key, until they are the same: a session may have
// ended in between, where the processors are busy.
func (f *fixture) equalsStore() {
	f.Helper()
	differs := "nothing was read"
	for end := time.Now().Add(time.Minute); differs != "" && time.Now().Before(end); {
		if differs = f.differsFromStore(); differs != "" {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if differs != "" {
		f.Fatal(differs)
	}
}

func (f *fixture) differsFromStore() string {
	names, err := f.store.Members(f.ctx, dirServers)
	if err != nil {
		return err.Error()
	}
	servers := f.view.Servers()
	if len(servers) != len(names) {
		return fmt.Sprintf("the view has %d servers, the store %v", len(servers), names)
	}
	for i, name := range names {
		var status Status
		var info Info
		for key, into := range map[string]any{dirServers: &status, dirInfo: &info} {
			v, err := f.store.Get(f.ctx, key+"/"+name)
			if err == nil {
				err = v.Decode(into)
			}
			if err != nil {
				return fmt.Sprintf("%s/%s: %v", key, name, err)
			}
		}
		if want := (Server{Name: name, Status: status, Info: info}); !reflect.DeepEqual(servers[i], want) {
			return fmt.Sprintf("the view has %+v\nthe store %+v", servers[i], want)
		}
	}
	return ""
}
