// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
)

// anew starts a server that doesn't run, without its data.
func anew(ctx context.Context, t *testing.T, s *storeserver.Etcd, flags ...string) {
	t.Helper()
	err := s.Wipe()
	s.Flags(flags...)
	if err = errors.Join(err, s.Start(), s.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
}

// TestForeignServer: one server of three loses its data, and is started again as a store of its own. Clients go on with
// the two others, those that begin then, too, and say which one it is. When it has joined again it is used again.
func TestForeignServer(t *testing.T) {
	t.Parallel()
	z := start(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told := make(chan string, 10)
	open := func() *Backend {
		return client(t, Options{Endpoints: z.Addrs(), TTL: 10 * time.Second,
			Report: func(problem error) { told <- problem.Error() }})
	}
	works := func(b *Backend, value string) {
		t.Helper()
		set := metastore.Op{Path: "/v", Do: metastore.Set, Value: []byte(value)}
		err := b.Commit(ctx, nil, []metastore.Op{set})
		for errors.Is(err, metastore.ErrUnknown) { // its connection broke
			err = b.Commit(ctx, nil, []metastore.Op{set})
		}
		if n, getErr := b.Get(ctx, "/v"); err != nil || getErr != nil || string(n.Value) != value {
			t.Fatalf("found %q, %v, %v, want %q", n.Value, err, getErr, value)
		}
	}
	warned := func() {
		t.Helper()
		select {
		case text := <-told:
			if !strings.Contains(text, z.Addrs()[0]) || !strings.Contains(text, "--join") {
				t.Errorf("found %q, want the address %s and what to do", text, z.Addrs()[0])
			}
		case <-ctx.Done():
			t.Error("nobody was told of the foreign server")
		}
	}
	before := open()
	works(before, "1")
	s, err := before.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	z.Servers[0].Kill()
	anew(ctx, t, z.Servers[0])
	warned()
	after := open()
	for range 20 { // to each server in turn
		works(before, "2")
		works(after, "3")
	}
	warned()
	select {
	case <-s.Lost():
		t.Error("the session is lost")
	default:
	}
	z.Servers[0].Kill()
	anew(ctx, t, z.Servers[0], "--join", z.Addrs()[1])
	z.Servers[1].Kill() // the one that has joined again is needed for a majority
	works(before, "4")
	works(after, "5")
	if len(told) > 0 {
		t.Errorf("told again: %q", <-told)
	}
}
