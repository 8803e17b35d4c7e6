// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/etcd"
	"github.com/disco-sim/disco/metastore/mem"
	"github.com/disco-sim/disco/metastore/zk"
)

// engine is a server of a store, as the tests use it.
type engine interface {
	ttl() time.Duration // of clients' sessions
	client(t *testing.T) (client, metastore.Backend)
	stop(t *testing.T) // by SIGKILL, where it is a process
	start(t *testing.T)
}

// client is what may happen to one of an engine's clients.
type client interface {
	EndSession()
	Disconnect()
	Reconnect()
}

// under is the engine on which tests run, or nil: memory. It is changed between tests only.
var under engine

// memory is the engine in memory.
type memory struct{ *mem.Server }

func (m memory) ttl() time.Duration { return 200 * time.Millisecond }
func (m memory) stop(*testing.T)    { m.Stop() }
func (m memory) start(*testing.T)   { m.Start() }
func (m memory) client(*testing.T) (client, metastore.Backend) {
	c := m.NewClient()
	return c, c
}

// process is an engine that is a process; its clients have a proxy each.
type process struct {
	life   time.Duration
	addr   string
	dial   func(addr string, ttl time.Duration) (metastore.Backend, error)
	server interface {
		Start() error
		Kill()
	}
	ready func(context.Context) error
}

func (p *process) ttl() time.Duration { return p.life }
func (p *process) stop(*testing.T)    { p.server.Kill() }

func (p *process) start(t *testing.T) {
	t.Helper()
	if err := errors.Join(p.server.Start(), p.ready(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func (p *process) client(t *testing.T) (client, metastore.Backend) {
	t.Helper()
	proxy, err := storeserver.NewProxy(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	b, err := p.dial(proxy.Addr(), p.life)
	if err != nil {
		t.Fatal(err)
	}
	return &behindProxy{t, proxy, b}, b
}

// behindProxy cuts a client off.
type behindProxy struct {
	t       *testing.T
	proxy   *storeserver.Proxy
	backend metastore.Backend
}

func (b *behindProxy) Disconnect() { b.proxy.Isolate() }
func (b *behindProxy) Reconnect()  { b.proxy.Heal() }

// EndSession cuts the client off until its session is lost.
func (b *behindProxy) EndSession() {
	s, err := b.backend.Session(b.t.Context())
	if err != nil {
		b.t.Error(err)
		return
	}
	b.proxy.Isolate()
	defer b.proxy.Heal()
	select {
	case <-s.Lost():
	case <-time.After(30 * time.Second):
		b.t.Error("the session of a client that is cut off isn't lost")
	}
}

// engineNames are the engines that are processes.
var engineNames = []string{"etcd", "zk"}

// dialers make clients of them.
var dialers = map[string]func(addr string, ttl time.Duration) (metastore.Backend, error){
	"etcd": func(addr string, ttl time.Duration) (metastore.Backend, error) {
		return etcd.New(context.Background(), etcd.Options{Endpoints: []string{addr}, TTL: ttl})
	},
	"zk": func(addr string, ttl time.Duration) (metastore.Backend, error) {
		return zk.New(zk.Options{Servers: []string{addr}, TTL: ttl})
	},
}

// startEngine starts a server that ends with the test, or skips the test.
func startEngine(t *testing.T, name string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p := &process{life: 2 * time.Second, dial: dialers[name]}
	var err error
	if name == "etcd" {
		var z *storeserver.Etcds
		if z, err = storeserver.StartEtcds(ctx, t.TempDir(), 1); err == nil {
			t.Cleanup(z.Close)
			p.server, p.ready, p.addr = z.Servers[0], z.Servers[0].Ready, z.Servers[0].Addr()
		}
	} else {
		var z *storeserver.Ensemble
		if z, err = storeserver.StartEnsemble(ctx, t.TempDir(), 1, storeserver.ZKOptions{}); err == nil {
			t.Cleanup(z.Close)
			p.server, p.ready, p.addr = z.Servers[0], z.Ready, z.Servers[0].Addr()
		}
	}
	if errors.Is(err, storeserver.ErrAbsent) {
		t.Skipf("SKIPPED: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOnEngines runs the tests that need a store on real servers.
func TestOnEngines(t *testing.T) {
	for _, name := range engineNames {
		t.Run(name, func(t *testing.T) {
			under = startEngine(t, name)
			defer func() { under = nil }()
			for _, test := range []struct {
				name string
				run  func(*testing.T)
			}{
				{"LifeOfAServer", TestLifeOfAServer},
				{"PartitionEndsByItself", TestPartitionEndsByItself},
				{"RequestIsOvertaken", TestRequestIsOvertaken},
				{"RefusedAtJoin", TestRefusedAtJoin},
				{"KeysOfADeadProcess", TestKeysOfADeadProcess},
				{"SessionLost", TestSessionLost},
				{"KeyIsDeleted", TestKeyIsDeleted},
				{"StoreOutage", TestStoreOutage},
				{"Malformed", TestMalformed},
				{"Drain", TestDrain},
				{"Events", TestEvents},
				{"NoLostWakeUp", TestNoLostWakeUp},
				{"OneLeader", TestOneLeader},
				{"ViewEqualsStore", TestViewEqualsStore},
			} {
				t.Run(test.name, test.run)
			}
		})
	}
}
