// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/disco-sim/disco/metastore"
)

// watchedKeys is how many counters a watch history has.
const watchedKeys = 3

// watched is what watches of one key by several clients have shown.
type watched struct {
	mu   sync.Mutex
	last map[string]int64 // by client and key
	errs []error
	more chan struct{}
}

// found records an error, or only wakes who waits.
func (w *watched) found(err error) {
	if err != nil {
		w.mu.Lock()
		w.errs = append(w.errs, err)
		w.mu.Unlock()
	}
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// watch follows a counter: its numbers rise, and it is never deleted.
func (w *watched) watch(e *env, s *metastore.Store, client int, key string) error {
	name := fmt.Sprintf("client %d, key %s", client, key)
	_, err := s.Watch(e.ctx, key, func(v metastore.Value, _ string) bool {
		n, err := number(v)
		w.mu.Lock()
		before := w.last[name]
		w.last[name] = n
		w.mu.Unlock()
		if err == nil && (n < before || !v.Exists()) {
			err = fmt.Errorf("%s: a watch goes from %d to %d, exists: %v", name, before, n, v.Exists())
		}
		w.found(err)
		return true
	})
	return err
}

// behind describes a watch that hasn't shown what is there, or "", and gives the errors found.
func (w *watched) behind(is func(key string) int64, clients int) (missing string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for client := range clients {
		for k := range watchedKeys {
			name := fmt.Sprintf("client %d, key %s", client, watchedKey(k))
			if n, want := w.last[name], is(watchedKey(k)); n != want {
				missing = fmt.Sprintf("%s: the watch has seen %d last, %d is there", name, n, want)
			}
		}
	}
	return missing, errors.Join(w.errs...)
}

// watchedKey names a counter.
func watchedKey(k int) string { return fmt.Sprint("w", k) }

// number is a counter's value, 0 if it has none.
func number(v metastore.Value) (n int64, err error) {
	if v.HasValue() {
		err = v.Decode(&n)
	}
	return n, err
}

// watchHistory is counters that clients raise by updates of a store, and watches of them all.
func (e *env) watchHistory(r *rand.Rand, wrap func(metastore.Backend) metastore.Backend) error {
	const clients = 4
	c, bare := e.newCrowd(clients, wrap)
	w := &watched{last: map[string]int64{}, more: make(chan struct{}, 1)}
	var stores []*metastore.Store
	for i, b := range c.clients {
		s := e.open(b, metastore.Options{Report: w.found})
		stores = append(stores, s)
		for k := range watchedKeys {
			if err := w.watch(e, s, i, watchedKey(k)); err != nil {
				return err
			}
		}
	}
	err := c.work(r, bare, func(ctx context.Context, r *rand.Rand, i int) error {
		err := stores[i].Update(ctx, watchedKey(r.IntN(watchedKeys)), func(old metastore.Value) (any, error) {
			n, err := number(old)
			return n + 1, err
		})
		if ctx.Err() != nil {
			return nil
		}
		return harmless(err)
	})
	if err != nil {
		return err
	}
	for {
		missing, err := w.behind(func(key string) int64 {
			v, err := stores[0].Get(e.ctx, key)
			n, badly := number(v)
			if err = errors.Join(err, badly); err != nil {
				e.Logf("reading %s: %v", key, err)
				return -1
			}
			return n
		}, clients)
		if err != nil || missing == "" {
			return err
		}
		select {
		case <-w.more:
		case <-e.ctx.Done():
			return errors.New(missing)
		}
	}
}
