// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/storetest"
)

// start starts ZooKeepers that end with the test, or skips it. Sessions last up to 10 s.
func start(t testing.TB, n int) *storeserver.Ensemble {
	t.Helper()
	return startWith(t, n, storeserver.ZKOptions{Tick: 500 * time.Millisecond})
}

func startWith(t testing.TB, n int, o storeserver.ZKOptions) *storeserver.Ensemble {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	z, err := storeserver.StartEnsemble(ctx, t.TempDir(), n, o)
	storeserver.Need(t, err)
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
	t.Cleanup(func() { _ = b.Close() })
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

// engine is the conformance suite's view of an ensemble. Every client has proxies of its own. Where servers fail, ticks
// and sessions are short.
func engine(t testing.TB, n int, failing bool) storetest.Engine {
	tick := 500 * time.Millisecond
	if failing {
		tick = 200 * time.Millisecond
	}
	z := startWith(t, n, storeserver.ZKOptions{Tick: tick})
	var addrs []string // past the servers' own proxies
	for _, s := range z.Servers {
		addrs = append(addrs, s.Addr())
	}
	e := storetest.Proxied(addrs, false, func(t testing.TB, addrs []string) metastore.Backend {
		return client(t, Options{Servers: addrs, TTL: 20 * tick})
	})
	e.Expire = func(t testing.TB, b metastore.Backend) { expire(t, b.(*Backend)) }
	e.Kill = func(_ testing.TB, i int) { z.Servers[i].Kill() }
	e.Restart = func(t testing.TB, i int) {
		if err := z.Servers[i].Start(); err != nil {
			t.Error(err)
		}
	}
	e.Pause = func(_ testing.TB, i int) { z.Servers[i].Signal(syscall.SIGSTOP) }
	e.Continue = func(_ testing.TB, i int) { z.Servers[i].Signal(syscall.SIGCONT) }
	return e
}

func TestConformance(t *testing.T) { storetest.RunServers(t, engine) }
