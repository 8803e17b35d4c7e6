// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/storetest"
)

func TestMain(m *testing.M) {
	storeserver.ParallelTests(16)
	leaktest.Main(m)
}

// start starts servers for a test, or skips it where there are none.
func start(t testing.TB, n int, flags ...string) *storeserver.Etcds {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	z, err := storeserver.StartEtcds(ctx, t.TempDir(), n, flags...)
	storeserver.Need(t, err)
	t.Cleanup(z.Close)
	return z
}

// client makes a client that is closed with the test.
func client(t testing.TB, o Options) *Backend {
	t.Helper()
	b, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// engine is servers as the suite wants them. Connections of clients that are cut off are just silent, or with three
// servers reset too. Where servers fail sessions are short, with three servers just long enough for another leader to
// be elected.
func engine(t testing.TB, n int, failing bool) storetest.Engine {
	z := start(t, n)
	ttl := 10 * time.Second
	if failing {
		ttl = map[int]time.Duration{1: 2 * time.Second, 3: 5 * time.Second}[n]
	}
	e := storetest.Proxied(z.Addrs(), n > 1, func(t testing.TB, addrs []string) metastore.Backend {
		return client(t, Options{Endpoints: addrs, TTL: ttl})
	})
	e.Timeout = 90 * time.Second
	e.Expire = func(t testing.TB, b metastore.Backend) {
		s, err := b.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.(*Backend).client.Revoke(t.Context(), s.(*session).lease)
		if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) { // it has ended by itself
			t.Fatal(err)
		}
	}
	e.Kill = func(_ testing.TB, i int) { z.Servers[i].Kill() }
	e.Restart = func(t testing.TB, i int) {
		if err := z.Servers[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	e.Pause = func(_ testing.TB, i int) { z.Servers[i].Signal(syscall.SIGSTOP) }
	e.Continue = func(_ testing.TB, i int) { z.Servers[i].Signal(syscall.SIGCONT) }
	return e
}

func TestConformance(t *testing.T) { storetest.RunServers(t, engine) }
