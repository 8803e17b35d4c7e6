// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/disco-sim/disco/metastore"
)

func update(e *env) {
	s := e.store()
	count := func(old metastore.Value) (any, error) {
		var n int
		if old.Exists() {
			if err := old.Decode(&n); err != nil {
				return nil, err
			}
		}
		return n + 1, nil
	}
	for i := range 3 {
		e.check("Update", s.Update(e.ctx, "n", count))
		e.has(s, "n", int64(i+1))
	}
	v := e.has(s, "n", int64(3))
	e.check("ErrKeep", s.Update(e.ctx, "n", func(metastore.Value) (any, error) { return nil, metastore.ErrKeep }))
	if again := e.has(s, "n", int64(3)); again.Version != v.Version {
		e.Fatal("ErrKeep changed the version")
	}
	reason := errors.New("no")
	e.is("its own error", s.Update(e.ctx, "n", func(metastore.Value) (any, error) { return 1, reason }), reason)
	e.put(s, "text", "x")
	if err := s.Update(e.ctx, "text", count); err == nil {
		e.Fatal("a text is counted")
	}
	e.put(s, "d/x", 1)
	e.check("Update of what has children only", s.Update(e.ctx, "d", func(old metastore.Value) (any, error) {
		if !old.Exists() || old.HasValue() {
			return nil, fmt.Errorf("found %+v", old)
		}
		return 5, nil
	}))
	e.has(s, "d", int64(5))
	if err := s.Update(e.ctx, "", count); err == nil {
		e.Fatal("the group itself is updated")
	}
}

// Several raise a counter: nothing is lost or done twice, whatever answers get lost.
func updateInRaces(e *env, share float64) {
	const clients, rounds = 4, 12
	var stores []*metastore.Store
	for i := range clients {
		b := e.engine.New(e)
		if share > 0 {
			b = newLossy(b, share, uint64(i))
		}
		stores = append(stores, e.open(b, metastore.Options{}))
	}
	e.put(e.store(), "n", 0)
	var mu sync.Mutex
	done, unknown := 0, 0
	e.parallel(clients, func(i int) error {
		for range rounds {
			err := stores[i].Update(e.ctx, "n", func(old metastore.Value) (any, error) {
				var n int
				err := old.Decode(&n)
				return n + 1, err
			})
			mu.Lock()
			switch {
			case err == nil:
				done++
			case errors.Is(err, metastore.ErrUnknown):
				unknown++
			}
			mu.Unlock()
			if err != nil && !errors.Is(err, metastore.ErrUnknown) {
				return err
			}
		}
		return nil
	})
	var n int
	v, err := e.store().Get(e.ctx, "n")
	if err == nil {
		err = v.Decode(&n)
	}
	if err != nil || n < done || n > done+unknown {
		e.Fatalf("found %d, %v: %d were done, of %d that isn't known", n, err, done, unknown)
	}
	if share == 0 && unknown > 0 {
		e.Logf("%d outcomes are unknown", unknown)
	}
	e.Logf("%d done, %d unknown, counted %d", done, unknown, n)
}

// A key that is created under losses is created once, or that isn't known.
func updateUnknownCreates(e *env) {
	b := newLossy(e.engine.New(e), 0.3, 1)
	s := e.open(b, metastore.Options{})
	check := e.store()
	for i := range 30 {
		key := fmt.Sprint("k", i)
		err := s.Update(e.ctx, key, func(metastore.Value) (any, error) { return i, nil })
		found, getErr := check.Contains(e.ctx, key)
		if err != nil && !errors.Is(err, metastore.ErrUnknown) || getErr != nil || err == nil && !found {
			e.Fatalf("%s: Update: %v; is there: %v, %v", key, err, found, getErr)
		}
	}
}

func storeEphemeral(e *env) {
	a, b := e.open(e.engine.New(e), metastore.Options{}), e.store()
	session, _, err := a.PutEphemeral(e.ctx, "servers/a", "up")
	if err != nil {
		e.Fatal(err)
	}
	if now, err := a.Session(e.ctx); err != nil || now != session {
		e.Fatalf("found session %v, %v; want %v", now, err, session)
	}
	if v := e.has(b, "servers/a", "up"); !v.Ephemeral {
		e.Fatal("it isn't ephemeral")
	}
	_, _, err = b.PutEphemeral(e.ctx, "servers/a", "me too")
	e.isConflict("a second one", err, "servers/a")
	_, _, err = a.PutEphemeral(e.ctx, "servers/a", "again")
	e.isConflict("the same again", err, "servers/a")
	e.check("Update", b.Update(e.ctx, "servers/a", func(metastore.Value) (any, error) { return "draining", nil }))
	e.is("a child", b.Put(e.ctx, "servers/a/x", 1), metastore.ErrEphemeralParent)
	e.check("Close", a.Close())
	e.contains(b, "servers/a", false)
	e.contains(b, "servers", true) // its directory stays
}

func storeEphemeralUnknown(e *env) {
	s := e.open(newLossy(e.engine.New(e), 0.4, 2), metastore.Options{})
	check := e.store()
	for i := range 20 {
		key := fmt.Sprint("servers/", i)
		if _, _, err := s.PutEphemeral(e.ctx, key, i); err != nil {
			e.Fatal(err)
		}
		e.has(check, key, int64(i))
	}
}

func storeClose(e *env) {
	s := e.open(e.engine.New(e), metastore.Options{})
	w, err := s.Watch(e.ctx, "a", func(metastore.Value, string) bool { return true })
	if err != nil {
		e.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := s.Dequeue(e.ctx, "q")
		waits <- err
	}()
	e.check("Close", s.Close())
	e.check("Close", s.Close())
	<-w.Done()
	e.is("Dequeue", <-waits, metastore.ErrClosed)
	e.is("Put", s.Put(e.ctx, "a", 1), metastore.ErrClosed)
	_, err = s.Watch(e.ctx, "a", nil)
	e.is("Watch", err, metastore.ErrClosed)
}
