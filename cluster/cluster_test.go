// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
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

func setUp(t *testing.T) *fixture {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	f := &fixture{T: t, ctx: ctx, server: under, group: "test-" + rand.Text()}
	if f.server == nil {
		f.server = memory{mem.NewServer(200 * time.Millisecond)}
	}
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
	return s, c
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
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	if err := f.view.Await(ctx, done); err != nil {
		f.Fatalf("waiting until %s: %v\n%+v\n%+v", what, err, f.view.Members(), f.view.Servers())
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

func TestLifeOfAServer(t *testing.T) {
	f := setUp(t)
	m := f.join("h1", 2)
	if !m.Ready() || len(f.view.Servers()) != 2 {
		t.Fatalf("ready: %v, %+v", m.Ready(), f.view.Servers())
	}
	a := &Assignment{"exp", "7", 3}
	f.activate("h1-1", a)
	s, _ := f.view.Server("h1-1")
	if s.State != Active || *s.Info.Assignment != *a || !slices.Equal(s.Info.Nodes, []string{"node-3"}) ||
		s.Info.Application != "shop" || s.Info.Member != "h1" || s.Info.Slot != 1 {
		t.Errorf("%+v", s)
	}
	book := f.view.AddressBook()
	if server, ok := book.Lookup(Place{"7", "node-3"}); !ok || server != "h1-1" || book.Len() != 1 {
		t.Errorf("address book: %v %v %v", server, ok, book.All())
	}
	if book != f.view.AddressBook() {
		t.Error("the book is made anew without a change")
	}
	if ack := f.ask("h1-1", Reserved, a); ack.Phase != Refused || ack.State != Active {
		t.Errorf("%+v", ack)
	}
	if ack := f.ask("h1-1", Terminated, a); ack.Phase != Applied || ack.Result != PartitionCanceled {
		t.Errorf("%+v", ack)
	}
	if got := m.workers[1].did(); got != "initialize activate terminate" || m.workers[0].did() != "" {
		t.Errorf("the runner did %q, the other one %q", got, m.workers[0].did())
	}
	f.await("the server is free again", func() bool { s, _ := f.view.Server("h1-1"); return s.State == Available })
	if book := f.view.AddressBook(); book.Len() != 0 {
		t.Errorf("address book: %v", book.All())
	}
	names, parts := f.view.Available("exp")
	if !slices.Equal(names, []string{"h1-1", "h1-0"}) || !slices.Equal(parts, []int{3}) {
		t.Errorf("Available: %v %v: h1-1 still has partition 3 loaded", names, parts)
	}
	if err := m.Leave(f.ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.Leave(f.ctx); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("the second Leave: %v", err)
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

func TestPartitionEndsByItself(t *testing.T) {
	f := setUp(t)
	m := f.join("h1", 1)
	a := &Assignment{"e", "1", 0}
	f.activate("h1-0", a)
	m.workers[0].Ended(nil)
	f.await("it has finished", func() bool { s, _ := f.view.Server("h1-0"); return s.State == Available })
	if s, _ := f.view.Server("h1-0"); s.Last == nil || s.Last.Result != PartitionFinished || s.Last.Assignment != *a {
		t.Errorf("%+v", s.Last)
	}
	m.workers[0].fail["initialize"] = errors.New("no such file")
	f.ask("h1-0", Reserved, a)
	if ack := f.ask("h1-0", Ready, a); ack.Phase != Failed || ack.State != Available || ack.Error != "no such file" {
		t.Errorf("%+v", ack)
	}
	m.workers[0].Broken("the disk is gone")
	f.await("it is broken", func() bool { s, _ := f.view.Server("h1-0"); return s.State == Broken })
	if s, _ := f.view.Server("h1-0"); s.Reason != "the disk is gone" {
		t.Errorf("%+v", s)
	}
	if ack := f.ask("h1-0", Reserved, a); ack.Phase != Refused {
		t.Errorf("%+v", ack)
	}
	if ack := f.ask("h1-0", Exited, nil); ack.Phase != Applied && ack.Phase != Superseded {
		t.Errorf("%+v", ack)
	}
	select {
	case <-m.Done(): // it was the only server
	case <-f.ctx.Done():
		t.Fatal("the member of which all servers have exited is still there")
	}
	f.await("it is gone", func() bool { return len(f.view.Members()) == 0 })
}

func TestRequestIsOvertaken(t *testing.T) {
	f := setUp(t)
	m := f.join("h1", 1)
	m.workers[0].hold = make(chan struct{})
	a := &Assignment{"e", "1", 0}
	f.ask("h1-0", Reserved, a)
	first, err := f.view.Request(f.ctx, "h1-0", Ready, a, "test")
	if err != nil {
		t.Fatal(err)
	}
	f.await("it initializes", func() bool { s, _ := f.view.Server("h1-0"); return s.State == Initializing })
	if ack := f.ask("h1-0", Terminated, a); ack.Phase != Applied || ack.Supersedes != first {
		t.Errorf("%+v, want it to supersede %s", ack, first)
	}
	if ack, err := f.view.AwaitAck(f.ctx, "h1-0", first); err != nil || ack.Phase != Superseded {
		t.Errorf("the first: %+v, %v", ack, err)
	}
	if got := m.workers[0].did(); got != "terminate" {
		t.Errorf("the runner did %q", got)
	}
}

func TestRefusedAtJoin(t *testing.T) {
	f := setUp(t)
	f.join("h1", 1)
	s, _ := f.client()
	o, _ := f.options("h1", 1)
	if _, err := Join(f.ctx, s, o); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second h1: %v", err)
	}
	o.Name, o.Version = "h2", "v2"
	if _, err := Join(f.ctx, s, o); err == nil || !strings.Contains(err.Error(), "v1") ||
		!strings.Contains(err.Error(), "v2") {
		t.Errorf("another version: %v", err)
	}
	o.MixedBuilds = true
	m, err := Join(f.ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Leave(f.ctx); err != nil {
		t.Error(err)
	}
	if err := f.store.Put(f.ctx, dirMembers+"/old", Member{Name: "old", Layout: 7, Incarnation: "x"}); err != nil {
		t.Fatal(err)
	}
	o.Name = "h3"
	if _, err := Join(f.ctx, s, o); err == nil || !strings.Contains(err.Error(), "format 7") {
		t.Errorf("another format: %v", err)
	}
}

// TestKeysOfADeadProcess: what a process of this machine left that is no more doesn't keep its successor waiting, and
// its supervisor can remove it.
func TestKeysOfADeadProcess(t *testing.T) {
	f := setUp(t)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	put := func() {
		if err := f.store.Put(f.ctx, dirMembers+"/h1", Member{Name: "h1", Status: Up, Layout: Layout, Version: "v1",
			Incarnation: "before", Pid: gone.Process.Pid, Origin: origin(), Slots: 1}); err != nil {
			t.Fatal(err)
		}
		if err := f.store.Put(f.ctx, dirServers+"/h1-0", Status{State: Active, Incarnation: "before"}); err != nil {
			t.Fatal(err)
		}
	}
	put()
	m := f.join("h1", 1)
	if s, _ := f.view.Server("h1-0"); s.State != Available {
		t.Errorf("%+v", s)
	}
	if err := Remove(f.ctx, f.store, "h1", gone.Process.Pid); err != nil || !m.Ready() {
		t.Errorf("removing another process' keys: %v", err)
	}
	if s, ok := f.view.Server("h1-0"); !ok || s.State != Available {
		t.Errorf("%+v", s)
	}
	if err := m.Leave(f.ctx); err != nil {
		t.Fatal(err)
	}
	put()
	if err := Remove(f.ctx, f.store, "h1", gone.Process.Pid); err != nil {
		t.Fatal(err)
	}
	f.empty()
}

// TestSessionLost: the member comes back as another incarnation with its servers as they are by then, and requests
// for the life before are refused.
func TestSessionLost(t *testing.T) {
	f := setUp(t)
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
		t.Errorf("%+v", s)
	}
	if err := f.store.Put(f.ctx, dirDesired+"/h1-0", Request{ID: "old", Incarnation: before, State: Paused,
		Assignment: a}); err != nil {
		t.Fatal(err)
	}
	f.await("the old request is refused", func() bool {
		s, _ := f.view.Server("h1-0")
		return s.Ack != nil && s.Ack.Request == "old"
	})
	if s, _ := f.view.Server("h1-0"); s.Ack.Phase != Refused || !strings.Contains(s.Ack.Error, "incarnation") {
		t.Errorf("%+v", s.Ack)
	}
	if got := m.workers[0].did(); got != "initialize activate" {
		t.Errorf("the runner did %q", got)
	}
}

// TestKeyIsDeleted: a member whose key somebody has deleted comes back by itself.
func TestKeyIsDeleted(t *testing.T) {
	f := setUp(t)
	m := f.join("h1", 1)
	before := m.Member().Incarnation
	if err := f.store.Delete(f.ctx, dirMembers+"/h1"); err != nil {
		t.Fatal(err)
	}
	f.await("it is back", func() bool {
		s, _ := f.view.Server("h1-0")
		return s.Incarnation != before && s.Incarnation == f.incarnation("h1") && s.State == Available
	})
}

// TestStoreOutage: what runs goes on, whatever becomes of the store, unless StopAfter says otherwise.
func TestStoreOutage(t *testing.T) {
	f := setUp(t)
	on, off := f.join("h1", 1), f.join("h2", 1, func(o *Options) { o.StopAfter = f.server.ttl() })
	f.activate("h1-0", &Assignment{"e", "1", 0})
	f.activate("h2-0", &Assignment{"e", "1", 1})
	f.server.stop(f.T)
	for off.workers[0].did() != "initialize activate terminate" {
		time.Sleep(10 * time.Millisecond)
		if f.ctx.Err() != nil {
			t.Fatalf("h2 did %q", off.workers[0].did())
		}
	}
	if on.Ready() || off.Ready() {
		t.Error("ready without a session")
	}
	f.server.start(f.T)
	f.await("both are back", func() bool {
		a, _ := f.view.Server("h1-0")
		b, _ := f.view.Server("h2-0")
		return a.State == Active && a.Incarnation == f.incarnation("h1") && b.State == Available &&
			b.Incarnation == f.incarnation("h2")
	})
	if b, _ := f.view.Server("h2-0"); b.Last == nil || b.Last.Result != PartitionFailed {
		t.Errorf("%+v", b.Last)
	}
	if got := on.workers[0].did(); got != "initialize activate" {
		t.Errorf("h1 did %q", got)
	}
}

func TestMalformed(t *testing.T) {
	f := setUp(t)
	f.join("h1", 3)
	raw := func(key, value string) {
		t.Helper()
		if err := f.store.Put(f.ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	raw(dirInfo+"/h1-1", "no info")
	raw(dirServers+"/h1-2", "no status")
	raw(dirMembers+"/h9", "no member")
	f.await("two are broken", func() bool {
		a, _ := f.view.Server("h1-1")
		b, _ := f.view.Server("h1-2")
		return a.State == Broken && b.State == Broken && a.Reason != "" && b.Reason != ""
	})
	if names, _ := f.view.Available("e"); !slices.Equal(names, []string{"h1-0"}) {
		t.Errorf("Available: %v", names)
	}
	f.await("the member is told", func() bool { return f.view.Malformed()["h9"] != nil })
	if len(f.view.Members()) != 1 {
		t.Errorf("%+v", f.view.Members())
	}
}

func TestDrain(t *testing.T) {
	f := setUp(t)
	f.join("h1", 2)
	f.join("h2", 1)
	for _, c := range []struct{ name, left string }{{"h1", "h2-0"}, {"h1-0", "h1-1 h2-0"}, {"h2", "h1-0 h1-1"}} {
		if err := Drain(f.ctx, f.store, c.name, "test"); err != nil {
			t.Fatal(err)
		}
		f.await(c.name+" is drained", func() bool { return slices.Equal(f.view.Drained(), []string{c.name}) })
		if names, _ := f.view.Available("e"); strings.Join(names, " ") != c.left {
			t.Errorf("%s drained: %v, want %v", c.name, names, c.left)
		}
		if err := Resume(f.ctx, f.store, c.name); err != nil {
			t.Fatal(err)
		}
		f.await("it is back", func() bool { return len(f.view.Drained()) == 0 })
	}
	if names, _ := f.view.Available("e"); len(names) != 3 {
		t.Errorf("%v", names)
	}
}

func TestEvents(t *testing.T) {
	f := setUp(t)
	early := f.view.Subscribe()
	defer early.Close()
	m := f.join("h1", 0, func(o *Options) { o.Roles = []string{"front"} })
	f.await("it is up", func() bool { return f.incarnation("h1") != "none" })
	if err := f.view.AwaitMembers(f.ctx, "front", 1); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(f.ctx, 20*time.Millisecond)
	defer cancel()
	if err := f.view.AwaitMembers(short, "back", 1); err == nil || !strings.Contains(err.Error(), "0 are up") {
		t.Errorf("%v", err)
	}
	f.view.SetReachable("h1", false)
	f.view.SetReachable("h1", false)
	late := f.view.Subscribe()
	defer late.Close()
	f.view.SetReachable("h1", true)
	before := f.incarnation("h1")
	m.client.EndSession()
	f.await("it is back", func() bool { i := f.incarnation("h1"); return i != before && i != "none" })
	if err := m.Leave(f.ctx); err != nil {
		t.Fatal(err)
	}
	f.await("it has left", func() bool { return len(f.view.Members()) == 0 })
	want := []EventKind{MemberJoined, MemberUp, Unreachable, Reachable, MemberDown, MemberJoined, MemberUp}
	for who, s := range map[string]*Subscription{"early": early, "late": late} {
		var got []EventKind
		for range want {
			e, err := s.Next(f.ctx)
			if err != nil || e.Member.Name != "h1" {
				t.Fatalf("%s: %+v, %v", who, e, err)
			}
			got = append(got, e.Kind)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", who, got, want)
		}
		for { // the view may have seen it leaving, or only that it is gone
			e, err := s.Next(f.ctx)
			if err != nil {
				t.Fatalf("%s: %v", who, err)
			}
			if e.Kind == MemberLeft || e.Kind == MemberDown {
				break
			}
			if e.Kind != MemberLeaving {
				t.Errorf("%s: %v at the end", who, e.Kind)
			}
		}
	}
}

// TestNoLostWakeUp: every change between two calls of AwaitAvailable is returned by the second, and a timeout is told
// from a change.
func TestNoLostWakeUp(t *testing.T) {
	f := setUp(t)
	change, err := f.view.AwaitAvailable(f.ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := f.store.Put(f.ctx, fmt.Sprintf("%s/x%d", dirDrained, i), 1); err != nil {
			t.Fatal(err)
		}
		for len(f.view.Drained()) <= i {
			if change, err = f.view.AwaitAvailable(f.ctx, change); err != nil {
				t.Fatal(err)
			}
		}
	}
	if change, err = f.view.AwaitAvailable(f.ctx, 0); err != nil { // the present: the last one may have come twice
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(f.ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := f.view.AwaitAvailable(short, change); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a change: %v", err)
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

func TestOneLeader(t *testing.T) {
	f := setUp(t)
	a, b := f.join("h1", 0), f.join("h2", 0)
	lead, err := a.Lead(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan *metastore.Lead, 1)
	go func() {
		l, err := b.Lead(f.ctx)
		if err != nil {
			t.Error(err)
		}
		second <- l
	}()
	if r, ok, err := f.view.Leader(f.ctx); !ok || err != nil || r.Member != "h1" {
		t.Errorf("%+v %v %v", r, ok, err)
	}
	guard := lead.Guard()
	a.client.EndSession()
	<-lead.Lost()
	next := <-second
	if next.Token() <= lead.Token() {
		t.Errorf("token %d after %d", next.Token(), lead.Token())
	}
	value, err := f.store.Encode(1)
	if err != nil {
		t.Fatal(err)
	}
	write := []metastore.Op{{Path: "fenced", Do: metastore.Set, Value: value}}
	var conflict *metastore.ConflictError
	if err := f.store.Commit(f.ctx, []metastore.Cond{guard}, write); !errors.As(err, &conflict) {
		t.Errorf("the first leader still writes: %v", err)
	}
	if err := f.store.Commit(f.ctx, []metastore.Cond{next.Guard()}, write); err != nil {
		t.Errorf("the second leader: %v", err)
	}
	if err := next.Resign(f.ctx); err != nil {
		t.Error(err)
	}
}

// TestViewEqualsStore does random things to members, their sessions and the store, and compares the view with what
// the store holds once all is quiet, and with a view that was made then.
func TestViewEqualsStore(t *testing.T) {
	r := seed.Rand(t)
	f := setUp(t)
	ttl, steps := f.server.ttl(), 60
	if under != nil {
		steps = 25
	}
	here := map[string]*member{}
	names := []string{"a", "b", "c", "d", "e"}
	for range steps {
		name := names[r.IntN(len(names))]
		m := here[name]
		switch k := r.IntN(10); {
		case m == nil && k < 6:
			here[name] = f.join(name, r.IntN(3))
		case m == nil:
		case k < 2:
			if err := m.Leave(f.ctx); err != nil {
				t.Fatal(err)
			}
			delete(here, name)
		case k < 4:
			m.client.EndSession()
		case k < 5:
			m.client.Disconnect()
			time.AfterFunc(time.Duration(r.IntN(int(2*ttl))), m.client.Reconnect)
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
	f.await("all are up", func() bool {
		for name, m := range here {
			if !m.Ready() || f.incarnation(name) != m.Member().Incarnation {
				return false
			}
		}
		return len(f.view.Members()) == len(here)
	})
	time.Sleep(2 * ttl) // what was asked last has been done
	other, err := Open(f.ctx, f.store)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	f.await("the view equals a new one", func() bool {
		return reflect.DeepEqual(f.view.Servers(), other.Servers()) && reflect.DeepEqual(f.view.Members(),
			other.Members()) &&
			reflect.DeepEqual(f.view.AddressBook().All(), other.AddressBook().All())
	})
	f.equalsStore()
}

// equalsStore compares the view with what the store holds, read key by key.
func (f *fixture) equalsStore() {
	f.Helper()
	names, err := f.store.Members(f.ctx, dirServers)
	if err != nil {
		f.Fatal(err)
	}
	servers := f.view.Servers()
	if len(servers) != len(names) {
		f.Fatalf("the view has %d servers, the store %v", len(servers), names)
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
				f.Fatalf("%s/%s: %v", key, name, err)
			}
		}
		if want := (Server{Name: name, Status: status, Info: info}); !reflect.DeepEqual(servers[i], want) {
			f.Errorf("the view has %+v\nthe store %+v", servers[i], want)
		}
	}
}
