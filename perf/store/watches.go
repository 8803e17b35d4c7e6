// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/metastore"
)

// watched is a side of the rows about watches: so many watches on one session, each of a key of its own.
type watched struct {
	proxy *forward.Forwarder // counts the bytes
	n     int
	seen  atomic.Int64  // changes
	all   chan struct{} // has a token when all keys have changed
	begin func(ctx context.Context) error
	end   func()
}

// changed notes a change of one key.
func (w *watched) changed() {
	if w.seen.Add(1)%int64(w.n) == 0 {
		w.all <- struct{}{}
	}
}

func watchKey(i int) string { return fmt.Sprintf("watched/%04d", i) }

// oursWatching watches through a store. The first call of each watch gives the value that is there.
func oursWatching(ctx context.Context, e *engine, n int) (*watched, error) {
	p, err := forward.New("", e.addr)
	if err != nil {
		return nil, err
	}
	s, err := e.open(ctx, p.Addr())
	if err != nil {
		p.Close()
		return nil, err
	}
	w := &watched{proxy: p, n: n, all: make(chan struct{}, 1), end: func() { _ = s.Close(); p.Close() }}
	w.begin = func(context.Context) error {
		var ready sync.WaitGroup
		ready.Add(n)
		for i := range n {
			first := true
			_, err := s.Follow(watchKey(i), func(metastore.Value, string) bool {
				if first {
					first = false
					ready.Done()
				} else {
					w.changed()
				}
				return true
			})
			if err != nil {
				return err
			}
		}
		ready.Wait()
		return nil
	}
	return w, nil
}

// bareWatching watches through the engine's usual client.
func bareWatching(ctx context.Context, e *engine, n int) (*watched, error) {
	p, err := forward.New("", e.addr)
	if err != nil {
		return nil, err
	}
	b, err := e.bare(ctx, p.Addr())
	if err != nil {
		p.Close()
		return nil, err
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	w := &watched{proxy: p, n: n, all: make(chan struct{}, 1),
		end: func() { cancel(); b.close(); running.Wait(); p.Close() }}
	w.begin = func(context.Context) error {
		ready, failed := make(chan struct{}, n), make(chan error, n)
		for i := range n {
			running.Go(func() {
				err := b.watch(ctx, "/"+group+"/"+watchKey(i), func() { ready <- struct{}{} },
					func([]byte) { w.changed() })
				if err != nil && ctx.Err() == nil {
					failed <- err
				}
			})
		}
		for range n {
			select {
			case <-ready:
			case err := <-failed:
				return err
			}
		}
		return nil
	}
	return w, nil
}

// writeAll writes every watched key once; each write is a change.
func writeAll(ctx context.Context, s *metastore.Store, n int) error {
	return together(min(n, 16), func(c int) error {
		for i := c; i < n; i += 16 {
			if err := s.Put(ctx, watchKey(i), value); err != nil {
				return err
			}
		}
		return nil
	})
}

// settled waits until no bytes pass any more, and gives their number.
func settled(p *forward.Forwarder) int64 {
	for before := int64(-1); ; time.Sleep(20 * time.Millisecond) {
		now := p.Bytes()
		if now == before {
			return now
		}
		before = now
	}
}

// figures measures one side: bytes to begin, and for each change.
func (w *watched) figures(ctx context.Context, writer *metastore.Store) (setup, update float64, err error) {
	before := settled(w.proxy)
	if err := w.begin(ctx); err != nil {
		return 0, 0, err
	}
	begun := settled(w.proxy)
	if err := writeAll(ctx, writer, w.n); err != nil {
		return 0, 0, err
	}
	select {
	case <-w.all:
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("%d of %d changes were seen: %w", w.seen.Load(), w.n, context.Cause(ctx))
	}
	after := settled(w.proxy)
	return float64(begun-before) / float64(w.n), float64(after-begun) / float64(w.n), nil
}

// each measures both sides, one after the other.
func each(ctx context.Context, e *engine, n int, oursFirst bool,
	measure func(w *watched, side int) error) error {
	for k := range 2 {
		side := k
		if !oursFirst {
			side = 1 - k
		}
		open := []func(context.Context, *engine, int) (*watched, error){oursWatching, bareWatching}[side]
		w, err := open(ctx, e, n)
		if err != nil {
			return err
		}
		err = measure(w, side)
		w.end()
		if err != nil {
			return err
		}
	}
	return nil
}

func openWatches(ctx context.Context, e *engine, o options) (measure, func(), error) {
	writer, err := e.open(ctx, e.addr, "watched")
	if err != nil {
		return nil, nil, err
	}
	if err := writeAll(ctx, writer, o.watches); err != nil {
		return nil, nil, errors.Join(err, writer.Close())
	}
	return func(ctx context.Context, oursFirst bool) ([]figure, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var setup, update [2]float64
		err := each(ctx, e, o.watches, oursFirst, func(w *watched, side int) (err error) {
			setup[side], update[side], err = w.figures(ctx, writer)
			return err
		})
		return []figure{{"watch-setup", "B", setup[0], setup[1]}, {"watch-update", "B", update[0], update[1]}}, err
	}, func() { _ = writer.Close() }, nil
}

// used is what is in use, heap and stacks, when nothing more happens.
func used() (bytes uint64, goroutines int) {
	time.Sleep(200 * time.Millisecond)
	for range 5 { // stacks shrink by half at most
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
}

// openMemory is what watches take in this process, once they wait.
func openMemory(ctx context.Context, e *engine, o options) (measure, func(), error) {
	writer, err := e.open(ctx, e.addr, "watched")
	if err == nil {
		err = errors.Join(writeAll(ctx, writer, o.watches), writer.Close())
	}
	return func(ctx context.Context, oursFirst bool) ([]figure, error) {
		var memory, goroutines [2]float64
		err := each(ctx, e, o.watches, oursFirst, func(w *watched, side int) error {
			bytes, number := used()
			if err := w.begin(ctx); err != nil {
				return err
			}
			bytesThen, numberThen := used()
			memory[side] = (float64(bytesThen) - float64(bytes)) / float64(w.n)
			goroutines[side] = float64(numberThen-number) / float64(w.n)
			return nil
		})
		return []figure{{"watch-memory", "B", memory[0], memory[1]},
			{"watch-goroutines", "a watch", goroutines[0], goroutines[1]}}, err
	}, func() {}, err
}
