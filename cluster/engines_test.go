// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/forward"
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
	name   string
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
	proxy, err := forward.New("", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	b, err := p.dial(proxy.Addr(), p.life)
	if err != nil {
		t.Fatal(err)
	}
	return &behindProxy{t: t, proxy: proxy, backend: b}, b
}

// behindProxy cuts a client off.
type behindProxy struct {
	t       *testing.T
	proxy   *forward.Forwarder
	backend metastore.Backend

	mu     sync.Mutex
	ending bool // EndSession waits
}

func (b *behindProxy) Disconnect() { b.proxy.Isolate() }

// Reconnect doesn't, where it meets EndSession: that does when it is done.
func (b *behindProxy) Reconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ending {
		b.proxy.Heal()
	}
}

// setEnding cuts the client off, or ends that.
func (b *behindProxy) setEnding(ending bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ending = ending; ending {
		b.proxy.Isolate()
	} else {
		b.proxy.Heal()
	}
}

// EndSession cuts the client off until its session is lost.
func (b *behindProxy) EndSession() {
	s, err := b.backend.Session(b.t.Context())
	if err != nil {
		b.t.Error(err)
		return
	}
	b.setEnding(true)
	defer b.setEnding(false)
	select {
	case <-s.Lost():
	case <-time.After(30 * time.Second):
		b.t.Error("the session of a client that is cut off isn't lost")
	}
}

// dialers make clients of the engines that are processes.
var dialers = map[string]func(addr string, ttl time.Duration) (metastore.Backend, error){
	"etcd": func(addr string, ttl time.Duration) (metastore.Backend, error) {
		return etcd.New(context.Background(), etcd.Options{Endpoints: []string{addr}, TTL: ttl})
	},
	"zk": func(addr string, ttl time.Duration) (metastore.Backend, error) {
		return zk.New(zk.Options{Servers: []string{addr}, TTL: ttl})
	},
}

// sessions is how long a session of a process lives: where every processor is busy, clients have been seen to stand
// still for 2.3 s. What is about members that stay takes longLived.
const (
	sessions  = 6 * time.Second
	longLived = 30 * time.Second
)

// startEngine starts a server that ends with the test, or skips the test.
func startEngine(t *testing.T, name string) engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p := &process{name: name, life: sessions, dial: dialers[name]}
	var err error
	switch name {
	case "memory":
		return memory{mem.NewServer(200 * time.Millisecond)}
	case "etcd":
		var z *storeserver.Etcds
		if z, err = storeserver.StartEtcds(ctx, t.TempDir(), 1); err == nil {
			t.Cleanup(z.Close)
			p.server, p.ready, p.addr = z.Servers[0], z.Servers[0].Ready, z.Servers[0].Addr()
		}
	default:
		var z *storeserver.Ensemble
		if z, err = storeserver.StartEnsemble(ctx, t.TempDir(), 1, storeserver.ZKOptions{}); err == nil {
			t.Cleanup(z.Close)
			p.server, p.ready, p.addr = z.Servers[0], z.Ready, z.Servers[0].Addr()
		}
	}
	storeserver.Need(t, err)
	return p
}

// TestOnEngines runs the tests that need a store on each engine, at the same time: most of their time they wait for
// sessions to end. Those that stop the server have one of their own.
func TestOnEngines(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"memory", "etcd", "zk"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := startEngine(t, name)
			for _, test := range []struct {
				name  string
				stops bool
				run   func(*fixture)
			}{
				{"ViewEqualsStore", true, viewEqualsStore}, // the longest first
				{"CloseEndsCalls", false, closeEndsCalls},
				{"JoinClosed", false, joinClosed},
				{"StoreOutage", true, storeOutage},
				{"LifeOfAServer", false, lifeOfAServer},
				{"PartitionEndsByItself", false, partitionEndsByItself},
				{"RequestIsOvertaken", false, requestIsOvertaken},
				{"AskedInALifeBefore", false, askedInALifeBefore},
				{"RefusedAtJoin", false, refusedAtJoin},
				{"KeysOfADeadProcess", false, keysOfADeadProcess},
				{"HeldByADeadProcess", false, heldByADeadProcess},
				{"ShownDeadLetters", false, shownDeadLetters},
				{"SessionLost", false, sessionLost},
				{"KeyIsDeleted", false, keyIsDeleted},
				{"KeyIsOverwritten", false, keyIsOverwritten},
				{"Malformed", false, malformed},
				{"Drain", false, drain},
				{"Events", false, events},
				{"NoLostWakeUp", false, noLostWakeUp},
				{"OneLeader", false, oneLeader},
				{"LeadershipEnds", false, leadershipEnds},
				{"LeadsInThisLife", false, leadsInThisLife},
				{"TornForGood", false, tornForGood},
				{"AvailableOfUpMembers", false, availableOfUpMembers},
				{"AskedWhileItLeaves", false, askedWhileItLeaves},
				{"AnotherLifeAnswers", false, anotherLifeAnswers},
				{"RemovedWhileItComesBack", false, removedWhileItComesBack},
			} {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					on := shared
					if test.stops {
						on = startEngine(t, name)
					}
					test.run(setUpOn(t, on))
				})
			}
		})
	}
}

// onProcesses runs a test on each engine that other processes can reach.
func onProcesses(t *testing.T, run func(t *testing.T, p *process)) {
	t.Parallel()
	for _, name := range []string{"etcd", "zk"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, startEngine(t, name).(*process))
		})
	}
}
