// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/metastore"
)

// Proxied is an engine whose clients, which dial makes, reach each server by a proxy of their own, so that each can be
// cut off by itself: with reset both sides hear of it, without it nobody does. The caller gives the other hooks.
func Proxied(servers []string, reset bool, dial func(t testing.TB, addrs []string) metastore.Backend) Engine {
	var mu sync.Mutex
	proxies := map[metastore.Backend][]*forward.Forwarder{}
	each := func(b metastore.Backend, f func(p *forward.Forwarder)) {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range proxies[b] {
			f(p)
		}
	}
	return Engine{
		New: func(t testing.TB) metastore.Backend {
			t.Helper()
			var mine []*forward.Forwarder
			var addrs []string
			for _, server := range servers {
				p, err := forward.New("", server)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(p.Close)
				mine, addrs = append(mine, p), append(addrs, p.Addr())
			}
			b := dial(t, addrs)
			mu.Lock()
			defer mu.Unlock()
			proxies[b] = mine
			return b
		},
		Disconnect: func(_ testing.TB, b metastore.Backend) {
			each(b, (*forward.Forwarder).Isolate)
			if reset {
				each(b, (*forward.Forwarder).Reset)
			}
		},
		Reconnect: func(_ testing.TB, b metastore.Backend) { each(b, (*forward.Forwarder).Heal) },
		Servers:   len(servers),
	}
}

// RunServers is [Run] for one server and for three, at the same time. With -short three are run only where it takes
// more than one: RunFaults.
func RunServers(t *testing.T, start func(t testing.TB, servers int, failing bool) Engine) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("Servers%d", n), func(t *testing.T) {
			t.Parallel()
			if n > 1 && testing.Short() {
				RunFaults(t, start(t, n, true))
				return
			}
			Run(t, func(t testing.TB, failing bool) Engine { return start(t, n, failing) })
		})
	}
}
