// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// changesPerRound is how often the leader changes in a round.
const changesPerRound = 5

// openLead is how long a leader's successor takes from when it resigns; beside it a key's deletion, seen by one who
// waits for it and then reads the candidates.
func openLead(ctx context.Context, e *engine, _ options) (measure, func(), error) {
	a, b, end, err := e.two(ctx)
	if err != nil {
		return nil, nil, err
	}
	a2, b2, end2, err := e.two(ctx)
	if err != nil {
		end()
		return nil, nil, err
	}
	closeAll := func() { end2(); end() }
	n := 0
	return func(ctx context.Context, oursFirst bool) ([]figure, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var took [2]time.Duration
		for range changesPerRound {
			n++
			for k := range 2 {
				side := k
				if !oursFirst {
					side = 1 - k
				}
				var one time.Duration
				var err error
				if side == 0 {
					one, err = oursChange(ctx, a, a2, fmt.Sprint("lead", n))
				} else {
					one, err = bareChange(ctx, b, b2, fmt.Sprintf("/%s/bare/lead%d", group, n))
				}
				if err != nil {
					return nil, err
				}
				took[side] += one
			}
		}
		ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 / changesPerRound }
		return []figure{{"leader-change", "ms", ms(took[0]), ms(took[1])}}, nil
	}, closeAll, nil
}

// oursChange lets one lead, another wait, the first resign.
func oursChange(ctx context.Context, a, b *metastore.Store, key string) (time.Duration, error) {
	lead, err := a.Campaign(ctx, key, "a")
	if err != nil {
		return 0, err
	}
	type result struct {
		lead *metastore.Lead
		at   time.Time
		err  error
	}
	second := make(chan result, 1)
	go func() {
		lead, err := b.Campaign(ctx, key, "b")
		second <- result{lead, time.Now(), err}
	}()
	for names := []string(nil); len(names) < 2; {
		if names, err = b.Members(ctx, key+"/candidates"); err != nil {
			return 0, err
		}
	}
	time.Sleep(50 * time.Millisecond) // it waits for the first one by then
	began := time.Now()
	if err := lead.Resign(ctx); err != nil {
		return 0, err
	}
	r := <-second
	if r.err != nil {
		return 0, r.err
	}
	return r.at.Sub(began), r.lead.Resign(ctx)
}

// bareChange is the same by hand.
func bareChange(ctx context.Context, a, b bare, dir string) (time.Duration, error) {
	if err := errors.Join(a.create(ctx, dir+"/a"), b.create(ctx, dir+"/b")); err != nil {
		return 0, err
	}
	type result struct {
		at  time.Time
		err error
	}
	second, waits := make(chan result, 1), make(chan struct{})
	go func() {
		err := b.gone(ctx, dir+"/a", sync.OnceFunc(func() { close(waits) }))
		if err == nil {
			_, err = b.tree(ctx, dir)
		}
		second <- result{time.Now(), err}
	}()
	select {
	case <-waits:
	case r := <-second:
		return 0, r.err
	}
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	if err := a.remove(ctx, dir+"/a"); err != nil {
		return 0, err
	}
	r := <-second
	return r.at.Sub(began), errors.Join(r.err, b.remove(ctx, dir+"/b"))
}

// The rows of queues.
const (
	items     = 100
	consumers = 4
)

// openQueue fills a queue by one producer, and empties it by consumers on one session. Beside it items that are
// appended, read and deleted without claims: one that is lost with its consumer is lost.
func openQueue(ctx context.Context, e *engine, _ options) (measure, func(), error) {
	s, b, end, err := e.two(ctx)
	if err != nil {
		return nil, nil, err
	}
	dir := "/" + group + "/bare/queue"
	in := []func() error{
		func() error {
			for range items {
				if _, err := s.Enqueue(ctx, "queue", value); err != nil {
					return err
				}
			}
			return nil
		},
		func() error {
			for range items {
				if err := b.enqueue(ctx, dir, []byte(value)); err != nil {
					return err
				}
			}
			return nil
		}}
	out := []func() error{
		func() error { return consumeAll(ctx, s) },
		func() error {
			return together(consumers, func(int) error {
				for {
					if found, err := b.take(ctx, dir); !found {
						return err
					}
				}
			})
		}}
	return func(_ context.Context, oursFirst bool) (all []figure, err error) {
		for i, sides := range [][]func() error{in, out} {
			took, err := timed(oursFirst, sides...)
			if err != nil {
				return nil, err
			}
			all = append(all, figure{[]string{"queue-in", "queue-out"}[i], "items/s", items * 1e3 / took[0],
				items * 1e3 / took[1]})
		}
		return all, nil
	}, end, nil
}

// consumeAll takes and consumes all items.
func consumeAll(ctx context.Context, s *metastore.Store) error {
	var left atomic.Int64
	left.Store(items)
	return together(consumers, func(int) error {
		q, err := s.Queue("queue")
		for err == nil && left.Add(-1) >= 0 {
			var item *metastore.Item
			if item, err = q.Dequeue(ctx); err == nil {
				err = item.Consume(ctx, nil)
			}
		}
		return err
	})
}
