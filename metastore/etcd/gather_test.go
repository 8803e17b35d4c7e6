// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/forward"
)

// collect begins reads of keys while nobody reads, and returns their values or errors, in the keys' order, once the
// reading goroutine has begun.
func collect(ctx context.Context, b *Backend, keys []string) (values []string, errs []error) {
	b.gather.mu.Lock()
	b.gather.running = true // as if one were under way
	b.gather.mu.Unlock()
	values, errs = make([]string, len(keys)), make([]error, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			kv, _, err := b.read(ctx, key)
			if errs[i] = err; kv != nil {
				values[i] = string(kv.Value)
			}
		})
	}
	for waiting := 0; waiting < len(keys) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		b.gather.mu.Lock()
		waiting = len(b.gather.wanted)
		b.gather.mu.Unlock()
	}
	b.all.Go(b.readAll)
	all.Wait()
	return values, errs
}

// TestReadTogether: what is wanted at the same time is read by few transactions, and each gets what is its own; one
// that is refused fails alone.
func TestReadTogether(t *testing.T) {
	b := one(t, start(t, 1).Addrs())
	ctx := t.Context()
	var keys []string
	for i := range 5 * gatherMax {
		key := fmt.Sprint("/g/", i)
		keys = append(keys, key)
		if i%7 == 0 {
			continue // isn't there
		}
		if _, err := b.client.Put(ctx, key, key); err != nil {
			t.Fatal(err)
		}
	}
	keys[100] = "" // etcd takes no such key
	for range 2 {  // a second time with the most keys at once
		values, errs := collect(ctx, b, keys)
		for i, key := range keys {
			want := key
			if i%7 == 0 {
				want = ""
			}
			if values[i] != want || (errs[i] != nil) != (key == "") {
				t.Errorf("%q: found %q, %v", key, values[i], errs[i])
			}
		}
	}
}

// Reads that were given up while the store can't be reached don't pile up, and the others succeed when it is there
// again.
func TestReadTogetherInAnOutage(t *testing.T) {
	s := start(t, 1)
	p, err := forward.New("", s.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	b := one(t, []string{p.Addr()})
	if _, err := b.client.Put(t.Context(), "/g/a", "a"); err != nil {
		t.Fatal(err)
	}
	p.Isolate()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	errs := make([]error, 500)
	for i := range errs {
		all.Go(func() { _, _, errs[i] = b.read(ctx, "/g/a") })
	}
	cancel()
	all.Wait()
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	b.gather.mu.Lock()
	left := len(b.gather.wanted)
	b.gather.mu.Unlock()
	if left > 0 {
		t.Errorf("%d reads that nobody waits for are still wanted", left)
	}
	p.Heal()
	for {
		kv, _, err := b.read(t.Context(), "/g/a")
		if err == nil {
			if string(kv.Value) != "a" {
				t.Errorf("found %q", kv.Value)
			}
			return
		}
	}
}
