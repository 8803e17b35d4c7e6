// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// closeCases are about the end of a client.
var closeCases = []testCase{
	{"Close/EverythingEnds", 0, closeEndsAll},
	{"Close/WhileAway", disconnect, closeWhileAway},
}

// faultCases are about a store that can't be reached, and servers that fail.
var faultCases = []testCase{
	{"Unavailable", disconnect, unavailable},
	{"CallsWait", disconnect, callsWait},
	{"UnknownOutcomes", disconnect, unknownOutcomes},
	{"ServerKilled", kill, func(e *env) { serverFails(e, e.engine.Kill, e.engine.Restart) }},
	{"ServerStopped", pause, serverStopped},
	{"AllServersKilled", kill, allServersKilled},
}

// everyCall calls each method of a backend, with its name.
func (e *env) everyCall(b metastore.Backend, call func(name string, f func(ctx context.Context) error)) {
	path := e.path("none")
	call("Get", func(ctx context.Context) error { _, err := b.Get(ctx, path); return err })
	call("Children", func(ctx context.Context) error { _, err := b.Children(ctx, path); return err })
	call("Tree", func(ctx context.Context) error { _, err := b.Tree(ctx, path); return err })
	call("Commit", func(ctx context.Context) error {
		return b.Commit(ctx, nil, []metastore.Op{e.op(metastore.Delete, "none", "")})
	})
	call("Append", func(ctx context.Context) error { _, err := b.Append(ctx, path, []byte("1")); return err })
}

func closeEndsAll(e *env) {
	b := e.client()
	session := e.session(b)
	f := e.follow(b, "v", metastore.Data)
	f.next()
	waits := make(chan error, 1)
	go func() {
		_, err := f.step(e.ctx)
		waits <- err
	}()
	for range 2 {
		if err := b.Close(); err != nil {
			e.Fatal(err)
		}
	}
	if err := <-waits; !errors.Is(err, metastore.ErrClosed) {
		e.Errorf("a feed: found %v, want ErrClosed", err)
	}
	e.lost(session)
	e.everyCall(b, func(name string, f func(context.Context) error) {
		if err := f(e.ctx); !errors.Is(err, metastore.ErrClosed) {
			e.Errorf("%s: found %v, want ErrClosed", name, err)
		}
	})
	if _, err := b.Session(e.ctx); !errors.Is(err, metastore.ErrClosed) {
		e.Errorf("Session: found %v, want ErrClosed", err)
	}
	late := b.Watch(e.path("v"), metastore.Names)
	if _, err := late.Next(e.ctx); !errors.Is(err, metastore.ErrClosed) {
		e.Errorf("a feed made later: found %v, want ErrClosed", err)
	}
	late.Close()
}

// Close of a client that is away returns, and ends what waits for the store.
func closeWhileAway(e *env) {
	b := e.client()
	session := e.session(b)
	f := e.follow(b, "v", metastore.Data)
	f.next()
	e.engine.Disconnect(e, b)
	e.Cleanup(func() { e.engine.Reconnect(e, b) })
	waits := make(chan error)
	n := 0
	e.everyCall(b, func(name string, call func(context.Context) error) {
		n++
		go func() {
			if err := call(e.ctx); !errors.Is(err, metastore.ErrClosed) && !errors.Is(err, metastore.ErrUnknown) {
				waits <- fmt.Errorf("%s: found %w, want ErrClosed", name, err)
				return
			}
			waits <- nil
		}()
	})
	go func() {
		_, err := f.step(e.ctx)
		if errors.Is(err, metastore.ErrClosed) {
			err = nil
		}
		waits <- err
	}()
	if err := b.Close(); err != nil {
		e.Errorf("Close: %v", err)
	}
	for range n + 1 {
		if err := <-waits; err != nil {
			e.Error(err)
		}
	}
	e.lost(session)
}

// spokenTime is how long something took, in an error.
var spokenTime = regexp.MustCompile(`[0-9]+(\.[0-9]+)?(ms|s|m[0-9])`)

// A call that can't reach the store fails when its context ends, and says for how long it has tried.
func unavailable(e *env) {
	a, b := e.client(), e.client()
	e.set(b, "v", "1")
	e.engine.Disconnect(e, b)
	e.everyCall(b, func(name string, call func(context.Context) error) {
		ctx, cancel := context.WithTimeout(e.ctx, 100*time.Millisecond)
		defer cancel()
		err := call(ctx)
		write := name == "Commit" || name == "Append"
		if write && errors.Is(err, metastore.ErrUnknown) {
			return
		}
		if !errors.Is(err, metastore.ErrUnavailable) || !spokenTime.MatchString(err.Error()) {
			e.Errorf("%s: found %v, want ErrUnavailable and how long it was tried", name, err)
		}
	})
	f := e.follow(b, "v", metastore.Data)
	ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
	defer cancel()
	if s, err := f.step(ctx); !errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("a feed: found %+v, %v, want the context's error", s, err)
	}
	e.engine.Reconnect(e, b)
	f.value("1")
	e.holds(b, "v", "1")
	e.holds(a, "v", "1")
}

// A call that has begun while the store couldn't be reached is done when it can be.
func callsWait(e *env) {
	a, b := e.client(), e.client()
	e.set(a, "v", "1")
	e.engine.Disconnect(e, b)
	waits := make(chan error, 1)
	go func() {
		n, err := b.Get(e.ctx, e.path("v"))
		if err == nil && string(n.Value) != "2" {
			err = fmt.Errorf("found %q, which was overwritten before", n.Value)
		}
		waits <- err
	}()
	e.set(a, "v", "2")
	e.engine.Reconnect(e, b)
	if err := <-waits; err != nil {
		e.Fatal(err)
	}
}

// A client is cut off while it commits: what succeeded was done, what failed otherwise than by ErrUnknown wasn't.
func unknownOutcomes(e *env) {
	const rounds = 12
	a, b := e.client(), e.client()
	outcome := map[string]error{}
	for r := range rounds {
		ended := make(chan struct{}) // once a commit
		stop := make(chan struct{})
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				key := fmt.Sprintf("k/%d-%d", r, i)
				ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
				outcome[key] = b.Commit(ctx, nil, []metastore.Op{e.op(metastore.Create, key, "1")})
				cancel()
				select {
				case <-stop:
					return
				case ended <- struct{}{}:
				}
			}
		}()
		<-ended
		<-ended
		e.engine.Disconnect(e, b)
		<-ended
		e.engine.Reconnect(e, b)
		<-ended
		close(stop)
		for range ended {
		}
	}
	counts := map[string]int{}
	for key, err := range outcome {
		_, there := a.Get(e.ctx, e.path(key))
		switch {
		case err == nil && there != nil:
			e.Errorf("%s: was committed, and isn't there: %v", key, there)
		case err != nil && there == nil && !errors.Is(err, metastore.ErrUnknown):
			e.Errorf("%s: is there, and Commit failed with %v", key, err)
		}
		counts[fmt.Sprintf("done: %v, ErrUnknown: %v", err == nil, errors.Is(err, metastore.ErrUnknown))]++
	}
	e.Logf("%d commits: %v", len(outcome), counts)
}

// retry does something again while its outcome is unknown.
func (e *env) retry(what string, f func() error) {
	e.Helper()
	for {
		if err := f(); err == nil {
			return
		} else if !errors.Is(err, metastore.ErrUnknown) {
			e.Fatalf("%s: %v", what, err)
		}
	}
}

// A server fails and comes back: what was written stays, calls and feeds go on, with three servers without it.
func serverFails(e *env, fail, mend func(t testing.TB, server int)) {
	a, b := e.client(), e.client()
	e.set(a, "d/v", "before")
	session := e.ephemeral(a, "d/e", "1")
	f := e.follow(b, "d/v", metastore.Data)
	f.value("before")
	for server := range max(e.engine.Servers, 1) {
		fail(e, server)
		failed := true
		e.Cleanup(func() {
			if failed {
				mend(e, server)
			}
		})
		if e.engine.Servers < 3 { // nobody answers
			ctx, cancel := context.WithTimeout(e.ctx, 100*time.Millisecond)
			if _, err := b.Get(ctx, e.path("d/v")); err != nil && !errors.Is(err, metastore.ErrUnavailable) {
				e.Errorf("without a server: found %v, want ErrUnavailable", err)
			}
			cancel()
			mend(e, server)
			failed = false
		}
		want := fmt.Sprint("while ", server)
		e.retry("Set", func() error {
			return a.Commit(e.ctx, nil, []metastore.Op{e.op(metastore.Set, "d/v", want)})
		})
		f.await(func(s metastore.State) bool { return string(s.Node.Value) == want })
		e.holds(b, "d/v", want)
		if failed {
			mend(e, server)
			failed = false
		}
	}
	if e.session(a) == session {
		if n := e.get(b, "d/e"); !n.Ephemeral {
			e.Error("the ephemeral node has changed")
		}
		return
	}
	e.lost(session)
	e.Log("the session was lost meanwhile")
}

// serverStopped: clients don't hear of it.
func serverStopped(e *env) {
	if testing.Short() && e.engine.Servers > 1 {
		e.Skip("SKIPPED: it takes 10 s until clients have noticed that a server is silent, and go to another")
	}
	serverFails(e, e.engine.Pause, e.engine.Continue)
}

// All servers are killed: when they are back, everything that was acknowledged is there.
func allServersKilled(e *env) {
	a, b := e.client(), e.client()
	for i := range 20 {
		e.set(a, fmt.Sprintf("d/%d", i), "1")
	}
	f := e.follow(b, "d/0", metastore.Data)
	f.value("1")
	servers := max(e.engine.Servers, 1)
	for server := range servers {
		e.engine.Kill(e, server)
	}
	for server := range servers {
		e.engine.Restart(e, server)
	}
	for i := range 20 {
		e.holds(b, fmt.Sprintf("d/%d", i), "1")
	}
	e.retry("Set", func() error {
		return a.Commit(e.ctx, nil, []metastore.Op{e.op(metastore.Set, "d/0", "2")})
	})
	f.value("2")
}
