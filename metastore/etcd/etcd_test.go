// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/storetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// start starts servers for a test, or skips it where there are none.
func start(t testing.TB, n int, flags ...string) *storeserver.Etcds {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	z, err := storeserver.StartEtcds(ctx, t.TempDir(), n, flags...)
	if errors.Is(err, storeserver.ErrAbsent) {
		t.Skip("SKIPPED: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Close)
	return z
}

// away are the proxies of clients, which can be cut off each by itself.
type away struct {
	mu      sync.Mutex
	proxies map[metastore.Backend][]*storeserver.Proxy
}

// client makes a client with a proxy to each server.
func (a *away) client(t testing.TB, addrs []string, o Options) *Backend {
	t.Helper()
	var proxies []*storeserver.Proxy
	o.Endpoints = nil
	for _, addr := range addrs {
		p, err := storeserver.NewProxy(addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		proxies = append(proxies, p)
		o.Endpoints = append(o.Endpoints, p.Addr())
	}
	b, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.proxies == nil {
		a.proxies = map[metastore.Backend][]*storeserver.Proxy{}
	}
	a.proxies[b] = proxies
	return b
}

// cut cuts a client off, or heals that.
func (a *away) cut(b metastore.Backend, cut, reset bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.proxies[b] {
		if cut {
			p.Isolate()
		} else {
			p.Heal()
		}
		if reset {
			p.Reset()
		}
	}
}

// engine is servers as the suite wants them. Connections of clients that are cut off are reset too, or just silent.
// Sessions are short; with three servers they are long enough for another leader to be elected.
func engine(t *testing.T, n int, reset bool) storetest.Engine {
	z, clients := start(t, n), &away{}
	ttl := 2 * time.Second
	if n > 1 {
		ttl = 5 * time.Second
	}
	signal := func(s syscall.Signal) func(testing.TB, int) {
		return func(_ testing.TB, i int) { z.Servers[i].Signal(s) }
	}
	return storetest.Engine{
		New: func(t testing.TB) metastore.Backend {
			return clients.client(t, z.Addrs(), Options{TTL: ttl})
		},
		Disconnect: func(_ testing.TB, b metastore.Backend) { clients.cut(b, true, reset) },
		Reconnect:  func(_ testing.TB, b metastore.Backend) { clients.cut(b, false, false) },
		Expire: func(t testing.TB, b metastore.Backend) {
			s, err := b.Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.(*Backend).client.Revoke(t.Context(), s.(*session).lease)
			if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) { // it has ended by itself
				t.Fatal(err)
			}
		},
		Servers: n,
		Kill:    func(_ testing.TB, i int) { z.Servers[i].Kill() },
		Restart: func(t testing.TB, i int) {
			if err := z.Servers[i].Start(); err != nil {
				t.Fatal(err)
			}
		},
		Pause:    signal(syscall.SIGSTOP),
		Continue: signal(syscall.SIGCONT),
		Timeout:  90 * time.Second,
	}
}

func TestOneServer(t *testing.T) { storetest.Run(t, engine(t, 1, false)) }

func TestThreeServers(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: a minute of killing and stopping servers")
	}
	storetest.Run(t, engine(t, 3, true))
}
