// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/disco-sim/disco/metastore"
)

// late is what becomes of one commit of a member: it has no answer, and is done then, or later by land.
type late struct {
	at   int  // which commit about the member
	done bool // at once
	lost func()

	mu   sync.Mutex
	n    int
	held func() error
}

// commit makes a commit, or loses its answer.
func (l *late) commit(ops []metastore.Op, do func() error) error {
	about := func(op metastore.Op) bool {
		return strings.Contains(op.Path, "/cluster/") && strings.Contains(op.Path, "/h1")
	}
	if !slices.ContainsFunc(ops, about) {
		return do()
	}
	l.mu.Lock()
	l.n++
	mine := l.n == l.at
	if mine && !l.done {
		l.held = do
	}
	l.mu.Unlock()
	if !mine {
		return do()
	}
	if l.lost != nil {
		l.lost()
	}
	if l.done {
		if err := do(); err != nil {
			return err
		}
	}
	return fmt.Errorf("late: %w", metastore.ErrUnknown)
}

// land does what was held back. It tells whether there was something.
func (l *late) land(t *testing.T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		t.Logf("commit %d landed: %v", l.at, l.held())
	}
	return l.held != nil || l.done && l.n >= l.at
}

// store makes a store with it.
func (l *late) store(f *fixture) *metastore.Store {
	f.Helper()
	_, b := f.server.client(f.T)
	s, err := metastore.New(f.ctx, around{b, l.commit}, metastore.Options{Group: f.group, Base: Base()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	return s
}

// keys are those of h1, with their values.
func (f *fixture) keys() (all []string) {
	f.Helper()
	values, err := f.store.Walk(f.ctx, "cluster")
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range values {
		if strings.Contains(v.Key(), "/h1") {
			all = append(all, v.Key()+": "+string(v.Bytes()))
		}
	}
	return all
}

// TestLateCommits: a member joins, its server goes through states, and the member leaves, while each commit in turn has
// no answer. It is done although nobody knows, or later: while the member is there, or when it has left. All goes on,
// and a late commit changes nothing.
func TestLateCommits(t *testing.T) {
	for when, done := range map[string]bool{"Done": true, "BeforeLeaving": false, "AfterLeaving": false} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			at := 1
			for ; lateCommit(t, &late{at: at, done: done}, when == "BeforeLeaving"); at++ {
			}
			if at < 8 {
				t.Errorf("there were only %d commits", at-1)
			}
		})
	}
}

// lateCommit does it with one commit, and tells whether there was such a one.
func lateCommit(t *testing.T, l *late, before bool) bool {
	f := setUp(t)
	defer f.view.Close()
	options, _ := f.options("h1", 1)
	m, err := Join(f.ctx, l.store(f), options)
	if err != nil {
		t.Fatalf("commit %d: %v", l.at, err)
	}
	f.await("the view has h1-0", func() bool { return f.incarnation("h1") == m.Member().Incarnation })
	a := &Assignment{"e", "1", 0}
	for _, s := range []State{Reserved, Ready, Active, Terminated, Reserved} {
		f.await("the view has h1-0", func() bool { _, ok := f.view.Server("h1-0"); return ok })
		if ack, err := f.view.Ask(f.ctx, "h1-0", s, a, "test"); err != nil || ack.Phase != Applied {
			t.Fatalf("commit %d: asked for %v: %+v, %v", l.at, s, ack, err)
		}
	}
	was := f.keys()
	there := before && l.land(t)
	if now := f.keys(); !slices.Equal(now, was) {
		t.Errorf("commit %d came late, and changed\n%q\nto\n%q", l.at, was, now)
	}
	if err := m.Leave(f.ctx); err != nil {
		t.Errorf("commit %d: Leave: %v", l.at, err)
	}
	if !before {
		there = l.land(t)
	}
	if left := f.keys(); len(left) > 0 {
		t.Errorf("commit %d: left: %q", l.at, left)
	}
	return there
}

// TestLateJoin: a member that gives up to join isn't there later.
func TestLateJoin(t *testing.T) {
	for _, done := range []bool{true, false} {
		f := setUp(t)
		ctx, cancel := context.WithCancel(f.ctx)
		l := &late{at: 1, done: done, lost: cancel}
		options, _ := f.options("h1", 1)
		if m, err := Join(ctx, l.store(f), options); err == nil {
			t.Errorf("joined as %+v, with a context that has ended", m.Member())
		}
		for f.ctx.Err() == nil && len(f.keys()) > 0 { // it is removed in the background
		}
		l.land(t)
		for f.ctx.Err() == nil && len(f.keys()) > 0 {
		}
		if f.ctx.Err() != nil {
			t.Errorf("it is there: %q", f.keys())
		}
	}
}
