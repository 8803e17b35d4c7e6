// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// job is what is measured together. open prepares it on an engine; round measures once, our side first or second.
type job struct {
	name string
	open func(ctx context.Context, e *engine, o options) (round measure, end func(), err error)
}

type measure func(ctx context.Context, oursFirst bool) ([]figure, error)

var jobs = []job{
	{"put", openPut}, {"get", openGet}, {"watch", openWatches}, {"memory", openMemory}, {"view", openView},
	{"updates", openUpdates}, {"lead", openLead}, {"queue", openQueue},
}

func jobNames() (names []string) {
	for _, j := range jobs {
		names = append(names, j.name)
	}
	return names
}

// together calls f for 0 to n-1, each in a goroutine.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// rates lets two sides take turns in blocks of calls until each has had its time, and gives calls a second.
func rates(limit time.Duration, callers int, oursFirst bool, ours, bare func(i int) error) (our, other float64,
	err error) {
	const block = 20
	sides := []func(int) error{ours, bare}
	var took [2]time.Duration
	calls := 0
	for n := 0; took[0] < limit || took[1] < limit; n++ {
		for k := range 2 {
			side := (n + k) % 2
			if !oursFirst {
				side = 1 - side
			}
			began := time.Now()
			if err := together(callers, func(c int) error {
				for i := range block {
					if err := sides[side](c*block + i); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return 0, 0, err
			}
			took[side] += time.Since(began)
		}
		calls += block * callers
	}
	return float64(calls) / took[0].Seconds(), float64(calls) / took[1].Seconds(), nil
}

// value is what puts write: 200 bytes of JSON.
var value = strings.Repeat("v", 198)

// keyOf is one of some keys; ours is in the group, bare's is beside it and as long.
func keyOf(i int) (ours, bare string) {
	return fmt.Sprintf("keys/ours/%04d", i), fmt.Sprintf("/%s/keys/bare/%04d", group, i)
}

// suffix is how a row's name says how many callers or sessions it has.
func suffix(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprint("-", n)
}

func openPut(ctx context.Context, e *engine, o options) (measure, func(), error) {
	s, b, end, err := e.two(ctx, "keys/ours")
	if err != nil {
		return nil, nil, err
	}
	encoded := []byte(`j"` + value + `"`)
	for i := range 20 * slices.Max(o.callers) { // keepPut needs them
		ours, bare := keyOf(i)
		if err := errors.Join(s.Put(ctx, ours, value), b.put(ctx, bare, encoded)); err != nil {
			end()
			return nil, nil, err
		}
	}
	ours := func(i int) error { key, _ := keyOf(i); return s.Put(ctx, key, value) }
	pairs := []pair{
		{"put", ours, func(i int) error { _, key := keyOf(i); return b.put(ctx, key, encoded) }},
		{"put-guarantee", ours, func(i int) error { _, key := keyOf(i); return b.keepPut(ctx, key, encoded) }}}
	if e.kind != "etcd" {
		pairs = pairs[:1]
	}
	return func(_ context.Context, oursFirst bool) ([]figure, error) {
		return measurePairs(o, oursFirst, pairs)
	}, end, nil
}

// pair is two sides of rows that go by time.
type pair struct {
	name       string
	ours, bare func(i int) error
}

// measurePairs measures each pair with each number of callers.
func measurePairs(o options, oursFirst bool, pairs []pair) (all []figure, err error) {
	for _, p := range pairs {
		for _, n := range o.callers {
			mine, other, err := rates(o.time, n, oursFirst, p.ours, p.bare)
			if err != nil {
				return nil, err
			}
			all = append(all, figure{p.name + suffix(n), "calls/s", mine, other})
		}
	}
	return all, nil
}

func openGet(ctx context.Context, e *engine, o options) (measure, func(), error) {
	s, b, end, err := e.two(ctx, "keys/ours")
	if err != nil {
		return nil, nil, err
	}
	weak, err := e.openWith(ctx, e.addr, true)
	if err != nil {
		end()
		return nil, nil, err
	}
	key, bareKey := keyOf(0)
	if err := errors.Join(s.Put(ctx, key, value), b.put(ctx, bareKey, []byte(`j"`+value+`"`))); err != nil {
		return nil, nil, err
	}
	read := func(s *metastore.Store) func(int) error {
		return func(int) error { _, err := s.Get(ctx, key); return err }
	}
	usual := func(int) error { return b.get(ctx, bareKey) }
	fenced := func(int) error { return b.fencedGet(ctx, bareKey) }
	pairs := []pair{{"get", read(s), usual}, {"get-guarantee", read(s), fenced}, {"get-sync", read(weak), usual}}
	if !e.fenced() {
		pairs = pairs[:1]
	}
	return func(_ context.Context, oursFirst bool) ([]figure, error) {
		return measurePairs(o, oursFirst, pairs)
	}, func() { _ = weak.Close(); end() }, nil
}
