// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// TestTokensAreForLives: while a member can't come back, what says that the state of a server was written stays where
// it is for the next life, which would wait for it for ever otherwise; and Leave ends the waiting.
func TestTokensAreForLives(t *testing.T) {
	f := setUp(t)
	m := f.join("h1", 1)
	f.server.stop(t)
	for { // until the life is over, and again has begun
		m.mu.Lock()
		l := m.life
		m.mu.Unlock()
		if l == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for range 20 {
		select {
		case m.changed <- struct{}{}:
		default:
		}
		time.Sleep(time.Millisecond)
		if len(m.changed) == 0 {
			t.Fatal("a token was taken without a life")
		}
	}
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	if err := m.Leave(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("Leave without a store: %v, %v", err, ctx.Err())
	}
	f.server.start(t)
}

// TestLifeEndsBeforeItIsUp: a life that ends while the member is written as up ends then, and isn't tried again for
// ever with a context that has ended.
func TestLifeEndsBeforeItIsUp(t *testing.T) {
	f := setUp(t)
	m := f.join("h1", 1)
	ctx, cancel := context.WithCancelCause(f.ctx)
	cancel(errLifeOver)
	m.mu.Lock()
	before := &Membership{store: m.store, options: m.options, member: m.member, changed: make(chan struct{}),
		left: make(chan struct{})}
	m.mu.Unlock()
	before.member.Status = Joining
	ended := make(chan bool, 1)
	go func() { ended <- before.live(&life{ctx: ctx, cancel: cancel}) }()
	select {
	case leave := <-ended:
		if leave {
			t.Error("the member is to leave")
		}
	case <-time.After(20 * time.Second):
		before.mu.Lock()
		before.leaving = f.ctx // ends the loop
		before.mu.Unlock()
		t.Fatal("a life that is over goes on")
	}
}

// TestCloseEndsAgain: a member ends with its store, as by Leave, also while it tries to come back, or has a session
// that the servers would keep for long, or the store is another one.
func TestCloseEndsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		ttl    time.Duration
		before func(m *member, group string) error
	}{
		"away": {time.Hour, func(m *member, _ string) error { m.client.Disconnect(); return nil }},
		"again": {50 * time.Millisecond, func(m *member, _ string) error {
			m.client.Disconnect()
			for m.Ready() {
				time.Sleep(time.Millisecond)
			}
			return nil
		}},
		"wrong": {time.Hour, func(m *member, group string) error {
			err := m.client.(*mem.Client).Commit(t.Context(), nil, []metastore.Op{{Path: "/" + group,
				Do: metastore.DeleteTree}})
			<-m.store.Wrong()
			time.Sleep(50 * time.Millisecond)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUpOn(t, memory{mem.NewServer(c.ttl)})
			m := f.join("h1", 1)
			f.activate("h1-0", &Assignment{"e", "1", 0})
			if err := c.before(m, f.group); err != nil {
				t.Fatal(err)
			}
			if err := m.store.Close(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-m.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("the member goes on trying")
			}
			if got := m.workers[0].did(); got != "initialize activate terminate" {
				t.Errorf("the worker did %q", got)
			}
			if err := m.Leave(f.ctx); err != nil {
				t.Errorf("Leave: %v", err)
			}
		})
	}
}

// TestLifeEndsWithMember: a member that has left leaves nothing behind that waits for its session.
func TestLifeEndsWithMember(t *testing.T) {
	f := setUpOn(t, memory{mem.NewServer(time.Hour)})
	m := f.join("h1", 1)
	m.mu.Lock()
	l := m.life
	m.mu.Unlock()
	if err := m.Leave(f.ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.ctx.Done():
	case <-time.After(20 * time.Second):
		t.Error("the life goes on")
	}
}
