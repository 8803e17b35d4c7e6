// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/disco-sim/disco/metastore"
)

// feedCases are about Watch.
var feedCases = []testCase{
	{"Feeds/FirstState", 0, firstState},
	{"Feeds/Changes", 0, feedChanges},
	{"Feeds/Names", 0, feedNames},
	{"Feeds/NamesOfImplicitNodes", 0, feedImplicitNames},
	{"Feeds/ContextEnds", 0, feedContext},
	{"Feeds/NeverBack", 0, neverBack},
	{"Feeds/NamesComeTrue", 0, namesComeTrue},
	{"Feeds/Many", 0, manyFeeds},
	{"Feeds/Close", 0, feedClose},
	{"Feeds/Reconnect", disconnect, feedReconnect},
	{"Feeds/SessionExpired", expire, feedExpired},
	{"Feeds/SessionLostWhileAway", disconnect, feedLongAway},
}

// follower is a feed that is checked: no state comes twice in a row, and no version a second time.
type follower struct {
	e     *env
	key   string
	feed  metastore.Feed
	begun bool
	last  metastore.State
	seen  map[metastore.Version]bool
}

// follow makes a feed that is closed with the test.
func (e *env) follow(b metastore.Backend, key string, kind metastore.WatchKind) *follower {
	f := &follower{e: e, key: key, feed: b.Watch(e.path(key), kind), seen: map[metastore.Version]bool{}}
	e.Cleanup(f.feed.Close)
	return f
}

// step waits for the next state; it may be called by any goroutine.
func (f *follower) step(ctx context.Context) (metastore.State, error) {
	s, err := f.feed.Next(ctx)
	if err != nil {
		return s, err
	}
	v := s.Node.Version
	switch {
	case f.begun && v == f.last.Node.Version && slices.Equal(s.Names, f.last.Names):
		return s, fmt.Errorf("a feed of %s gives the same state twice: %+v", f.key, s)
	case v != metastore.Version{} && f.seen[v]:
		return s, fmt.Errorf("a feed of %s goes back to version %v", f.key, v)
	case (s.Node.Value == nil) != (v == metastore.Version{}):
		return s, fmt.Errorf("a feed of %s gives %q with version %v", f.key, s.Node.Value, v)
	}
	f.begun, f.seen[v] = true, true
	f.last = metastore.State{Node: metastore.Node{Version: v}, Names: slices.Clone(s.Names)}
	return s, nil
}

// next must succeed.
func (f *follower) next() metastore.State {
	f.e.Helper()
	s, err := f.step(f.e.ctx)
	if err != nil {
		f.e.Fatalf("a feed of %s: %v", f.key, err)
	}
	return s
}

// await goes on until a state fits.
func (f *follower) await(fits func(metastore.State) bool) metastore.State {
	f.e.Helper()
	for {
		if s := f.next(); fits(s) {
			return s
		}
	}
}

// value waits for the next state, which must have this value; "" is none.
func (f *follower) value(want string) metastore.State {
	f.e.Helper()
	s := f.next()
	if string(s.Node.Value) != want {
		f.e.Fatalf("a feed of %s: found %q, want %q", f.key, s.Node.Value, want)
	}
	return s
}

// names waits for the next state, which must be these names.
func (f *follower) names(want ...string) {
	f.e.Helper()
	if s := f.next(); !slices.Equal(s.Names, want) || s.Node.Value != nil {
		f.e.Fatalf("a feed of %s: found %q, %v, want %q", f.key, s.Names, s.Node, want)
	}
}

func firstState(e *env) {
	b := e.client()
	e.set(b, "a/b", "1")
	e.follow(b, "none", metastore.Data).value("")
	e.follow(b, "none", metastore.Names).names()
	e.follow(b, "a", metastore.Data).value("")
	e.follow(b, "a", metastore.Names).names("b")
	e.follow(b, "a/b", metastore.Names).names()
	s := e.follow(b, "a/b", metastore.Data).value("1")
	if s.Node.Version != e.get(b, "a/b").Version || s.Node.Ephemeral {
		e.Fatalf("found %+v", s.Node)
	}
	e.gone(b, "none") // a watch makes nothing
	e.ephemeral(b, "d/e", "2")
	if s := e.follow(b, "d/e", metastore.Data).value("2"); !s.Node.Ephemeral {
		e.Fatal("it doesn't say that it is ephemeral")
	}
}

func feedChanges(e *env) {
	a, b := e.client(), e.client()
	f := e.follow(b, "v", metastore.Data)
	f.value("")
	e.set(a, "v", "1")
	f.value("1")
	e.set(a, "v", "1") // the same bytes: another version
	f.value("1")
	e.set(a, "v/child", "1") // not its data
	e.delete(a, "v")
	f.value("")
	e.set(b, "v", "2")
	f.value("2")
	e.delete(a, "v")
	e.set(a, "v", "2") // deleted and made again between two calls: another version
	f.await(func(s metastore.State) bool { return s.Node.Version == e.get(a, "v").Version })
	e.commit(a, e.op(metastore.DeleteTree, "v", ""))
	f.value("")
	e.set(a, "v/w", "1") // an implicit parent holds no data: nothing changes
	e.set(a, "v", "3")
	f.value("3")
}

func feedNames(e *env) {
	a, b := e.client(), e.client()
	f := e.follow(b, "d", metastore.Names)
	f.names()
	e.set(a, "d", "1") // its data isn't a name
	e.set(a, "d/a", "1")
	f.names("a")
	e.set(a, "d/a", "2") // nor is that of a child
	e.set(a, "d/a/b", "3")
	e.set(a, "d-", "not below")
	e.set(a, "d/a-b", "1")
	f.names("a", "a-b")
	e.delete(a, "d/a") // it has a child
	e.delete(a, "d/a-b")
	f.names("a")
	e.commit(a, e.op(metastore.Set, "d/x", "1"), e.op(metastore.Set, "d/y", "1"), e.op(metastore.DeleteTree, "d/a", ""))
	f.await(func(s metastore.State) bool { return slices.Equal(s.Names, []string{"x", "y"}) })
	e.commit(a, e.op(metastore.DeleteTree, "d", ""))
	f.await(func(s metastore.State) bool { return len(s.Names) == 0 })
	e.set(a, "d/z", "1")
	f.names("z")
}

func feedImplicitNames(e *env) {
	a, b := e.client(), e.client()
	top, d := e.follow(b, "t", metastore.Names), e.follow(b, "t/d", metastore.Names)
	top.names()
	d.names()
	e.set(a, "t/d/x/y/z", "1")
	top.names("d")
	d.names("x")
	e.set(a, "t/d/x/2", "1")
	e.delete(a, "t/d/x/y/z")
	e.set(a, "t/d/w", "1")
	d.names("w", "x")
	e.delete(a, "t/d/x/2")
	d.names("w")
	e.delete(a, "t/d/w")
	d.names()
	top.names()
	for i := range 10 {
		e.set(a, "t/d/x/y", fmt.Sprint(i))
		top.await(func(s metastore.State) bool { return len(s.Names) == 1 })
		e.delete(a, "t/d/x/y")
		top.await(func(s metastore.State) bool { return len(s.Names) == 0 })
	}
}

// A call that ends by its context has lost nothing.
func feedContext(e *env) {
	b := e.client()
	for _, kind := range []metastore.WatchKind{metastore.Data, metastore.Names} {
		key := fmt.Sprintf("d%d", kind)
		f := e.follow(b, key, kind)
		f.next()
		e.set(b, key+"/a", "1")
		e.set(b, key, "1")
		f.next()
		reason := errors.New("enough")
		ctx, cancel := context.WithCancelCause(e.ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := f.step(ctx)
			ended <- err
		}()
		cancel(reason)
		if err := <-ended; !errors.Is(err, reason) && !errors.Is(err, context.Canceled) {
			e.Fatalf("found %v, want the context's error", err)
		}
		e.set(b, key+"/b", "1")
		e.set(b, key, "2")
		f.next()
	}
}

// A slow reader misses states, and sees none that is older than one it has seen; the last one is the last.
func neverBack(e *env) {
	const last = 150
	a, b := e.client(), e.client()
	f := e.follow(b, "v", metastore.Data)
	e.parallel(2, func(i int) error {
		if i == 0 {
			for n := range last + 1 {
				op := e.op(metastore.Set, "v", fmt.Sprint(n))
				if n%10 == 9 {
					op = e.op(metastore.Delete, "v", "")
				}
				if err := a.Commit(e.ctx, nil, []metastore.Op{op}); err != nil {
					return err
				}
			}
			return nil
		}
		for seen := -1; seen < last; {
			s, err := f.step(e.ctx)
			if err != nil {
				return err
			}
			if s.Node.Value == nil {
				continue
			}
			n, err := strconv.Atoi(string(s.Node.Value))
			if err != nil || n <= seen {
				return fmt.Errorf("found %q after %d", s.Node.Value, seen)
			}
			seen = n
			if seen%20 == 0 { // slow
				if _, err := b.Get(e.ctx, e.root); err != nil && !errors.Is(err, metastore.ErrNoNode) {
					return err
				}
			}
		}
		return nil
	})
	e.set(a, "v", "end")
	f.value("end")
}

// Names under changes by several clients: what is seen last is what is there.
func namesComeTrue(e *env) {
	const clients = 3
	var all []metastore.Backend
	for range clients {
		all = append(all, e.client())
	}
	f := e.follow(e.client(), "d", metastore.Names)
	e.parallel(clients, func(i int) error {
		for r := range 30 {
			op := e.op(metastore.Set, fmt.Sprintf("d/%d-%d", i, r%4), "1")
			if r%3 == 2 {
				op = metastore.Op{Path: op.Path, Do: metastore.Delete}
			}
			if err := all[i].Commit(e.ctx, nil, []metastore.Op{op}); err != nil {
				return err
			}
		}
		return nil
	})
	e.set(all[0], "d/end", "1")
	want, err := all[0].Children(e.ctx, e.path("d"))
	if err != nil {
		e.Fatal(err)
	}
	f.await(func(s metastore.State) bool { return slices.Equal(s.Names, want) })
}

func manyFeeds(e *env) {
	const feeds = 100
	a, b := e.client(), e.client()
	var all []*follower
	for i := range feeds {
		f := e.follow(b, fmt.Sprintf("m/%d", i/2), metastore.Data) // two of each
		f.value("")
		all = append(all, f)
	}
	for i := range feeds / 2 {
		e.set(a, fmt.Sprintf("m/%d", i), fmt.Sprint(i))
	}
	for i, f := range all {
		f.value(fmt.Sprint(i / 2))
		if i%2 == 0 {
			f.feed.Close()
		}
	}
	for i := range feeds / 2 {
		e.set(a, fmt.Sprintf("m/%d", i), "again")
		all[2*i+1].value("again") // the other one goes on
	}
}

func feedClose(e *env) {
	b := e.client()
	f := e.follow(b, "v", metastore.Data)
	f.next()
	waits := make(chan error, 1)
	go func() {
		_, err := f.step(e.ctx)
		waits <- err
	}()
	f.feed.Close()
	if err := <-waits; !errors.Is(err, metastore.ErrClosed) {
		e.Fatalf("a call that waited: found %v, want ErrClosed", err)
	}
	if _, err := f.step(e.ctx); !errors.Is(err, metastore.ErrClosed) {
		e.Fatalf("a later call: found %v, want ErrClosed", err)
	}
	f.feed.Close()
	e.set(b, "v", "1")
	e.follow(b, "v", metastore.Data).value("1")
}

// What changed while the client was away is seen once, and what didn't isn't.
func feedReconnect(e *env) {
	a, b := e.client(), e.client()
	e.set(a, "d/same", "1")
	e.set(a, "d/changes", "1")
	e.set(a, "d/again", "1")
	same, changes := e.follow(b, "d/same", metastore.Data), e.follow(b, "d/changes", metastore.Data)
	again, names := e.follow(b, "d/again", metastore.Data), e.follow(b, "d", metastore.Names)
	same.value("1")
	changes.value("1")
	again.value("1")
	names.names("again", "changes", "same")
	for r := range 3 {
		e.engine.Disconnect(e, b)
		e.set(a, "d/changes", "lost on the way")
		e.set(a, "d/changes", fmt.Sprint(r))
		e.delete(a, "d/again")
		e.set(a, "d/again", "1") // the same bytes, another node
		e.set(a, fmt.Sprintf("d/new%d", r), "1")
		e.delete(a, fmt.Sprintf("d/new%d", r))
		e.engine.Reconnect(e, b)
		changes.await(func(s metastore.State) bool { return string(s.Node.Value) == fmt.Sprint(r) })
		again.await(func(s metastore.State) bool { return s.Node.Version == e.get(a, "d/again").Version })
		want := fmt.Sprint("after ", r)
		e.set(a, "d/same", want)
		same.value(want) // nothing came before
	}
	e.set(a, "d/z", "1")
	names.await(func(s metastore.State) bool { return slices.Contains(s.Names, "z") })
}

// A feed outlives its session, and notices only what changed.
func feedExpired(e *env) {
	a, b := e.client(), e.client()
	e.set(a, "d/v", "1")
	f, names := e.follow(b, "d/v", metastore.Data), e.follow(b, "d", metastore.Names)
	f.value("1")
	names.names("v")
	old := e.session(b)
	e.engine.Expire(e, b)
	e.lost(old)
	e.session(b)
	e.set(a, "d/v", "2")
	f.value("2")
	e.set(a, "d/w", "1")
	names.names("v", "w")
}

// So does one whose client was away for longer than its session.
func feedLongAway(e *env) {
	a, b := e.client(), e.client()
	e.set(a, "d/v", "1")
	own := e.follow(b, "d/e", metastore.Data)
	own.value("")
	f, names := e.follow(b, "d/v", metastore.Data), e.follow(b, "d", metastore.Names)
	f.value("1")
	names.names("v")
	old := e.ephemeral(b, "d/e", "1")
	own.value("1")
	names.names("e", "v")
	watched := e.follow(a, "d/e", metastore.Data)
	watched.value("1")
	e.engine.Disconnect(e, b)
	e.lost(old)
	watched.value("")
	e.engine.Reconnect(e, b)
	own.value("")
	names.names("v")
	e.set(a, "d/v", "2")
	f.value("2")
}
