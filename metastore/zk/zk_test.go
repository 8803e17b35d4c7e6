// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/storetest"
)

// start starts ZooKeepers that end with the test, or skips it.
func start(t testing.TB, n int) *storeserver.Ensemble {
	t.Helper()
	return startWith(t, n, storeserver.ZKOptions{})
}

func startWith(t testing.TB, n int, o storeserver.ZKOptions) *storeserver.Ensemble {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	z, err := storeserver.StartEnsemble(ctx, t.TempDir(), n, o)
	if errors.Is(err, storeserver.ErrAbsent) {
		t.Skipf("SKIPPED: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Close)
	return z
}

// client makes a client that is closed with the test.
func client(t testing.TB, o Options) *Backend {
	t.Helper()
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// expire ends a client's session at the servers.
func expire(t testing.TB, b *Backend) {
	t.Helper()
	s, err := b.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mine := s.(*link)
	for mine.alive() { // the client, too, takes its session up again when it has been cut off
		same := &link{id: mine.id, secret: mine.secret, ttl: mine.ttl, lost: make(chan struct{})}
		same.saw(mine.zxid.Load())
		c, r, err := b.dial(t.Context(), b.o.Servers[0], same, 10*time.Second)
		if err != nil {
			continue
		}
		var reads sync.WaitGroup
		reads.Go(func() { c.read(r) })
		c.bye()
		c.fail(errExpired)
		reads.Wait()
		same.lose()
		time.Sleep(10 * time.Millisecond)
	}
}

// engine is the conformance suite's view of an ensemble. Every client has proxies of its own.
func engine(z *storeserver.Ensemble) storetest.Engine {
	var mu sync.Mutex
	proxies := map[metastore.Backend][]*storeserver.Proxy{}
	each := func(b metastore.Backend, f func(p *storeserver.Proxy)) {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range proxies[b] {
			f(p)
		}
	}
	return storetest.Engine{
		New: func(t testing.TB) metastore.Backend {
			var mine []*storeserver.Proxy
			var addrs []string
			for _, s := range z.Servers {
				p, err := storeserver.NewProxy(s.Addr())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(p.Close)
				mine, addrs = append(mine, p), append(addrs, p.Addr())
			}
			b, err := New(Options{Servers: addrs, TTL: 4 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			proxies[b] = mine
			return b
		},
		Disconnect: func(_ testing.TB, b metastore.Backend) { each(b, (*storeserver.Proxy).Isolate) },
		Reconnect:  func(_ testing.TB, b metastore.Backend) { each(b, (*storeserver.Proxy).Heal) },
		Expire:     func(t testing.TB, b metastore.Backend) { expire(t, b.(*Backend)) },
		Servers:    len(z.Servers),
		Kill:       func(_ testing.TB, i int) { z.Servers[i].Kill() },
		Restart: func(t testing.TB, i int) {
			if err := z.Servers[i].Start(); err != nil {
				t.Error(err)
			}
		},
		Pause:    func(_ testing.TB, i int) { z.Servers[i].Signal(syscall.SIGSTOP) },
		Continue: func(_ testing.TB, i int) { z.Servers[i].Signal(syscall.SIGCONT) },
	}
}

func TestConformance(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("Servers%d", n), func(t *testing.T) {
			e := engine(start(t, n))
			storetest.Run(t, e)
			storetest.RunStore(t, e)
			storetest.RunHistories(t, e)
		})
	}
}
