// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// queueCases are about queues.
var queueCases = []testCase{
	{"Queue/Order", 0, queueOrder},
	{"Queue/Waits", 0, queueWaits},
	{"Queue/Timeout", 0, queueTimeout},
	{"Queue/Try", 0, queueTry},
	{"Queue/Release", 0, queueRelease},
	{"Queue/DeadHolder", 0, queueDeadHolder},
	{"Queue/HolderSeenDying", 0, queueSeenDying},
	{"Queue/OneItemPerHandle", 0, queueOneItem},
	{"Queue/ConsumeWith", 0, queueConsumeWith},
	{"Queue/SeveralConsumers", 0, func(e *env) { queueConsumers(e, 0) }},
	{"Queue/UnknownOutcomes", 0, func(e *env) { queueConsumers(e, 0.15) }},
	{"Queue/HolderExpired", expire, queueExpired},
}

// enqueue must succeed.
func (e *env) enqueue(s *metastore.Store, values ...any) {
	e.Helper()
	for _, v := range values {
		if _, err := s.Enqueue(e.ctx, "q", v); err != nil {
			e.Fatal(err)
		}
	}
}

// dequeue must succeed, with this value.
func (e *env) dequeue(s *metastore.Store, want string) *metastore.Item {
	e.Helper()
	item, err := s.Dequeue(e.ctx, "q")
	if err != nil {
		e.Fatal(err)
	}
	if got := string(item.Value.Bytes()); got != want {
		e.Fatalf("dequeued %s, want %s", got, want)
	}
	return item
}

func queueOrder(e *env) {
	s, other := e.store(), e.store()
	for i := range 10 {
		e.enqueue([]*metastore.Store{s, other}[i%2], i)
	}
	var token uint64
	for i := range 10 {
		item := e.dequeue([]*metastore.Store{other, s}[i%2], fmt.Sprint(i))
		if item.Token <= token {
			e.Fatalf("token %d after %d", item.Token, token)
		}
		token = item.Token
		e.check("Consume", item.Consume(e.ctx, nil))
	}
	e.members(s, "q/items")
	e.members(s, "q/claims")
}

// A consumer that waits gets an item as soon as there is one; nothing polls.
func queueWaits(e *env) {
	s, other := e.store(), e.store()
	got := make(chan *metastore.Item)
	for range 3 {
		go func() {
			item, err := s.Dequeue(e.ctx, "q")
			e.check("Dequeue", err)
			got <- item
		}()
	}
	var all []string
	for i := range 3 {
		e.enqueue(other, i)
		item := <-got
		if item == nil {
			return
		}
		all = append(all, string(item.Value.Bytes()))
		e.check("Consume", item.Consume(e.ctx, nil))
	}
	if !slices.Equal(all, []string{"0", "1", "2"}) {
		e.Fatalf("found %q", all)
	}
}

func queueTimeout(e *env) {
	s := e.store()
	ctx, cancel := context.WithTimeout(e.ctx, 30*time.Millisecond)
	defer cancel()
	item, err := s.Dequeue(ctx, "q")
	if !errors.Is(err, context.DeadlineExceeded) {
		e.Fatalf("found %v, %v; want the context's error", item, err)
	}
	e.enqueue(s, 1)
	first := e.dequeue(s, "1")
	ctx, cancel = context.WithTimeout(e.ctx, 30*time.Millisecond)
	defer cancel()
	if item, err := s.Dequeue(ctx, "q"); !errors.Is(err, context.DeadlineExceeded) { // it is held
		e.Fatalf("found %v, %v; want the context's error", item, err)
	}
	e.check("Release", first.Release(e.ctx))
	e.dequeue(s, "1")
}

// What is released is first again.
func queueRelease(e *env) {
	s := e.store()
	e.enqueue(s, 1, 2, 3)
	one := e.dequeue(s, "1")
	two := e.dequeue(s, "2")
	e.check("Release", one.Release(e.ctx))
	one = e.dequeue(s, "1")
	three := e.dequeue(s, "3")
	waits := make(chan *metastore.Item)
	go func() {
		item, err := s.Dequeue(e.ctx, "q")
		e.check("Dequeue", err)
		waits <- item
	}()
	e.check("Release", two.Release(e.ctx)) // who waits gets it
	if item := <-waits; item == nil || string(item.Value.Bytes()) != "2" {
		e.Fatalf("found %+v", item)
	}
	e.is("Consume after Release", two.Consume(e.ctx, nil), metastore.ErrSessionLost)
	e.check("Consume", one.Consume(e.ctx, nil))
	e.check("Consume", three.Consume(e.ctx, nil))
	e.is("Release after Consume", one.Release(e.ctx), metastore.ErrSessionLost)
}

// The item of a holder that has died is back at its place, before those that came later.
func queueDeadHolder(e *env) {
	s, dies := e.store(), e.open(e.engine.New(e), metastore.Options{})
	e.enqueue(s, 1, 2, 3)
	held := e.dequeue(dies, "1")
	two := e.dequeue(s, "2")
	e.check("Close", dies.Close())
	<-held.Lost()
	e.dequeue(s, "1")
	e.check("Consume", two.Consume(e.ctx, nil))
	e.dequeue(s, "3")
}

// TryDequeue doesn't wait, and makes nothing where there is nothing.
func queueTry(e *env) {
	s := e.store()
	q, err := s.Queue("q")
	if err != nil {
		e.Fatal(err)
	}
	_, err = q.TryDequeue(e.ctx)
	e.is("no queue", err, metastore.ErrEmpty)
	e.contains(s, "q", false)
	e.enqueue(s, 1)
	item, err := q.TryDequeue(e.ctx)
	if err != nil || string(item.Value.Bytes()) != "1" {
		e.Fatalf("found %+v, %v", item, err)
	}
	_, err = q.TryDequeue(e.ctx)
	e.is("a second item", err, metastore.ErrHolding)
	other, err := e.store().Queue("q")
	if err != nil {
		e.Fatal(err)
	}
	_, err = other.TryDequeue(e.ctx)
	e.is("an item that is held", err, metastore.ErrEmpty)
	e.check("Release", item.Release(e.ctx))
	_, err = other.TryDequeue(e.ctx)
	e.check("an item that was given back", err)
	_, err = q.TryDequeue(e.ctx)
	e.is("the same item", err, metastore.ErrEmpty)
}

// What a session holds can be taken from it by who knows that its program is dead: an item is free, another leads.
func queueSeenDying(e *env) {
	dead, s := e.store(), e.store()
	e.enqueue(s, 1)
	e.dequeue(dead, "1")
	lead, err := dead.Campaign(e.ctx, "work", "dead")
	if err != nil {
		e.Fatal(err)
	}
	session, _, err := s.PutEphemeral(e.ctx, "mine", 1)
	if err != nil {
		e.Fatal(err)
	}
	e.put(s, "stays", 1)
	held, err := s.Leader(e.ctx, "work")
	if err != nil || held.Owner == 0 {
		e.Fatalf("the leader: %+v, %v", held, err)
	}
	e.check("DeleteOwned 0", s.DeleteOwned(e.ctx, 0))
	e.check("DeleteOwned", s.DeleteOwned(e.ctx, held.Owner))
	e.dequeue(s, "1")
	if _, err := s.Campaign(e.ctx, "work", "alive"); err != nil {
		e.Fatal(err)
	}
	<-lead.Lost()
	for _, key := range []string{"mine", "stays", "q/items"} {
		e.contains(s, key, true)
	}
	select {
	case <-session.Lost():
		e.Fatal("another session was ended")
	default:
	}
}

func queueOneItem(e *env) {
	s := e.store()
	q, err := s.Queue("q")
	if err != nil {
		e.Fatal(err)
	}
	for i := range 2 {
		if _, err := q.Enqueue(e.ctx, i); err != nil {
			e.Fatal(err)
		}
	}
	for i := range 2 {
		item, err := q.Dequeue(e.ctx)
		if err != nil || string(item.Value.Bytes()) != fmt.Sprint(i) {
			e.Fatalf("found %+v, %v", item, err)
		}
		_, err = q.Dequeue(e.ctx)
		e.is("a second item", err, metastore.ErrHolding)
		e.check("Consume", item.Consume(e.ctx, nil))
	}
	for _, bad := range []string{"", "..", "a//b"} {
		if _, err := s.Queue(bad); err == nil {
			e.Errorf("Queue(%q) has no error", bad)
		}
	}
}

// Consume is one commit with what follows from the item: all or nothing.
func queueConsumeWith(e *env) {
	s := e.store()
	e.enqueue(s, 1)
	item := e.dequeue(s, "1")
	raw, err := s.Encode("assigned")
	if err != nil {
		e.Fatal(err)
	}
	op := metastore.Op{Path: "result", Do: metastore.Create, Value: raw}
	err = item.Consume(e.ctx, []metastore.Cond{{Path: "needed", Is: metastore.Exists}}, op)
	e.isConflict("a condition that doesn't hold", err, "needed")
	e.contains(s, "result", false)
	e.put(s, "needed", 1)
	e.check("Commit", s.Commit(e.ctx, []metastore.Cond{item.Guard()}, nil)) // it is held
	e.check("Consume", item.Consume(e.ctx, []metastore.Cond{{Path: "needed", Is: metastore.Exists}}, op))
	e.has(s, "result", "assigned")
	e.members(s, "q/items")
	e.isConflict("a guard of what is gone", s.Commit(e.ctx, []metastore.Cond{item.Guard()}, nil), item.Guard().Path)
}

// Every item is consumed once, whatever answers get lost; only an Enqueue whose outcome isn't known may have
// added one or not.
func queueConsumers(e *env, share float64) {
	const clients, each = 4, 10
	var mu sync.Mutex
	sure, seen := map[string]bool{}, map[string]int{}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var stores []*metastore.Store
	var all []*lossy
	for i := range 2 * clients {
		b := newLossy(e.engine.New(e), share, uint64(i))
		all, stores = append(all, b), append(stores, e.open(b, metastore.Options{}))
	}
	var consumers sync.WaitGroup
	consume := func(s *metastore.Store) {
		for r := 0; ; r++ {
			item, err := s.Dequeue(ctx, "q")
			if ctx.Err() != nil {
				return
			}
			e.check("Dequeue", err)
			if err != nil {
				return
			}
			if r%3 == 2 {
				e.check("Release", item.Release(e.ctx))
				continue
			}
			mu.Lock()
			seen[string(item.Value.Bytes())]++
			mu.Unlock()
			e.check("Consume", item.Consume(e.ctx, nil))
		}
	}
	for i := range clients {
		consumers.Go(func() { consume(stores[i]) })
	}
	e.parallel(clients, func(i int) error {
		for r := range each {
			_, err := stores[clients+i].Enqueue(e.ctx, "q", i*each+r)
			if err != nil && !errors.Is(err, metastore.ErrUnknown) {
				return err
			}
			mu.Lock()
			sure[fmt.Sprint(i*each+r)] = err == nil
			mu.Unlock()
		}
		return nil
	})
	e.empty(stores[0], "q/items")
	cancel()
	consumers.Wait()
	for _, b := range all {
		b.landing.Wait()
	}
	e.empty(e.store(), "q/claims") // and no session has ended
	for value, sure := range sure {
		if n := seen[value]; n > 1 || n == 0 && sure {
			e.Errorf("item %s was consumed %d times; certainly enqueued: %v", value, n, sure)
		}
	}
	e.Logf("%d items consumed", len(seen))
}

// empty waits until there is nothing below a key.
func (e *env) empty(s *metastore.Store, key string) {
	e.Helper()
	empty := make(chan struct{})
	w, err := s.WatchMembers(e.ctx, key, func(names []string, _ string) bool {
		if len(names) == 0 {
			close(empty)
		}
		return len(names) > 0
	})
	if err != nil {
		e.Fatal(err)
	}
	defer w.Stop()
	select {
	case <-empty:
	case <-e.ctx.Done():
		e.Fatalf("there is still something below %s", key)
	}
}

// A holder whose session has ended can't consume, and its item is another's.
func queueExpired(e *env) {
	b := e.engine.New(e)
	a, s := e.open(b, metastore.Options{}), e.store()
	e.enqueue(s, 1, 2)
	held := e.dequeue(a, "1")
	e.engine.Expire(e, b)
	<-held.Lost()
	now := e.dequeue(s, "1")
	e.is("Consume", held.Consume(e.ctx, nil), metastore.ErrSessionLost)
	e.is("Release", held.Release(e.ctx), metastore.ErrSessionLost)
	if now.Token <= held.Token {
		e.Fatalf("token %d after %d", now.Token, held.Token)
	}
	e.check("Consume", now.Consume(e.ctx, nil))
	e.dequeue(a, "2")
}
