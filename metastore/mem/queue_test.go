// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// around is a client whose commits are made by a function, once that is there.
type around struct {
	*Client
	commit func(ops []metastore.Op, do func() error) error
}

func (a *around) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	do := func() error { return a.Client.Commit(ctx, conds, ops) }
	if a.commit == nil {
		return do()
	}
	return a.commit(ops, do)
}

// What happens between the steps of a queue's calls: a session that ends, an item that somebody deletes.
func TestBetweenStepsOfAQueue(t *testing.T) {
	claims := func(ops []metastore.Op) bool { return strings.Contains(ops[0].Path, "/claims/") }
	type run func(ctx context.Context, a *around, s *metastore.Store) (*metastore.Item, error)
	for name, c := range map[string]struct {
		run  run
		item string // that is taken; "" is ErrUnknown
	}{
		"the session is lost before the claim": {func(ctx context.Context, a *around, s *metastore.Store) (
			*metastore.Item, error) {
			a.commit = func(ops []metastore.Op, do func() error) error {
				if claims(ops) {
					a.commit = nil
					a.EndSession()
					return metastore.ErrSessionLost
				}
				return do()
			}
			return s.Dequeue(ctx, "q")
		}, "first"},
		"the item is deleted behind the claim": {func(ctx context.Context, a *around, s *metastore.Store) (
			*metastore.Item, error) {
			a.commit = func(ops []metastore.Op, do func() error) error {
				if err := do(); err != nil || !claims(ops) {
					return err
				}
				a.commit = nil
				return s.Delete(ctx, strings.TrimPrefix(strings.Replace(ops[0].Path, "claims", "items", 1), "/g/"))
			}
			return s.Dequeue(ctx, "q")
		}, "second"},
		"no answer, and the session is lost": {func(ctx context.Context, a *around, s *metastore.Store) (
			*metastore.Item, error) {
			item, err := s.Dequeue(ctx, "q")
			if err != nil {
				return nil, err
			}
			a.commit = func([]metastore.Op, func() error) error {
				a.commit = nil
				a.EndSession()
				<-item.Lost()
				return metastore.ErrUnknown
			}
			return item, item.Consume(ctx, nil)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &around{Client: NewServer(time.Second).NewClient()}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			s, err := metastore.New(ctx, a, metastore.Options{Group: "g"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, value := range []string{"first", "second"} {
				if _, err := s.Enqueue(ctx, "q", value); err != nil {
					t.Fatal(err)
				}
			}
			item, err := c.run(ctx, a, s)
			if c.item == "" {
				if !errors.Is(err, metastore.ErrUnknown) {
					t.Errorf("found %v, want ErrUnknown", err)
				}
				return
			}
			var value string
			if err != nil || item.Value.Decode(&value) != nil || value != c.item {
				t.Errorf("found %q, %v; want %q", value, err, c.item)
			}
		})
	}
}
