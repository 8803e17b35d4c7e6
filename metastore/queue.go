// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrEmpty is the error about a queue that has no item, or none that nobody holds.
var ErrEmpty = errors.New("the queue has no item that is free")

// ErrHolding is the error about a queue's handle that holds an item already.
var ErrHolding = errors.New("this handle holds an item already: consume or release it first, or take another handle")

// Queue is a handle of a queue: first in, first out, with any number of handles in any number of programs. One handle
// holds one item at a time. Its methods may be called by any goroutine.
//
// Items are below the queue's key at items, and who holds them at claims. An item whose holder has died is at its place
// again as soon as the holder's session has ended.
type Queue struct {
	store *Store
	key   string
	items string // paths
	claim string

	mu      sync.Mutex
	holding bool
}

// Queue makes a handle of the queue at a key.
func (s *Store) Queue(key string) (*Queue, error) {
	path, err := s.writable(key)
	if err == nil {
		// A claim has the longest path. An item's name has no more bytes than this.
		_, err = Path(path, "claims/0123456789abcdef0123456789abcdef")
	}
	if err != nil {
		return nil, fmt.Errorf("metastore: queue: %w", err)
	}
	return &Queue{store: s, key: key, items: path + "/items", claim: path + "/claims"}, nil
}

// Enqueue appends an item to the queue at a key; see [Queue.Enqueue].
func (s *Store) Enqueue(ctx context.Context, key string, value any) (name string, err error) {
	q, err := s.Queue(key)
	if err != nil {
		return "", err
	}
	return q.Enqueue(ctx, value)
}

// Dequeue takes the first item of the queue at a key, by a handle of its own; see [Queue.Dequeue].
func (s *Store) Dequeue(ctx context.Context, key string) (*Item, error) {
	q, err := s.Queue(key)
	if err != nil {
		return nil, err
	}
	return q.Dequeue(ctx)
}

// Enqueue appends an item, and returns its name, which sorts after those of all that were appended before. After
// ErrUnknown the item may be there, or not.
func (q *Queue) Enqueue(ctx context.Context, value any) (name string, err error) {
	raw, err := q.store.Encode(value)
	if err == nil {
		err = q.ensure(ctx)
	}
	if err == nil {
		name, err = q.store.backend.Append(ctx, q.items, raw)
	}
	if err != nil {
		return "", fmt.Errorf("metastore: enqueue into %q: %w", q.key, err)
	}
	return name, nil
}

// ensure makes the queue's directories.
func (q *Queue) ensure(ctx context.Context) error {
	if _, err := q.store.path(q.key); err != nil {
		return err // another cluster
	}
	if err := q.store.ensureOnce(ctx, q.items); err != nil {
		return err
	}
	return q.store.ensureOnce(ctx, q.claim)
}

// Dequeue takes the first item that nobody holds, and waits for one until the context ends, without polling.
// ErrHolding, or the context's error.
func (q *Queue) Dequeue(ctx context.Context) (*Item, error) { return q.hold(ctx, q.dequeue) }

// TryDequeue is [Queue.Dequeue] for those who don't wait: ErrEmpty where there is no item that nobody holds. It makes
// no queue where there is none.
func (q *Queue) TryDequeue(ctx context.Context) (*Item, error) {
	return q.hold(ctx, func(ctx context.Context) (*Item, error) {
		if _, err := q.store.path(q.key); err != nil {
			return nil, err // another cluster
		}
		item, err := q.first(ctx)
		if item == nil && err == nil {
			err = ErrEmpty
		}
		return item, err
	})
}

// hold takes an item by take, unless the handle holds one.
func (q *Queue) hold(ctx context.Context, take func(context.Context) (*Item, error)) (*Item, error) {
	q.mu.Lock()
	held := q.holding
	q.holding = true
	q.mu.Unlock()
	if held {
		return nil, fmt.Errorf("metastore: dequeue from %q: %w", q.key, ErrHolding)
	}
	item, err := take(ctx)
	if err != nil {
		q.free()
		return nil, fmt.Errorf("metastore: dequeue from %q: %w", q.key, err)
	}
	return item, nil
}

// free lets the handle take another item.
func (q *Queue) free() {
	q.mu.Lock()
	q.holding = false
	q.mu.Unlock()
}

func (q *Queue) dequeue(ctx context.Context) (*Item, error) {
	if err := q.ensure(ctx); err != nil {
		return nil, err
	}
	item, err := q.first(ctx)
	if item != nil || err != nil {
		return item, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan error, 2) // an error is a feed's end
	var ended sync.WaitGroup
	for _, path := range []string{q.items, q.claim} {
		feed := q.store.backend.Watch(path, Names)
		ended.Go(func() { follow(ctx, feed, changed) })
	}
	defer ended.Wait()
	defer cancel()
	for {
		if err := <-changed; err != nil {
			return nil, err
		}
		if item, err := q.first(ctx); item != nil || err != nil {
			return item, err
		}
	}
}

// follow puts a token into changed for each state of a feed, and the error with which it ends.
func follow(ctx context.Context, feed Feed, changed chan<- error) {
	defer feed.Close()
	for {
		_, err := feed.Next(ctx)
		select {
		case changed <- err:
		case <-ctx.Done():
			select {
			case changed <- context.Cause(ctx): // two are enough; there may be two already
			default:
			}
			return
		}
		if err != nil {
			return
		}
	}
}

// first claims the first item without a claim, or returns nil. Items are read before claims: one that was consumed in
// between is missing among the claims only, and its Exists doesn't hold then.
func (q *Queue) first(ctx context.Context) (*Item, error) {
	items, err := q.store.backend.Children(ctx, q.items)
	if err != nil && !errors.Is(err, ErrNoNode) || len(items) == 0 {
		return nil, ignore(err, ErrNoNode)
	}
	claims, err := q.store.backend.Children(ctx, q.claim)
	if err != nil && !errors.Is(err, ErrNoNode) {
		return nil, err
	}
	for _, name := range items {
		if _, held := slices.BinarySearch(claims, name); held {
			continue
		}
		item, err := q.take(ctx, name)
		for errors.Is(err, ErrSessionLost) && ctx.Err() == nil {
			item, err = q.take(ctx, name) // with a new one
		}
		var conflict *ConflictError
		if err == nil || !errors.As(err, &conflict) {
			return item, err
		}
	}
	return nil, nil
}

// ignore drops one kind of error.
func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// take claims one item. *ConflictError if it is gone, or another's.
func (q *Queue) take(ctx context.Context, name string) (*Item, error) {
	s := q.store
	session, err := s.backend.Session(ctx)
	if err != nil {
		return nil, err
	}
	path, claim := q.items+"/"+name, q.claim+"/"+name
	session, mine, err := s.createEphemeral(ctx, session, claim, session.ID(), []Cond{{Path: path, Is: Exists}})
	if err != nil {
		return nil, err
	}
	item := &Item{Name: name, Token: mine.Version.Created, queue: q, session: session,
		guard: Cond{Path: claim, Is: At, Version: mine.Version}}
	n, err := s.backend.Get(ctx, path)
	if err != nil { // somebody has deleted it in spite of the claim, or the context has ended
		s.removeLater(Cond{}, claim, mine.Value)
		if errors.Is(err, ErrNoNode) {
			return nil, &ConflictError{Cond{Path: s.key(path), Is: Exists}}
		}
		return nil, err
	}
	item.Value = s.value(s.key(path), n)
	return item, nil
}

// Item is an item of a queue that this handle holds.
type Item struct {
	Name  string
	Value Value
	Token uint64 // rises with each claim of any item

	queue   *Queue
	session Session
	guard   Cond // a path
}

// Lost is closed when the session that holds the item has ended: it is free for others then.
func (i *Item) Lost() <-chan struct{} { return i.session.Lost() }

// Guard is the condition, for [Store.Commit], that the item is still held.
func (i *Item) Guard() Cond {
	g := i.guard
	g.Path = i.queue.store.key(g.Path)
	return g
}

// Consume removes the item for good, in one commit with whatever is given: all of it is done, or none.
// ErrSessionLost if the item is no longer held; a *ConflictError is about the conditions given.
func (i *Item) Consume(ctx context.Context, conds []Cond, ops ...Op) error {
	conds = append([]Cond{i.Guard()}, conds...)
	s := i.queue.store
	item := s.key(i.queue.items + "/" + i.Name)
	ops = append([]Op{{Path: item, Do: Delete}, {Path: i.Guard().Path, Do: Delete}}, ops...)
	return i.end(ctx, "consume", conds, ops)
}

// Release gives the item back to its place, where another takes it next.
func (i *Item) Release(ctx context.Context) error {
	return i.end(ctx, "release", []Cond{i.Guard()}, []Op{{Path: i.Guard().Path, Do: Delete}})
}

// end does a commit that takes the claim away, and frees the handle when it is certain that the item isn't held.
func (i *Item) end(ctx context.Context, what string, conds []Cond, ops []Op) error {
	s := i.queue.store
	unknown := false
	for try := 0; ; try++ {
		err := s.Commit(ctx, conds, ops)
		var conflict *ConflictError
		switch {
		case err == nil:
			i.queue.free()
			return nil
		case errors.Is(err, ErrUnknown) && pause(ctx, try) == nil:
			unknown = true
			continue
		case errors.As(err, &conflict) && conflict.Cond == i.Guard():
			i.queue.free()
			if !unknown {
				return fmt.Errorf("metastore: %s %q of %q: %w", what, i.Name, i.queue.key, ErrSessionLost)
			}
			return i.ended(ctx, what)
		}
		return fmt.Errorf("metastore: %s %q of %q: %w", what, i.Name, i.queue.key, withUnknown(err, unknown))
	}
}

// ended tells what an unknown outcome was, now that the claim is gone: by the commit, unless the session has ended.
func (i *Item) ended(ctx context.Context, what string) error {
	select {
	case <-i.session.Lost():
		return fmt.Errorf("metastore: %s %q of %q: %w, and the session has ended",
			what, i.Name, i.queue.key, ErrUnknown)
	default:
		return nil
	}
}
