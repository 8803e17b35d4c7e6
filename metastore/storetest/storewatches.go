// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// watchCases are about Watch and WatchMembers.
var watchCases = []testCase{
	{"Watch/Values", 0, watchValues},
	{"Watch/EnsuresPath", 0, watchEnsures},
	{"Watch/KeepOrStop", 0, keepOrStop},
	{"Watch/Deleted", 0, watchDeleted},
	{"Watch/Members", 0, watchMembers},
	{"Watch/StoreUsableInside", 0, usableInside},
	{"Watch/PanicReported", 0, panicReported},
	{"Watch/BlockedReported", 0, blockedReported},
	{"Watch/OneCallAtATime", 0, oneAtATime},
	{"Watch/MembersBack", 0, membersBack},
	{"Watch/Reconnect", disconnect, watchReconnect},
	{"Watch/SessionExpired", expire, watchExpired},
}

// call is one call of a callback.
type call struct {
	value string // as JSON; "-" is deleted, "d" a directory
	names []string
}

// calls are those of a watch, which wait in it.
type calls struct {
	e  *env
	ch chan call
	w  *metastore.Watch
}

// watch watches a key; every call waits in order.
func (e *env) watch(s *metastore.Store, key string, keep func(value string) bool) *calls {
	e.Helper()
	c := &calls{e: e, ch: make(chan call, 100)}
	w, err := s.Watch(e.ctx, key, func(v metastore.Value, k string) bool {
		text := string(v.Bytes())
		if !v.Exists() {
			text = "-"
		} else if !v.HasValue() {
			text = "d"
		}
		if k != key {
			text = "the key " + k
		}
		c.ch <- call{value: text}
		return keep == nil || keep(text)
	})
	if err != nil {
		e.Fatal(err)
	}
	c.w = w
	return c
}

// watchNames watches a key's members.
func (e *env) watchNames(s *metastore.Store, key string) *calls {
	e.Helper()
	c := &calls{e: e, ch: make(chan call, 100)}
	w, err := s.WatchMembers(e.ctx, key, func(names []string, _ string) bool {
		c.ch <- call{names: names}
		return true
	})
	if err != nil {
		e.Fatal(err)
	}
	c.w = w
	return c
}

// next is the next call.
func (c *calls) next() call {
	c.e.Helper()
	select {
	case one := <-c.ch:
		return one
	case <-c.e.ctx.Done():
		c.e.Fatalf("the callback isn't called: %v", context.Cause(c.e.ctx))
		return call{}
	}
}

// is checks the next call's value.
func (c *calls) is(want string) {
	c.e.Helper()
	if got := c.next(); got.value != want {
		c.e.Fatalf("the callback got %q, want %q", got.value, want)
	}
}

// names checks the next call's names.
func (c *calls) names(want ...string) {
	c.e.Helper()
	if got := c.next(); !slices.Equal(got.names, want) {
		c.e.Fatalf("the callback got %q, want %q", got.names, want)
	}
}

// ended waits for the end, and checks that there were no more calls.
func (c *calls) ended() {
	c.e.Helper()
	select {
	case <-c.w.Done():
	case <-c.e.ctx.Done():
		c.e.Fatal("the watch doesn't end")
	}
	if len(c.ch) > 0 {
		c.e.Fatalf("there was another call: %v", <-c.ch)
	}
}

func watchValues(e *env) {
	s, other := e.store(), e.store()
	e.put(s, "v", 0)
	c := e.watch(s, "v", nil)
	c.is("0") // first what is there
	for i := range 5 {
		e.put(other, "v", i+1)
		c.is(fmt.Sprint(i + 1))
	}
	e.put(s, "v/child", 1)
	e.check("Ensure", s.Ensure(e.ctx, "v")) // holds something already
	e.put(s, "v", "end")
	c.is(`"end"`)
	c.w.Stop()
	c.ended()
	c.w.Stop()
}

func watchEnsures(e *env) {
	s := e.store()
	c := e.watch(s, "a/b", nil)
	c.is("d")
	e.contains(s, "a/b", true)
	e.put(s, "a/b", 1)
	c.is("1")
	n := e.watchNames(s, "c/d")
	n.names()
	e.contains(s, "c/d", true)
	e.put(s, "c/d/x", 1)
	n.names("x")
}

func keepOrStop(e *env) {
	s := e.store()
	c := e.watch(s, "v", func(value string) bool { return value != "2" })
	c.is("d")
	e.put(s, "v", 1)
	c.is("1")
	e.put(s, "v", 2)
	c.is("2")
	c.ended()
	e.put(s, "v", 3)
	again := e.watch(s, "v", nil)
	again.is("3")
	c.ended()
}

// A deletion is given once, and is the end, whatever the callback returns.
func watchDeleted(e *env) {
	s := e.store()
	e.put(s, "v", 1)
	c := e.watch(s, "v", nil)
	c.is("1")
	e.check("Delete", s.Delete(e.ctx, "v"))
	c.is("-")
	c.ended()
	e.put(s, "v", 2)
	c.ended()
	e.put(s, "t/a", 1)
	c = e.watch(s, "t/a", nil)
	c.is("1")
	e.check("DeleteTree", s.DeleteTree(e.ctx, "t"))
	c.is("-")
	c.ended()
}

func watchMembers(e *env) {
	s, other := e.store(), e.store()
	c := e.watchNames(s, "d")
	c.names()
	e.put(other, "d/b", 1)
	c.names("b")
	e.put(other, "d/a/deep", 1)
	c.names("a", "b")
	e.put(other, "d/a/deep", 2)
	e.check("Delete", other.Delete(e.ctx, "d/b"))
	c.names("a")
	e.check("DeleteTree", other.DeleteTree(e.ctx, "d"))
	c.names()
	e.put(other, "d/again", 1) // a directory that was deleted is watched on
	c.names("again")
	top := e.watchNames(s, "")
	top.names("d") // without the store's own
	c.w.Stop()
	c.ended()
}

// No lock is held during a call: it may use the store, and end its own watch.
func usableInside(e *env) {
	s := e.store()
	done := make(chan error, 1)
	stop := make(chan *metastore.Watch, 1)
	w, err := s.Watch(e.ctx, "in", func(v metastore.Value, key string) bool {
		if !v.HasValue() {
			return true
		}
		err := s.Put(e.ctx, "out", 1)
		if err == nil {
			_, err = s.Get(e.ctx, key)
		}
		if err == nil {
			_, err = s.Watch(e.ctx, "out", func(metastore.Value, string) bool { return false })
		}
		(<-stop).Stop()
		done <- err
		return true
	})
	if err != nil {
		e.Fatal(err)
	}
	stop <- w
	e.put(s, "in", 1)
	e.check("inside", <-done)
	<-w.Done()
	e.has(s, "out", int64(1))
}

func panicReported(e *env) {
	r := newReports()
	s := e.open(e.engine.New(e), metastore.Options{Report: r.report})
	w, err := s.Watch(e.ctx, "v", func(v metastore.Value, _ string) bool {
		if v.HasValue() {
			panic("trouble in the callback")
		}
		return true
	})
	if err != nil {
		e.Fatal(err)
	}
	other := e.watch(s, "v", nil)
	other.is("d")
	e.put(s, "v", 1)
	<-w.Done() // it ends this watch
	r.await(e, "trouble in the callback")
	r.await(e, "storewatches.go") // the stack
	other.is("1")
	e.put(s, "v", 2)
	other.is("2") // others go on
}

func blockedReported(e *env) {
	r := newReports()
	s := e.open(e.engine.New(e), metastore.Options{Report: r.report, CallbackMax: 10 * time.Millisecond})
	leave := make(chan struct{})
	w, err := s.Watch(e.ctx, "v", func(v metastore.Value, _ string) bool {
		if v.HasValue() {
			<-leave
			return false
		}
		return true
	})
	if err != nil {
		e.Fatal(err)
	}
	other := e.watch(s, "v", nil)
	other.is("d")
	e.put(s, "v", 1)
	r.await(e, `"v" has been running for 10ms`)
	other.is("1")
	e.put(s, "v", 2)
	other.is("2")
	close(leave)
	<-w.Done()
}

// Calls don't overlap, and the last value is the last call's.
func oneAtATime(e *env) {
	s := e.store()
	running, last := make(chan struct{}, 1), make(chan string, 1)
	_, err := s.Watch(e.ctx, "v", func(v metastore.Value, _ string) bool {
		select {
		case running <- struct{}{}:
		default:
			e.Error("two calls at a time")
		}
		if _, err := s.Get(e.ctx, "v"); err != nil {
			e.Error(err)
		}
		<-running
		if text := string(v.Bytes()); text == "99" {
			last <- text
		}
		return true
	})
	if err != nil {
		e.Fatal(err)
	}
	for i := range 100 {
		e.put(s, "v", i)
	}
	select {
	case <-last:
	case <-e.ctx.Done():
		e.Fatal("the last value hasn't come")
	}
}

// Members that come and go while the callback is busy: the last call's are what is there.
func membersBack(e *env) {
	s := e.store()
	busy, last := make(chan struct{}), make(chan []string, 200)
	_, err := s.WatchMembers(e.ctx, "d", func(names []string, _ string) bool {
		<-busy
		last <- names
		return true
	})
	if err != nil {
		e.Fatal(err)
	}
	for i := range 10 {
		e.put(s, fmt.Sprint("d/", i), 1)
		if i%2 == 0 {
			e.check("Delete", s.Delete(e.ctx, fmt.Sprint("d/", i)))
		}
	}
	close(busy)
	for {
		select {
		case names := <-last:
			if slices.Equal(names, []string{"1", "3", "5", "7", "9"}) {
				return
			}
		case <-e.ctx.Done():
			e.Fatal("what is there last hasn't come")
		}
	}
}

// Over a break a callback gets what changed, once, and nothing where nothing did.
func watchReconnect(e *env) {
	b := e.engine.New(e)
	s, other := e.open(b, metastore.Options{}), e.store()
	e.put(other, "same", 1)
	e.put(other, "changes", 1)
	e.put(other, "goes", 1)
	same, changes, goes := e.watch(s, "same", nil), e.watch(s, "changes", nil), e.watch(s, "goes", nil)
	same.is("1")
	changes.is("1")
	goes.is("1")
	e.engine.Disconnect(e, b)
	e.put(other, "changes", 2)
	e.check("Delete", other.Delete(e.ctx, "goes"))
	e.engine.Reconnect(e, b)
	changes.is("2")
	goes.is("-")
	goes.ended()
	e.put(other, "same", 3)
	same.is("3")
}

func watchExpired(e *env) {
	b := e.engine.New(e)
	s, other := e.open(b, metastore.Options{}), e.store()
	e.put(other, "v", 1)
	c := e.watch(s, "v", nil)
	c.is("1")
	session, err := s.Session(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	e.engine.Expire(e, b)
	e.lost(session)
	e.put(other, "v", 2)
	c.is("2")
	if len(c.ch) > 0 {
		e.Fatalf("called once more, with %v", <-c.ch)
	}
}
