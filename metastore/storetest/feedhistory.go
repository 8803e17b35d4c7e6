// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/disco-sim/disco/metastore"
)

// counter is a key whose value only rises, deleted and made again at times: another key beside it keeps the place.
type counter struct{ key, place string }

// raise changes a counter once, if nobody else does so meanwhile. A number is drawn after what it follows was read:
// so it is higher.
func (e *env) raise(ctx context.Context, r *rand.Rand, b metastore.Backend, c counter, drawn *atomic.Int64) error {
	place, err := b.Get(ctx, c.place)
	if err != nil && !errors.Is(err, metastore.ErrNoNode) {
		return harmless(err)
	}
	at := metastore.Cond{Path: c.place, Is: metastore.At, Version: place.Version}
	if place.Value == nil {
		at.Is, at.Version = metastore.Missing, metastore.Version{}
	}
	next := strconv.AppendInt(nil, drawn.Add(1), 10)
	op := metastore.Op{Path: c.key, Do: metastore.Set, Value: next}
	if r.IntN(5) == 0 {
		op = metastore.Op{Path: c.key, Do: metastore.Delete}
	}
	return harmless(b.Commit(ctx, []metastore.Cond{at},
		[]metastore.Op{{Path: c.place, Do: metastore.Set, Value: next}, op}))
}

// raiseLast gives a counter its last number, and returns it: what others have begun before can't follow it.
func (e *env) raiseLast(b metastore.Backend, c counter, drawn *atomic.Int64) string {
	for {
		place, err := b.Get(e.ctx, c.place)
		at := metastore.Cond{Path: c.place, Is: metastore.At, Version: place.Version}
		if errors.Is(err, metastore.ErrNoNode) {
			at.Is, err = metastore.Missing, nil
		}
		next := strconv.AppendInt(nil, drawn.Add(1), 10)
		if err == nil {
			err = b.Commit(e.ctx, []metastore.Cond{at}, []metastore.Op{
				{Path: c.place, Do: metastore.Set, Value: next}, {Path: c.key, Do: metastore.Set, Value: next}})
		}
		if err == nil {
			return string(next)
		}
		if harmless(err) != nil || e.ctx.Err() != nil {
			e.Fatal(err)
		}
	}
}

// harmless drops errors that a client under faults may get.
func harmless(err error) error {
	var conflict *metastore.ConflictError
	if errors.Is(err, metastore.ErrUnknown) || errors.Is(err, metastore.ErrUnavailable) || errors.As(err, &conflict) {
		return nil
	}
	return err
}

// feedHistory is counters that clients raise, and feeds of them all: none goes back, and all end with what is there.
func (e *env) feedHistory(r *rand.Rand, wrap func(metastore.Backend) metastore.Backend) error {
	const clients, counters = 4, 3
	c, bare := e.newCrowd(clients, wrap)
	var all []counter
	for i := range counters {
		all = append(all, counter{e.path(fmt.Sprintf("d/c%d", i)), e.path(fmt.Sprintf("p/c%d", i))})
	}
	var drawn atomic.Int64
	reads := newReaders(e)
	for i := range clients {
		for _, counter := range all {
			reads.follow(c.clients[i], counter.key)
		}
		reads.followNames(c.clients[i], e.path("d"))
	}
	err := c.work(r, bare, func(ctx context.Context, r *rand.Rand, i int) error {
		return e.raise(ctx, r, c.clients[i], all[r.IntN(counters)], &drawn)
	})
	if err != nil {
		return errors.Join(err, reads.stop())
	}
	// In the end each counter is there, with a number that nobody else writes: all feeds must come to it.
	last := e.client()
	for _, counter := range all {
		reads.want(counter.key, e.raiseLast(last, counter, &drawn))
	}
	names, err := last.Children(e.ctx, e.path("d"))
	if err != nil {
		return err
	}
	reads.want(e.path("d"), strings.Join(names, " "))
	return reads.end()
}

// readers follow nodes, each by a goroutine.
type readers struct {
	e     *env
	ctx   context.Context
	halt  context.CancelFunc
	ended sync.WaitGroup

	mu   sync.Mutex
	errs []error
	last map[string][]*atomic.Value // by path: what each reader has seen last
	goal map[string]string          // by path: what is there in the end
	more chan struct{}
}

func newReaders(e *env) *readers {
	r := &readers{e: e, last: map[string][]*atomic.Value{}, goal: map[string]string{}, more: make(chan struct{}, 1)}
	r.ctx, r.halt = context.WithCancel(e.ctx)
	return r
}

// follow reads a counter's feed: its numbers rise.
func (r *readers) follow(b metastore.Backend, path string) {
	highest := int64(0)
	r.read(path, b.Watch(path, metastore.Data), func(s metastore.State) (string, error) {
		if s.Node.Value == nil {
			return "", nil
		}
		n, err := strconv.ParseInt(string(s.Node.Value), 10, 64)
		if err == nil && n <= highest {
			err = fmt.Errorf("a feed of %s goes back from %d to %d", path, highest, n)
		}
		highest = n
		return string(s.Node.Value), err
	})
}

// followNames reads a feed of names.
func (r *readers) followNames(b metastore.Backend, path string) {
	r.read(path, b.Watch(path, metastore.Names), func(s metastore.State) (string, error) {
		if !slices.IsSorted(s.Names) {
			return "", fmt.Errorf("a feed of %s: %q aren't sorted", path, s.Names)
		}
		return strings.Join(s.Names, " "), nil
	})
}

// read runs a feed until the readers stop, or it shows something wrong.
func (r *readers) read(path string, feed metastore.Feed, look func(metastore.State) (string, error)) {
	last := &atomic.Value{}
	r.mu.Lock()
	r.last[path] = append(r.last[path], last)
	r.mu.Unlock()
	r.ended.Go(func() {
		defer feed.Close()
		for {
			s, err := feed.Next(r.ctx)
			if r.ctx.Err() != nil {
				return
			}
			var seen string
			if err == nil {
				seen, err = look(s)
			}
			if err != nil {
				r.mu.Lock()
				r.errs = append(r.errs, err)
				r.mu.Unlock()
				r.ping()
				return
			}
			last.Store(seen)
			r.ping()
		}
	})
}

func (r *readers) ping() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// want is what readers of a path must see in the end.
func (r *readers) want(path, text string) { r.goal[path] = text }

// end waits until all readers have seen what is there, or one has shown something wrong.
func (r *readers) end() error {
	for {
		missing := ""
		r.mu.Lock()
		failed := len(r.errs) > 0
		for path, want := range r.goal {
			for i, last := range r.last[path] {
				if got := last.Load(); got != want {
					missing = fmt.Sprintf("reader %d of %s has seen %q last, %q is there", i, path, got, want)
				}
			}
		}
		r.mu.Unlock()
		if failed || missing == "" {
			return r.stop()
		}
		select {
		case <-r.more:
		case <-r.e.ctx.Done():
			return errors.Join(errors.New(missing), r.stop())
		}
	}
}

// stop ends all readers.
func (r *readers) stop() error {
	r.halt()
	r.ended.Wait()
	return errors.Join(r.errs...)
}
