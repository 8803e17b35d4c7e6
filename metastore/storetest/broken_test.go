// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// broken is an engine with a fault of its own, one time in ten.
type broken struct {
	metastore.Backend
	fault string

	past *past

	mu sync.Mutex
	n  int
}

// past is what clients have read first, by path.
type past struct {
	mu    sync.Mutex
	nodes map[string]metastore.Node
}

// now tells whether it is time for the fault.
func (b *broken) now(fault string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	return b.fault == fault && b.n%10 == 0
}

// Get returns what the node was before.
func (b *broken) Get(ctx context.Context, path string) (metastore.Node, error) {
	n, err := b.Backend.Get(ctx, path)
	b.past.mu.Lock()
	defer b.past.mu.Unlock()
	old, ok := b.past.nodes[path]
	if err == nil && !ok {
		b.past.nodes[path] = n
	}
	if b.now("stale read") && ok {
		return old, nil
	}
	return n, err
}

// Commit acknowledges without doing, does in spite of a condition, or does and says that it wasn't done.
func (b *broken) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if b.now("lost write") {
		return nil
	}
	if b.now("no conditions") {
		return b.Backend.Commit(ctx, nil, ops)
	}
	if err := b.Backend.Commit(ctx, conds, ops); err != nil || !b.now("denied write") {
		return err
	}
	return metastore.ErrUnavailable
}

// Append appends twice.
func (b *broken) Append(ctx context.Context, dir string, value []byte) (string, error) {
	if b.now("appended twice") {
		if _, err := b.Backend.Append(ctx, dir, value); err != nil {
			return "", err
		}
	}
	return b.Backend.Append(ctx, dir, value)
}

// Watch makes a feed that goes back, or loses what comes after a while.
func (b *broken) Watch(path string, kind metastore.WatchKind) metastore.Feed {
	return &brokenFeed{Feed: b.Backend.Watch(path, kind), b: b}
}

// brokenFeed is one goroutine's.
type brokenFeed struct {
	metastore.Feed
	b      *broken
	n      int
	before metastore.State
}

// Next returns the state before the last one, or nothing any more.
func (f *brokenFeed) Next(ctx context.Context) (metastore.State, error) {
	f.n++
	if f.b.fault == "deaf feed" && f.n > 5 {
		<-ctx.Done()
		return metastore.State{}, ctx.Err()
	}
	if f.b.fault == "feed goes back" && f.n > 3 && f.n%4 == 0 {
		return f.before, nil
	}
	s, err := f.Feed.Next(ctx)
	if f.n%4 == 2 {
		f.before = s
	}
	return s, err
}

// memEngine is the reference.
func memEngine() Engine {
	server := mem.NewServer(time.Second)
	return Engine{New: func(testing.TB) metastore.Backend { return server.NewClient() }}
}

// Each fault is found by the history that is meant for it: a checker that never fails checks nothing.
func TestBrokenEnginesAreCaught(t *testing.T) {
	for _, c := range []struct {
		fault string
		run   func(*env) workload
		want  string
	}{
		{"stale read", func(e *env) workload { return e.keyHistory }, "not linearizable"},
		{"lost write", func(e *env) workload { return e.keyHistory }, "not linearizable"},
		{"no conditions", func(e *env) workload { return e.keyHistory }, "not linearizable"},
		{"denied write", func(e *env) workload { return e.keyHistory }, "not linearizable"},
		{"lost write", func(e *env) workload { return e.queueHistory }, "not linearizable"},
		{"appended twice", func(e *env) workload { return e.queueHistory }, "not linearizable"},
		{"feed goes back", func(e *env) workload { return e.feedHistory }, "goes back"},
		{"deaf feed", func(e *env) workload { return e.feedHistory }, "has seen"},
		{"feed goes back", func(e *env) workload { return e.watchHistory }, "goes from"},
		{"deaf feed", func(e *env) workload { return e.watchHistory }, "has seen"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			engine := memEngine() // without hooks, so that this fault is what is found
			if c.fault == "deaf feed" {
				engine.Timeout = 3 * time.Second // after which it is found
			}
			var err error
			for range 20 { // a short history may be right by chance
				e, past := newEnv(t, engine), &past{nodes: map[string]metastore.Node{}}
				err = c.run(e)(rand.New(rand.NewPCG(rand.Uint64(), 0)), func(b metastore.Backend) metastore.Backend {
					return &broken{Backend: b, fault: c.fault, past: past}
				})
				if err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, want %q", err, c.want)
			}
		})
	}
}

// The checks' own rules, by small histories.
func TestHistoryCheck(t *testing.T) {
	one, two := "1", "2"
	put := func(v *string) step { return step{write: [keysOfGroup]*string{v}} }
	get := step{read: true}
	type call struct {
		in         any
		out        outcome
		begin, end int64
	}
	for _, c := range []struct {
		name string
		ok   bool
		ops  []call
	}{
		{"a read after a write", true, []call{{put(&one), outcome{}, 0, 1}, {get, outcome{value: "1"}, 2, 3}}},
		{"a read of the future", false, []call{{get, outcome{value: "1"}, 0, 1}, {put(&one), outcome{}, 2, 3}}},
		{"a read of the past", false, []call{{put(&one), outcome{}, 0, 1}, {put(&two), outcome{}, 2, 3},
			{get, outcome{value: "1"}, 4, 5}}},
		{"beside a write", true, []call{{put(&one), outcome{}, 0, 9}, {get, outcome{}, 1, 2},
			{get, outcome{value: "1"}, 3, 4}}},
		{"back beside a write", false, []call{{put(&one), outcome{}, 0, 9}, {get, outcome{value: "1"}, 1, 2},
			{get, outcome{}, 3, 4}}},
		{"unknown and late", true, []call{{put(&one), outcome{unknown: true}, 0, forever}, {put(&two), outcome{}, 2, 3},
			{get, outcome{value: "2"}, 4, 5}, {get, outcome{value: "1"}, 6, 7}}},
		{"unknown and never", true, []call{{put(&one), outcome{unknown: true}, 0, forever}, {get, outcome{}, 4, 5}}},
		{"unknown and undone", false, []call{{put(&one), outcome{unknown: true}, 0, forever},
			{get, outcome{value: "1"}, 4, 5}, {get, outcome{}, 6, 7}}},
		{"refused without a reason", false, []call{{step{when: [keysOfGroup]*string{new(string)},
			write: [keysOfGroup]*string{&one}}, outcome{refused: true}, 0, 1}}},
	} {
		h := newHistory()
		for _, op := range c.ops {
			if err := h.add(0, op.in, op.out, op.begin, nil); err != nil {
				t.Fatal(err)
			}
			last := &h.ops[len(h.ops)-1]
			last.Call, last.Return = op.begin, op.end
		}
		if err := h.check(model); (err == nil) != c.ok {
			t.Errorf("%s: found %v, want ok: %v", c.name, err, c.ok)
		}
	}
}
