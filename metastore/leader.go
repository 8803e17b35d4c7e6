// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Lead is the leadership of one candidate. There is at most one in force; a leader that was stopped for long may still
// believe to lead, and is refused wherever it gives its Guard.
type Lead struct {
	store  *Store
	key    string
	guard  Cond // a path
	record []byte
	lost   chan struct{}
	stop   context.CancelFunc
}

// Campaign makes this program a candidate for leading what is at a key, with a record that others can read
// ([Store.Leader]), and waits until it leads: until all who were candidates before it have resigned or died. If its
// session is lost meanwhile, it is a candidate again with a new one. When the context ends it is none any more.
func (s *Store) Campaign(ctx context.Context, key string, record any) (*Lead, error) {
	for {
		lead, err := s.CampaignIn(ctx, nil, key, record)
		if err == nil || !errors.Is(err, ErrSessionLost) || ctx.Err() != nil {
			return lead, err
		}
	}
}

// CampaignIn is Campaign in one session ([Store.Session], [Store.PutEphemeral]), or the one that lives now (nil): it
// fails with ErrSessionLost when that is lost, or when somebody has deleted the candidate. So what the record says may
// hold for that session only.
func (s *Store) CampaignIn(ctx context.Context, session Session, key string, record any) (*Lead, error) {
	path, err := s.writable(key)
	if err != nil {
		return nil, fmt.Errorf("metastore: campaign for %q: %w", key, err)
	}
	// A name is used once: whoever holds it is this candidate.
	candidate := path + "/candidates/" + strings.ToLower(newMark())
	session, mine, err := s.createEphemeral(ctx, session, candidate, record, nil)
	if err == nil {
		err = s.awaitLead(ctx, candidate, mine, session)
	}
	if err == nil {
		return s.lead(key, candidate, mine, session), nil
	}
	if mine.Value != nil {
		s.removeLater(Cond{}, candidate, mine.Value)
	}
	return nil, fmt.Errorf("metastore: campaign for %q: %w", key, err)
}

// awaitLead waits until no candidate is older. Each waits for the one before it, so that a death wakes one.
func (s *Store) awaitLead(ctx context.Context, path string, mine Node, session Session) error {
	lives, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-session.Lost():
			cancel(ErrSessionLost)
		case <-lives.Done():
		}
	}()
	for {
		all, err := s.backend.Tree(lives, parent(path))
		if err != nil {
			return first(context.Cause(lives), err)
		}
		var before Leaf
		there := false
		for _, c := range all {
			there = there || c.Path == path && c.Version == mine.Version
			if c.Ephemeral && c.Version.Created < mine.Version.Created && c.Version.Created > before.Version.Created {
				before = c
			}
		}
		if !there {
			return fmt.Errorf("%w: the candidate has been deleted", ErrSessionLost)
		}
		if before.Path == "" {
			return nil
		}
		if err := s.awaitGone(lives, before); err != nil {
			return first(context.Cause(lives), err)
		}
	}
}

// first is the first of two errors that is one.
func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// awaitGone waits until a node isn't there any more.
func (s *Store) awaitGone(ctx context.Context, leaf Leaf) error {
	feed := s.backend.Watch(leaf.Path, Data)
	defer feed.Close()
	for {
		state, err := feed.Next(ctx)
		if err != nil || state.Node.Version.Created != leaf.Version.Created {
			return err
		}
	}
}

// lead makes the handle of a leader, and follows its candidate.
func (s *Store) lead(key, path string, mine Node, session Session) *Lead {
	ctx, cancel := context.WithCancel(s.ctx)
	l := &Lead{store: s, key: key, stop: cancel, lost: make(chan struct{}),
		guard: Cond{Path: path, Is: At, Version: mine.Version}, record: mine.Value}
	go func() {
		select {
		case <-session.Lost():
			cancel()
		case <-ctx.Done():
		}
	}()
	go func() {
		defer close(l.lost)
		defer cancel()
		_ = s.awaitGone(ctx, Leaf{Path: path, Node: mine}) // by whatever it ends
	}()
	return l
}

// Token rises with every leader: what was written by one with a higher token is newer.
func (l *Lead) Token() uint64 { return l.guard.Version.Created }

// Guard is the condition, for [Store.Commit], that this leader still leads. A leader gives it in every commit: one that
// was stopped, and wakes up when another leads, writes nothing then.
func (l *Lead) Guard() Cond {
	g := l.guard
	g.Path = l.store.key(g.Path)
	return g
}

// Lost is closed when the leadership has ended: by Resign, because the session was lost, or because somebody has
// deleted the candidate. A leader's loop ends with it.
func (l *Lead) Lost() <-chan struct{} { return l.lost }

// Resign gives the leadership up, so that the next candidate leads. It is tried until ctx ends; if it fails, further on
// until the store is closed.
func (l *Lead) Resign(ctx context.Context) error {
	l.stop()
	<-l.lost
	err := l.store.deleteAt(ctx, l.guard.Path, l.guard.Version)
	if err == nil {
		return nil
	}
	l.store.removeLater(Cond{}, l.guard.Path, l.record)
	return fmt.Errorf("metastore: resign from %q: %w", l.key, err)
}

// Leader reads the record of who leads what is at a key; its Version.Created is the leader's token. ErrNoNode where
// there is none.
func (s *Store) Leader(ctx context.Context, key string) (Value, error) {
	path, err := s.writable(key)
	if err != nil {
		return Value{}, fmt.Errorf("metastore: leader: %w", err)
	}
	all, err := s.backend.Tree(ctx, path+"/candidates")
	var oldest Leaf
	for _, c := range all {
		if c.Ephemeral && (oldest.Path == "" || c.Version.Created < oldest.Version.Created) {
			oldest = c
		}
	}
	if err == nil && oldest.Path == "" {
		err = ErrNoNode
	}
	if err != nil {
		return Value{}, fmt.Errorf("metastore: leader of %q: %w", key, err)
	}
	return s.value(s.key(oldest.Path), oldest.Node), nil
}
