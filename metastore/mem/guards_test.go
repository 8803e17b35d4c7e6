// SPDX-License-Identifier: Apache-2.0

package mem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// crooked is an engine whose next commit to one path, or whose feed of it, is what a test says.
type crooked struct {
	metastore.Backend
	path   string
	commit func(conds []metastore.Cond, ops []metastore.Op) error // nil: the engine's own
	feed   metastore.Feed
}

func (c *crooked) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if f := c.commit; f != nil && ops[0].Path == c.path {
		c.commit = nil
		return f(conds, ops)
	}
	return c.Backend.Commit(ctx, conds, ops)
}

func (c *crooked) Watch(path string, kind metastore.WatchKind) metastore.Feed {
	if c.feed != nil && path == c.path {
		return c.feed
	}
	return c.Backend.Watch(path, kind)
}

// openCrooked makes a store on a crooked engine, and another client of the same one. feed may be nil.
func openCrooked(t *testing.T, path string, feed metastore.Feed) (s *metastore.Store, c *crooked,
	other *metastore.Store) {
	t.Helper()
	server := mem.NewServer(time.Minute)
	c = &crooked{Backend: server.NewClient(), path: path, feed: feed}
	var stores []*metastore.Store
	for _, b := range []metastore.Backend{c, server.NewClient()} {
		s, err := metastore.New(t.Context(), b, metastore.Options{Base: []string{"d"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores = append(stores, s)
	}
	return stores[0], c, stores[1]
}

// TestNewWithoutAnswer: a store that gets no answer while it is made couldn't be reached.
func TestNewWithoutAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &crooked{Backend: mem.NewServer(time.Minute).NewClient(), path: "/.disco"}
	c.commit = func([]metastore.Cond, []metastore.Op) error {
		cancel()
		return metastore.ErrUnknown
	}
	_, err := metastore.New(ctx, c, metastore.Options{})
	if !errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, metastore.ErrUnknown) {
		t.Errorf("found %v, want ErrUnavailable", err)
	}
}

// TestAnothersNode: what another has made at the place of an ephemeral key whose answer was lost isn't taken for it,
// and isn't removed.
func TestAnothersNode(t *testing.T) {
	for _, ends := range []bool{false, true} { // whether the caller's context ends with the lost answer
		s, c, other := openCrooked(t, "/d/k", nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c.commit = func([]metastore.Cond, []metastore.Op) error {
			if err := other.Put(t.Context(), "d/k", "another's"); err != nil {
				t.Error(err)
			}
			if ends {
				cancel()
			}
			return metastore.ErrUnknown
		}
		if _, _, err := s.PutEphemeral(ctx, "d/k", "mine"); err == nil {
			t.Error("another's key was taken for its own")
		}
		time.Sleep(50 * time.Millisecond) // what may be removed is removed after a millisecond
		var found string
		if v, err := other.Get(t.Context(), "d/k"); err != nil || v.Decode(&found) != nil || found != "another's" {
			t.Errorf("found %q, %v", found, err)
		}
	}
}

// TestUpdateMeetsADelete: a key that was made, by a commit whose answer was lost, and deleted by another isn't made
// again.
func TestUpdateMeetsADelete(t *testing.T) {
	s, c, other := openCrooked(t, "/u", nil)
	c.commit = func(conds []metastore.Cond, ops []metastore.Op) error {
		if err := errors.Join(c.Backend.Commit(t.Context(), conds, ops), other.Delete(t.Context(), "u")); err != nil {
			t.Error(err)
		}
		return metastore.ErrUnknown
	}
	err := s.Update(t.Context(), "u", func(metastore.Value) (any, error) { return 1, nil })
	if !errors.Is(err, metastore.ErrUnknown) {
		t.Errorf("found %v, want ErrUnknown", err)
	}
	if there, err := other.Contains(t.Context(), "u"); there || err != nil {
		t.Errorf("it is there again: %v, %v", there, err)
	}
}

// TestDeletedCandidate: a candidate whose key somebody deletes while it waits is one again, and doesn't lead without
// its key.
func TestDeletedCandidate(t *testing.T) {
	s, _, other := openCrooked(t, "", nil)
	first, err := other.Campaign(t.Context(), "l", 1)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan *metastore.Lead, 1)
	go func() {
		l, err := s.Campaign(t.Context(), "l", 2)
		if err != nil {
			t.Error(err)
		}
		second <- l
	}()
	var names []string
	for len(names) < 2 {
		if names, err = other.Members(t.Context(), "l/candidates"); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if key := "l/candidates/" + name; key != first.Guard().Path {
			if err := other.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := first.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := s.Encode(2)
	if err != nil {
		t.Fatal(err)
	}
	lead := <-second
	if err := s.Commit(t.Context(), []metastore.Cond{lead.Guard()},
		[]metastore.Op{{Path: "x", Do: metastore.Set, Value: raw}}); err != nil {
		t.Errorf("the leader can't write: %v", err)
	}
}

// lateFeed has its state just after it has said that there is none.
type lateFeed struct {
	wake  func()
	late  bool
	state *metastore.State
}

func (f *lateFeed) Notify(wake func()) { f.wake = wake; wake() }
func (f *lateFeed) Close()             {}
func (f *lateFeed) Next(ctx context.Context) (metastore.State, error) {
	if s := f.state; s != nil {
		f.state = nil
		return *s, nil
	}
	if !f.late {
		f.late, f.state = true, &metastore.State{Node: metastore.Node{Value: []byte("j1")}}
		f.wake()
	}
	return metastore.State{}, context.Canceled
}

// TestWakeWhileRunning: a wake that comes while a watch finds nothing isn't lost.
func TestWakeWhileRunning(t *testing.T) {
	s, _, _ := openCrooked(t, "/d/w", &lateFeed{})
	seen := make(chan bool, 1)
	if _, err := s.Watch(t.Context(), "d/w", func(v metastore.Value, _ string) bool {
		seen <- v.HasValue()
		return false
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-seen:
	case <-time.After(10 * time.Second):
		t.Error("the state was never handed on")
	}
}
