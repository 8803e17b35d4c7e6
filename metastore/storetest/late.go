// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/disco-sim/disco/metastore"
)

// lateCases are about commits that are done after their call has failed with ErrUnknown: a stopped server has them in
// its hands, and goes on when nobody waits for them any more.
var lateCases = func() (all []testCase) {
	for _, kind := range lateKinds {
		all = append(all,
			testCase{"Late/" + kind.name + "/GivesUp", 0, func(e *env) { lateCreate(e, kind, true, kind.part) }},
			testCase{"Late/" + kind.name + "/TriesAgain", 0, func(e *env) { lateCreate(e, kind, false, kind.part) }},
			testCase{"Late/" + kind.name + "/TriesTwice", 0,
				func(e *env) { lateCreate(e, kind, false, kind.part, kind.part) }},
			// What the store makes to be safe from late creates may come late, too.
			testCase{"Late/" + kind.name + "/FenceTriesAgain", 0,
				func(e *env) { lateCreate(e, kind, false, "/.disco/", kind.part) }})
	}
	return all
}()

// late is an engine that loses commits which make ephemeral nodes, and can do them later.
type late struct {
	metastore.Backend

	mu    sync.Mutex
	lose  []string // parts of the paths of those that get lost, one after the other
	lost  func()   // is called when one gets lost
	held  []func() error
	paths []string
	over  chan struct{} // is closed when somebody has looked what became of a lost one, and found nothing
}

// Commit may hold a commit back, and say that nobody knows.
func (l *late) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	l.mu.Lock()
	hold := len(l.lose) > 0 && len(ops) == 1 && ops[0].Session != nil && strings.Contains(ops[0].Path, l.lose[0])
	if hold {
		l.lose = l.lose[1:]
		l.held = append(l.held, func() error { return l.Backend.Commit(context.WithoutCancel(ctx), conds, ops) })
		l.paths = append(l.paths, ops[0].Path)
	}
	l.mu.Unlock()
	if !hold {
		err := l.Backend.Commit(ctx, conds, ops)
		if err == nil && ops[0].Do == metastore.Delete && strings.Contains(ops[0].Path, "/.disco/") {
			l.settle() // where nobody looks for a node
		}
		return err
	}
	l.lost()
	return fmt.Errorf("late: %w", metastore.ErrUnknown)
}

// Get notes that a node was looked for, and there was none.
func (l *late) Get(ctx context.Context, path string) (metastore.Node, error) {
	n, err := l.Backend.Get(ctx, path)
	l.mu.Lock()
	lost := slices.Contains(l.paths, path)
	l.mu.Unlock()
	if lost && errors.Is(err, metastore.ErrNoNode) {
		l.settle()
	}
	return n, err
}

// settle says that a lost commit isn't waited for any more.
func (l *late) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		close(l.over)
		l.over = nil
	}
}

// land does what was held back, and returns what became of it.
func (l *late) land() (errs []error) {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	for _, commit := range held {
		errs = append(errs, commit())
	}
	return errs
}

// lateKind is one kind of an ephemeral key.
type lateKind struct {
	name, part string
	prepare    func(e *env, s *metastore.Store)
	begin      func(ctx context.Context, s *metastore.Store) (end func(context.Context) error, err error)
	check      func(e *env, s *metastore.Store) // that nothing of it is left
}

var lateKinds = []lateKind{
	{"Key", "/e/k", func(*env, *metastore.Store) {},
		func(ctx context.Context, s *metastore.Store) (func(context.Context) error, error) {
			_, _, err := s.PutEphemeral(ctx, "e/k", 1)
			return func(ctx context.Context) error { return s.Delete(ctx, "e/k") }, err
		},
		func(e *env, s *metastore.Store) { e.contains(s, "e/k", false) }},
	{"Commit", "/e/k", func(e *env, s *metastore.Store) { e.check("Ensure", s.Ensure(e.ctx, "e")) },
		func(ctx context.Context, s *metastore.Store) (func(context.Context) error, error) {
			session, err := s.Session(ctx)
			if err != nil {
				return nil, err
			}
			op := metastore.Op{Path: "e/k", Do: metastore.Create, Value: []byte("j1"), Session: session}
			for err = metastore.ErrUnknown; errors.Is(err, metastore.ErrUnknown) && ctx.Err() == nil; {
				err = s.Commit(ctx, nil, []metastore.Op{op})
			}
			return func(ctx context.Context) error { return s.Delete(ctx, "e/k") }, err
		},
		func(e *env, s *metastore.Store) { e.contains(s, "e/k", false) }},
	{"Candidate", "/lead/candidates/", func(*env, *metastore.Store) {},
		func(ctx context.Context, s *metastore.Store) (func(context.Context) error, error) {
			lead, err := s.Campaign(ctx, "lead", "late")
			if err != nil {
				return nil, err
			}
			return lead.Resign, nil
		},
		func(e *env, s *metastore.Store) {
			e.members(s, "lead/candidates")
			e.check("Resign", e.campaign(s, "other").Resign(e.ctx))
		}},
	{"Claim", "/q/claims/", func(e *env, s *metastore.Store) { e.enqueue(s, 1) },
		func(ctx context.Context, s *metastore.Store) (func(context.Context) error, error) {
			item, err := s.Dequeue(ctx, "q")
			if err != nil {
				return nil, err
			}
			return item.Release, nil
		},
		func(e *env, s *metastore.Store) {
			e.members(s, "q/claims")
			e.check("Consume", e.dequeue(s, "1").Consume(e.ctx, nil))
		}},
}

// lateCreate loses the creation of an ephemeral key, or that of what guards it, which is done after the key's maker has
// done with it: because its context had ended, or after it had the key by another try and has given it back. Nothing
// may come of it although the session lives.
func lateCreate(e *env, kind lateKind, givesUp bool, lose ...string) {
	b := &late{Backend: e.engine.New(e), over: make(chan struct{})}
	s, other := e.open(b, metastore.Options{}), e.store()
	kind.prepare(e, other)
	session, err := s.Session(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	b.mu.Lock()
	over := b.over
	b.lose, b.lost = lose, func() {
		if givesUp {
			cancel()
		}
	}
	b.mu.Unlock()
	end, err := kind.begin(ctx, s)
	switch {
	case givesUp && err == nil:
		e.Fatal("it was done, without an answer")
	case givesUp:
		select {
		case <-over:
		case <-e.ctx.Done():
			e.Fatal("nobody has looked what became of it")
		}
	case err != nil:
		e.Fatal(err)
	default:
		e.check("what was tried again", end(e.ctx))
	}
	errs := b.land()
	if e.Logf("landed: %v", errs); len(errs) != len(lose) {
		e.Fatalf("%d were lost, want %d", len(errs), len(lose))
	}
	kind.check(e, other)
	select {
	case <-session.Lost():
		e.Error("the session is lost")
	default:
	}
}
