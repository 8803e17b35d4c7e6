// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Watch is a watch that goes on until its callback returns false, its key is deleted, or Stop.
type Watch struct {
	store *Store
	feed  Feed
	key   string
	f     func(State) (keep bool)
	done  chan struct{}

	mu      sync.Mutex
	running bool // a goroutine hands states to f
	again   bool // and has to look once more
}

// Stop ends the watch; a callback that runs at the time may still be running when it returns. It may be called
// by the callback, and again.
func (w *Watch) Stop() { w.feed.Close() }

// Done is closed when the watch has ended, and no callback of it runs any more.
func (w *Watch) Done() <-chan struct{} { return w.done }

// Watch calls f with a key's value as it is, then whenever it has changed. The key is made a directory if there is
// nothing. Calls come one after the other, with no lock held: f may use the store, Stop and Close included. Of
// several quick changes some may be left out, but f never gets a value that is older than the one before, and the last
// one that it gets is the last one that the key has. Breaks and lost sessions are only noticed if something changed.
//
// f returns whether the watch goes on. When the key is deleted, f is called once more, with a value that doesn't exist,
// and that is the end. A panic of f is reported (Options.Report), and ends this watch only; one that runs for long is
// reported while it runs, and other watches go on meanwhile.
func (s *Store) Watch(ctx context.Context, key string, f func(v Value, key string) (keep bool)) (*Watch, error) {
	return s.watch(ctx, key, Data, func(state State) bool {
		if state.Node.Value == nil {
			f(Value{key: key}, key)
			return false
		}
		return f(s.value(key, state.Node), key)
	})
}

// WatchMembers calls f with the names right below a key, sorted, and then whenever they have changed. All that is said
// of [Store.Watch] holds, but that a directory which is deleted has no members, and is watched on.
func (s *Store) WatchMembers(ctx context.Context, key string, f func(names []string, key string) (keep bool)) (*Watch,
	error) {
	return s.watch(ctx, key, Names, func(state State) bool {
		return f(s.visible(key, state.Names), key)
	})
}

// watch makes a feed and runs it.
func (s *Store) watch(ctx context.Context, key string, kind WatchKind, f func(State) bool) (*Watch, error) {
	path, err := s.path(key)
	if err == nil && !s.options.Existing {
		err = s.ensure(ctx, path)
	}
	if err != nil {
		return nil, fmt.Errorf("metastore: watch %q: %w", key, err)
	}
	return s.begin(path, key, kind, f), nil
}

// begin makes a watch. A feed that has a goroutine of its own makes another one only while there is something to hand
// on: of a thousand watches a thousand stacks would be most of the memory.
func (s *Store) begin(path, key string, kind WatchKind, f func(State) (keep bool)) *Watch {
	w := &Watch{store: s, feed: s.backend.Watch(path, kind), key: key, f: f, done: make(chan struct{})}
	if n, ok := w.feed.(notifier); ok {
		n.Notify(w.wake)
		return w
	}
	go func() {
		for w.hand(s.ctx) {
		}
	}()
	return w
}

// notifier is a Feed that calls wake, at first and then whenever Next may return something even if its context has
// ended: a state, or ErrClosed. The calls don't block, and no lock is held.
type notifier interface{ Notify(wake func()) }

// ended is a context that has ended: with it Next doesn't wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// wake makes a goroutine that hands on what there is, or lets the one that runs look again.
func (w *Watch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again = w.running; !w.running {
		w.running = true
		go w.drain()
	}
}

// drain hands states to f until there is none, and no wake has come meanwhile.
func (w *Watch) drain() {
	for {
		for w.hand(ended) {
		}
		w.mu.Lock()
		if !w.again {
			w.running = false
			w.mu.Unlock()
			return
		}
		w.again = false
		w.mu.Unlock()
	}
}

// hand hands the next state to f, and tells whether there may be more. The watch ends by ErrClosed or by f.
func (w *Watch) hand(ctx context.Context) (more bool) {
	select {
	case <-w.done:
		return false
	default:
	}
	state, err := w.feed.Next(ctx)
	if ctx == ended && errors.Is(err, context.Canceled) {
		return false // nothing at the moment
	}
	if err == nil && w.call(state) {
		return true
	}
	if errors.Is(err, ErrWrongCluster) {
		w.store.isWrong(err)
	} else if err != nil && !errors.Is(err, ErrClosed) && w.store.ctx.Err() == nil {
		w.store.options.Report(fmt.Errorf("metastore: watch of %q has ended: %w", w.key, err))
	}
	w.feed.Close()
	close(w.done)
	return false
}

// call calls f once, and reports it if it runs for long or panics.
func (w *Watch) call(state State) (keep bool) {
	most := w.store.options.CallbackMax
	slow := time.AfterFunc(most, func() {
		w.store.options.Report(fmt.Errorf("metastore: the callback of the watch of %q has been running for %v: "+
			"it gets nothing new until it returns", w.key, most))
	})
	defer func() {
		slow.Stop()
		if r := recover(); r != nil {
			keep = false
			w.store.options.Report(fmt.Errorf("metastore: the callback of the watch of %q panicked, and the watch has "+
				"ended: %v\n%s", w.key, r, debug.Stack()))
		}
	}()
	return w.f(state)
}
