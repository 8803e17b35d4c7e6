// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/metastore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A client that is away waits, loses its session, and goes on after that.
func TestDisconnect(t *testing.T) {
	server := NewServer(20 * time.Millisecond)
	a, b := server.NewClient(), server.NewClient()
	defer b.Close()
	defer a.Close()
	ctx := t.Context()
	session, err := a.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	create := metastore.Op{Path: "/e", Do: metastore.Create, Value: []byte("x"), Session: session}
	if err := a.Commit(ctx, nil, []metastore.Op{create}); err != nil {
		t.Fatal(err)
	}
	feed := b.Watch("/e", metastore.Data)
	defer feed.Close()
	if s, err := feed.Next(ctx); err != nil || !s.Node.Ephemeral {
		t.Fatalf("found %+v, %v", s, err)
	}
	a.Disconnect()
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := a.Get(short, "/e"); !errors.Is(err, metastore.ErrUnavailable) {
		t.Fatalf("found %v, want ErrUnavailable", err)
	}
	<-session.Lost()
	if s, err := feed.Next(ctx); err != nil || s.Node.Value != nil {
		t.Fatalf("found %+v, %v, want nothing", s, err)
	}
	a.Reconnect()
	if err := a.Commit(ctx, nil, []metastore.Op{create}); !errors.Is(err, metastore.ErrSessionLost) {
		t.Fatalf("found %v, want ErrSessionLost", err)
	}
	if again, err := a.Session(ctx); err != nil || again == session {
		t.Fatalf("found %v, %v, want another session", again, err)
	}
}

// Another cluster has another name, and none of the nodes; feeds see that.
func TestWipe(t *testing.T) {
	server := NewServer(time.Second)
	c := server.NewClient()
	defer c.Close()
	ctx := t.Context()
	if err := c.Commit(ctx, nil, []metastore.Op{{Path: "/a", Do: metastore.Set, Value: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	feed := c.Watch("/", metastore.Names)
	defer feed.Close()
	if s, err := feed.Next(ctx); err != nil || len(s.Names) != 1 {
		t.Fatalf("found %v, %v", s, err)
	}
	before, _ := c.Cluster(ctx)
	server.Wipe()
	if s, err := feed.Next(ctx); err != nil || len(s.Names) != 0 {
		t.Fatalf("found %v, %v, want nothing", s, err)
	}
	if after, err := c.Cluster(ctx); err != nil || after == before {
		t.Fatalf("found %q, %v, want another name than before", after, err)
	}
}

// A store whose servers have lost everything reports it, and does nothing more.
func TestWipedStore(t *testing.T) {
	server := NewServer(time.Second)
	reported := make(chan error, 1)
	s, err := metastore.New(t.Context(), server.NewClient(), metastore.Options{
		Group: "g", Report: func(problem error) { reported <- problem }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	server.Wipe()
	if err := <-reported; !errors.Is(err, metastore.ErrWrongCluster) {
		t.Fatalf("reported: %v, want ErrWrongCluster", err)
	}
	if err := s.Put(t.Context(), "a", 1); !errors.Is(err, metastore.ErrWrongCluster) {
		t.Fatalf("found %v, want ErrWrongCluster", err)
	}
	same := metastore.Options{Group: "g", Cluster: s.Cluster()}
	if _, err := metastore.New(t.Context(), server.NewClient(), same); !errors.Is(err, metastore.ErrWrongCluster) {
		t.Fatalf("found %v, want ErrWrongCluster", err)
	}
}

// writes counts commits.
type writes struct {
	metastore.Backend
	n atomic.Int64
}

func (w *writes) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	w.n.Add(1)
	return w.Backend.Commit(ctx, conds, ops)
}

// Who only looks makes nothing: no group, and no directory of what it watches, which may come later.
func TestExisting(t *testing.T) {
	server, ctx := NewServer(time.Second), t.Context()
	looks := func() (*metastore.Store, *writes, error) {
		w := &writes{Backend: server.NewClient()}
		s, err := metastore.New(ctx, w, metastore.Options{Chroot: "c", Group: "b", Existing: true,
			Base: []string{"base"}})
		return s, w, err
	}
	if _, w, err := looks(); !errors.Is(err, metastore.ErrNoGroup) || w.n.Load() > 0 {
		t.Fatalf("found %v after %d commits", err, w.n.Load())
	}
	makes := func(group string) *metastore.Store {
		s, err := metastore.New(ctx, server.NewClient(), metastore.Options{Chroot: "c", Group: group})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	makes("a")
	if _, _, err := looks(); err == nil || !strings.HasSuffix(err.Error(), `"b"; the store has ["a"]`) {
		t.Errorf("found %v", err)
	}
	made := makes("b")
	s, w, err := looks()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	seen := make(chan []string, 9)
	watch, err := s.WatchMembers(ctx, "later", func(names []string, _ string) bool { seen <- names; return true })
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if names := <-seen; len(names) > 0 || w.n.Load() > 0 {
		t.Fatalf("found %q after %d commits", names, w.n.Load())
	}
	if err := made.Put(ctx, "later/x", 1); err != nil {
		t.Fatal(err)
	}
	if names := <-seen; !slices.Equal(names, []string{"x"}) {
		t.Errorf("found %q", names)
	}
}
